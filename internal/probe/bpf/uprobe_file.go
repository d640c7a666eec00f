package bpf

// Opens the file that a uprobe is attached to, and identifies it. Paths may change or lead to other files meanwhile, so
// the file is held open and compared by identity.

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
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
	// content is the file, through a counter in tests.
	content io.ReaderAt
	stat    unix.Stat_t
	host    *host.Host
}

// OpenExecutable opens a regular file; inode, unless 0, is what it must have.
func OpenExecutable(h *host.Host, path string, inode uint64) (*Executable, error) {
	f, st, err := h.Open(path)
	switch {
	case inode != 0 && (err == nil && st.Ino != inode || errors.Is(err, host.ErrNotRegular)):
		if f != nil {
			_ = f.Close()
		}
		return nil, fmt.Errorf("open %s: it is another file by now: %w", path, fs.ErrNotExist)
	case err != nil:
		return nil, err
	}
	return &Executable{Path: path, ID: FileID{st.Ino, st.Size, st.Mtim.Nano()}, file: f, content: f, stat: st, host: h}, nil
}

// String names the file, also among those that had its path before, for texts that everybody may read.
func (x *Executable) String() string {
	return fmt.Sprintf("%s (inode %d of device %d)", host.PublicName(x.Path, "a file of a user"), x.ID.Inode, x.stat.Dev)
}

// descriptor is a path of this process that leads to the file, whatever its name means by now.
func (x *Executable) descriptor() string { return "/proc/self/fd/" + strconv.Itoa(int(x.file.Fd())) }

// Close closes the file.
func (x *Executable) Close() error { return x.file.Close() }

// Deleted reports whether the file has no name left.
func (x *Executable) Deleted() bool {
	var st unix.Stat_t
	return unix.Fstat(int(x.file.Fd()), &st) == nil && st.Nlink == 0
}

// ErrNotX86 is the error of a file that is not a 64-bit x86 program.
var ErrNotX86 = errors.New("not a 64-bit x86 program")

// Functions returns the offsets in the file of those of the named functions that it defines, by name, from .dynsym and
// .symtab, and whether it has no .symtab: a stripped file does not name its inner functions. Each file is read once, also
// one that cannot be used.
func (x *Executable) Functions(names []string) (offsets map[string]uint64, stripped bool, err error) {
	found := x.inspect(names)
	if err := found.err; err != nil {
		return nil, false, fmt.Errorf("read symbols: %w", err)
	}
	if found.machine != elf.EM_X86_64 {
		return nil, false, fmt.Errorf("read symbols: %w", ErrNotX86)
	}
	return found.offsets, found.stripped, nil
}

func (x *Executable) inspect(names []string) inspection {
	return inspectionsOf(x.host).inspect(x, names, x.host.Now())
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
