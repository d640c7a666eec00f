package bpf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// FileID identifies a file. The device is not part of it: two containers of one image see one
// file through two overlay mounts, whose devices differ, and a uprobe on either is on the file
// below.
type FileID struct {
	Inode          uint64
	Size, Modified int64
}

// Executable is an open program or library. Path is for messages.
type Executable struct {
	Path string
	ID   FileID
	file *os.File
}

// OpenExecutable opens a regular file; inode, unless 0, is what it must have.
func OpenExecutable(h *host.Host, path string, inode uint64) (*Executable, error) {
	// A path below a process's root may be a pipe or a device: opening it for reading could block
	// or have effects.
	look, err := os.OpenFile(h.Path(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(look.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || inode != 0 && st.Ino != inode {
		return nil, fmt.Errorf("open %s: it is another file by now: %w", path, fs.ErrNotExist)
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(look.Fd())))
	if err != nil {
		return nil, err
	}
	return &Executable{Path: path, ID: FileID{st.Ino, st.Size, st.Mtim.Nano()}, file: f}, nil
}

// String names the file, also among those that had its path before.
func (x *Executable) String() string { return fmt.Sprintf("%s (inode %d)", x.Path, x.ID.Inode) }

// Close closes the file.
func (x *Executable) Close() error { return x.file.Close() }

// Deleted reports whether the file has no name left.
func (x *Executable) Deleted() bool {
	var st unix.Stat_t
	return unix.Fstat(int(x.file.Fd()), &st) == nil && st.Nlink == 0
}

// maxSymbols bounds the symbol table that is read, in bytes.
const maxSymbols = 64 << 20

// ErrNotX86 is the error of a file that is not a 64-bit x86 program.
var ErrNotX86 = errors.New("not a 64-bit x86 program")

// Functions returns the offsets in the file of the functions that it defines,
// by name, from .dynsym and .symtab, and whether it has a .symtab: a stripped
// file does not name its inner functions.
func (x *Executable) Functions() (offsets map[string]uint64, stripped bool, err error) {
	defer func() {
		// debug/elf is not hardened against malicious files.
		if r := recover(); r != nil {
			err = fmt.Errorf("read symbols of %s: bad ELF file: %v", x.Path, r)
		}
	}()
	f, err := elf.NewFile(x.file)
	if err != nil {
		return nil, false, fmt.Errorf("read symbols of %s: %w", x.Path, err)
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return nil, false, fmt.Errorf("read symbols of %s: %w", x.Path, ErrNotX86)
	}
	for _, s := range f.Sections {
		if (s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM || s.Type == elf.SHT_STRTAB) && s.Size > maxSymbols {
			return nil, false, fmt.Errorf("read symbols of %s: section %s of %d bytes is too large", x.Path, s.Name, s.Size)
		}
	}
	offsets = map[string]uint64{}
	note := func(symbols []elf.Symbol) {
		for _, s := range symbols {
			if t := elf.ST_TYPE(s.Info); t != elf.STT_FUNC && t != elf.STT_NOTYPE || s.Section == elf.SHN_UNDEF {
				continue
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
					offsets[s.Name] = s.Value - p.Vaddr + p.Off
				}
			}
		}
	}
	dynamic, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, false, fmt.Errorf("read symbols of %s: %w", x.Path, err)
	}
	note(dynamic)
	all, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, false, fmt.Errorf("read symbols of %s: %w", x.Path, err)
	}
	note(all)
	return offsets, len(all) == 0, nil
}

// enclu is the opcode of ENCLU, which enters and resumes enclaves (Intel SDM
// volume 3D, section 40.4).
var enclu = []byte{0x0f, 0x01, 0xd7}

// lockedIncrement is how "lock incq %gs:ADDRESS" begins after its two prefixes,
// with which Gramine counts asynchronous exits; four bytes of address follow.
var lockedIncrement = []byte{0x48, 0xff, 0x04, 0x25}

const lockedIncrementBytes = 10

// Place returns where a hook for the function at an offset may be, or false where there must be
// none: on ENCLU, which the kernel would execute out of line, so the enclave would return there.
// An increment of a counter with a LOCK prefix cannot be hooked (is_prefix_bad in the kernel's
// arch/x86/kernel/uprobes.c), the instruction after it can.
func (x *Executable) Place(offset uint64) (uint64, bool) {
	code := make([]byte, 16)
	if n, err := x.file.ReadAt(code, int64(offset)); err != nil && n < len(enclu) {
		return 0, false
	}
	if bytes.HasPrefix(code, enclu) {
		return 0, false
	}
	const gs, lock = 0x65, 0xf0
	if (code[0] == gs && code[1] == lock || code[0] == lock && code[1] == gs) && bytes.HasPrefix(code[2:], lockedIncrement) {
		return offset + lockedIncrementBytes, true
	}
	return offset, true
}
