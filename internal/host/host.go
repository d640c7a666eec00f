// Package host is the one door to the machine: files below a root, the clock,
// CPUID, commands and a few system calls. A test hands in a fixture made by
// hosttest and the code under test cannot tell the difference.
//
// It is not a monitoring package: it reads bytes and leaves parsing to the
// packages that know the format.
package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/disk"
)

// Host is the machine as the program sees it. All paths given to its methods
// are slash-separated and absolute on that machine ("/proc/meminfo").
type Host struct {
	// Root is the folder that holds the machine's tree: "/" for the real one.
	Root string
	// Now is the wall clock.
	Now func() time.Time
	// CPUID runs the instruction for a leaf and a subleaf. It returns zeros on
	// architectures that lack it.
	CPUID func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)
	// MSR reads a model-specific register of a CPU. On the real machine that
	// needs the kernel's msr module and root.
	MSR func(cpu int, reg uint32) (uint64, error)
	// Statfs returns the statistics of the file system that a path is on. It
	// can hang for as long as a network file system's server is away.
	Statfs func(name string) (Filesystem, error)
	// Mounted returns the ID of the mount that a path is on, as in this process's own
	// mountinfo.
	Mounted func(name string) (string, error)
	// Exec runs a command to its end. Ending the context ends the command's whole
	// process group. A command that is not installed is fs.ErrNotExist.
	Exec func(context.Context, Cmd) (Output, error)
	// Start runs a command in the background.
	Start func(context.Context, Cmd) (*Process, error)
	// Dial connects to a unix socket, named by its absolute path, or to a TCP port
	// ("127.0.0.1:6379").
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Ioctl opens a device for reading and issues one request to it, whose
	// argument is changed in place. The addresses of refs are put into it first.
	Ioctl func(device string, request uint, arg []byte, refs ...Ref) error
	// Borrow returns a file that another process has open, by its descriptor.
	Borrow func(pid, fd int) (Borrowed, error)
	// Perf opens a group of performance counters that count, and never sample.
	Perf func(PerfTarget, ...PerfEvent) (PerfGroup, error)
	// Maps returns the contents of the BPF maps of a program, by map name, as a
	// fixture recorded them. It is nil on a real machine, where programs are
	// loaded into the kernel.
	Maps func(program string) (map[string][]byte, error)
	// Shared holds what the users of the machine have in common while it is watched,
	// each under a key of its own type. It is nil on a fixture.
	Shared *sync.Map
	// Pages counts the CPU time of answering pages. It is nil on a fixture.
	Pages *Meter
	// Faults are the errors of paths that a recorded machine would not let be
	// read or looked at. It is nil on a real machine.
	Faults map[string]error

	calls *calls // nil on a fixture, whose files do not block
}

// Local is the machine this process runs on.
func Local() *Host { return At("/") }

// At is the machine this process runs on, seen from inside a container that
// has the host's tree, with its /proc and /sys, mounted at root.
func At(root string) *Host {
	h := &Host{Root: root, Shared: new(sync.Map), Pages: new(Meter), calls: new(calls), Now: time.Now, CPUID: cpuid, Exec: run, Start: start, Borrow: borrow, Perf: openPerf}
	h.MSR = func(cpu int, reg uint32) (uint64, error) {
		return msr(h.Path(fmt.Sprintf("/dev/cpu/%d/msr", cpu)), reg)
	}
	h.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		if path.IsAbs(address) {
			return dial(ctx, "unix", h.Path(address))
		}
		return dial(ctx, "tcp", address)
	}
	h.Ioctl = func(device string, request uint, arg []byte, refs ...Ref) error {
		return h.errAt(ioctl(h.Path(device), request, arg, refs...))
	}
	h.Statfs = func(name string) (Filesystem, error) {
		defer h.enter(name)()
		f, err := ReadFilesystem(h.Path(name))
		return f, h.errAt(err)
	}
	h.Mounted = func(name string) (string, error) {
		defer h.enter(name)()
		id, err := readMounted(h.Path(name))
		return id, h.errAt(err)
	}
	return h
}

// IsLocal reports whether h is the machine this process runs on, so that
// system calls (statfs, perf events, BPF) speak of the same machine as files.
// Only a fixture is not.
func (h *Host) IsLocal() bool { return h.Maps == nil }

// Path is the place of name in this process's own file system.
func (h *Host) Path(name string) string { return filepath.Join(h.Root, name) }

// errAt drops the root from a path error, so that messages name the machine's
// own path on fixtures too.
func (h *Host) errAt(err error) error {
	var pe *fs.PathError
	if h.Root != "/" && errors.As(err, &pe) {
		pe.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(pe.Path, h.Root), "/")
	}
	return err
}

// fault is the recorded error of a path, if it has one.
func (h *Host) fault(op, name string) error {
	if err := h.Faults[name]; err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// ReadFile returns the whole of a file: of one of the kernel's below /proc and /sys, or of a regular one as Open opens it.
func (h *Host) ReadFile(name string) ([]byte, error) {
	return h.ReadUpTo(name, math.MaxInt64-1)
}

// ReadUpTo is ReadFile of a file whose length others choose: it fails if the file has more than limit bytes.
func (h *Host) ReadUpTo(name string, limit int64) ([]byte, error) {
	if err := h.fault("read", name); err != nil {
		return nil, err
	}
	defer h.enter(name)()
	read := ReadRegular
	if isKernelFile(name) {
		read = readFile
	}
	b, err := read(h.Path(name), limit)
	return b, h.errAt(err)
}

// ReadString returns a file's text without surrounding white space.
func (h *Host) ReadString(name string) (string, error) {
	b, err := h.ReadFile(name)
	return string(bytes.TrimSpace(b)), err
}

// ReadSwitch returns whether a parameter of the kernel is on: Y or 1, off: N or 0 (param_get_bool). Any other word is an error.
func (h *Host) ReadSwitch(name string) (bool, error) {
	switch s, err := h.ReadString(name); {
	case err != nil:
		return false, err
	case s == "Y" || s == "1":
		return true, nil
	case s == "N" || s == "0":
		return false, nil
	default:
		return false, fmt.Errorf("parse %s: unknown: %.40q, want Y or N", name, s)
	}
}

// ReadUint returns the one decimal number that a file holds. The kernel's numbers reach 2^63 only by falling below 0:
// such a one is an error.
func (h *Host) ReadUint(name string) (uint64, error) {
	s, err := h.ReadString(name)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %.40q is not a count, or has wrapped below 0", name, s)
	}
	return v, nil
}

// ReadDir lists a folder, sorted by name.
func (h *Host) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := h.fault("list", name); err != nil {
		return nil, err
	}
	defer h.enter(name)()
	e, err := disk.ReadDir(h.Path(name))
	return e, h.errAt(err)
}

// Literal returns a path as a pattern that matches nothing else.
func Literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// Stat describes a file or folder, following links.
func (h *Host) Stat(name string) (fs.FileInfo, error) {
	if err := h.fault("stat", name); err != nil {
		return nil, err
	}
	defer h.enter(name)()
	fi, err := disk.Stat(h.Path(name))
	return fi, h.errAt(err)
}

// Exists has three answers: true, false, or an error when it could not tell.
func (h *Host) Exists(name string) (bool, error) {
	_, err := h.Stat(name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

// Readlink returns a symbolic link's target.
func (h *Host) Readlink(name string) (string, error) {
	s, err := os.Readlink(h.Path(name))
	return s, h.errAt(err)
}

// MkdirTemp makes a new folder for files of this process, below the system's
// temporary folder.
func (h *Host) MkdirTemp(prefix string) (string, error) {
	dir, err := os.MkdirTemp(h.Path(os.TempDir()), prefix+"-")
	return "/" + strings.TrimPrefix(strings.TrimPrefix(dir, h.Root), "/"), h.errAt(err)
}

// RemoveTemp removes folders that MkdirTemp made with this prefix in processes that were killed: those of this user that are
// older than an age. Everybody can make such folders with whatever in them, so another user's stays. It goes on until ctx ends.
func (h *Host) RemoveTemp(ctx context.Context, prefix string, age time.Duration) {
	tmp, err := os.OpenRoot(h.Path(os.TempDir()))
	if err != nil {
		return
	}
	defer tmp.Close()
	_ = eachEntry(ctx, tmp, func(name string) {
		if !strings.HasPrefix(name, prefix+"-") {
			return
		}
		was, err := tmp.Lstat(name)
		if err != nil || !was.IsDir() || h.Now().Sub(was.ModTime()) <= age {
			return
		}
		// In a folder of everybody only its owner can put something else in the place of this one, such as a link or a pipe.
		if uid, ok := ownerOf(was); !ok || uid != os.Geteuid() {
			return
		}
		dir, err := tmp.OpenRoot(name)
		if err != nil {
			return
		}
		defer dir.Close()
		if fi, err := dir.Stat("."); err != nil || !os.SameFile(was, fi) { // in a folder that is not such a one
			return
		}
		if eachEntry(ctx, dir, func(name string) { _ = dir.RemoveAll(name) }) == nil {
			_ = tmp.Remove(name)
		}
	})
}

// eachEntry calls do with each name in a folder, until ctx ends. It lists a part at a time, because a folder that everybody may
// write to can hold millions.
func eachEntry(ctx context.Context, folder *os.Root, do func(name string)) error {
	const part = 256
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(part)
		for _, name := range names {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			do(name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Mkdir makes a folder and those above it.
func (h *Host) Mkdir(name string) error { return h.errAt(os.MkdirAll(h.Path(name), 0o755)) }

// LookPath finds a command where Exec and Start find it, on a fixture below its root: a name with a slash is a path, and any
// other is looked up in the folders of PATH, and then in that of the checkout's tools. The result is absolute.
func (h *Host) LookPath(command string) (string, error) {
	if strings.Contains(command, "/") {
		name, err := filepath.Abs(command)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", command, err)
		}
		fi, err := h.Stat(name)
		if err == nil && (!fi.Mode().IsRegular() || fi.Mode()&0o111 == 0) {
			err = &fs.PathError{Op: "run", Path: name, Err: fs.ErrPermission}
		}
		return name, err
	}
	folders := filepath.SplitList(os.Getenv("PATH"))
	if tools := toolsFolder(); tools != "" {
		folders = append(folders, tools)
	}
	for _, dir := range folders {
		name := filepath.Join("/", dir, command)
		if fi, err := h.Stat(name); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", &fs.PathError{Op: "find", Path: command, Err: fs.ErrNotExist}
}

// toolsFolder is where tools/setup.sh puts programs that no package has: .tools/bin of the checkout whose bin has this program,
// or "". It must be of this program's owner, and not writable by everybody: who may put a program there may replace this one.
func toolsFolder() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	bin := filepath.Dir(self)
	tools := filepath.Join(filepath.Dir(bin), ".tools", "bin")
	if filepath.Base(bin) != "bin" {
		return ""
	}
	owner, _, ok := ownedBy(self)
	for _, folder := range []string{filepath.Dir(bin), filepath.Dir(tools), tools} {
		of, mode, is := ownedBy(folder)
		if !ok || !is || !mode.IsDir() || of != owner && of != 0 || mode.Perm()&0o002 != 0 {
			return ""
		}
	}
	return tools
}

// FindOwnProgram finds a program of ours in the folder of the running one, or in PATH.
func (h *Host) FindOwnProgram(command string) (string, error) {
	if self, err := os.Executable(); err == nil {
		name := filepath.Join(filepath.Dir(self), command)
		if fi, err := h.Stat(name); err == nil && fi.Mode().IsRegular() {
			return name, nil
		}
	}
	return h.LookPath(command)
}

// Install writes a file with its mode (0o755 for a program), making the folders above it.
func (h *Host) Install(name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(h.Path(name)), 0o755); err != nil {
		return h.errAt(err)
	}
	// A program that another goroutine starts meanwhile would have the file open for writing
	// until it is replaced, and to start the file then fails with ETXTBSY (golang/go#22315).
	syscall.ForkLock.RLock()
	err := os.WriteFile(h.Path(name), data, mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return h.errAt(err)
	}
	return h.errAt(os.Chmod(h.Path(name), mode)) // the process's umask has taken bits away
}

// Create makes a file, or empties it, to be written piece by piece.
func (h *Host) Create(name string) (io.WriteCloser, error) {
	f, err := os.Create(h.Path(name))
	if err != nil {
		return nil, h.errAt(err)
	}
	return f, nil
}

// Symlink makes a symbolic link, and the folders above it.
func (h *Host) Symlink(target, name string) error {
	if err := h.Mkdir(path.Dir(name)); err != nil {
		return err
	}
	return h.errAt(os.Symlink(target, h.Path(name)))
}

// RemoveAll removes a file or a folder with all that is in it.
func (h *Host) RemoveAll(name string) error {
	p := h.Path(name)
	err := os.RemoveAll(p)
	if errors.Is(err, fs.ErrPermission) {
		// A folder that its owner may not write, as a container's image has them,
		// keeps what is in it.
		_ = filepath.WalkDir(p, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(p)
	}
	return h.errAt(err)
}

// WriteFile replaces a file's contents.
func (h *Host) WriteFile(name string, data []byte) error {
	return h.errAt(disk.WriteFile(h.Path(name), data, 0o644))
}

// Rename moves a file to another name on the same file system.
func (h *Host) Rename(from, to string) error { return h.errAt(os.Rename(h.Path(from), h.Path(to))) }

// Mount mounts a virtual file system (mount(2)); only the real machine can.
func (h *Host) Mount(fstype, target string) error {
	if !h.IsLocal() {
		return fmt.Errorf("mount %s at %s: %w", fstype, target, errors.ErrUnsupported)
	}
	if err := mount(fstype, h.Path(target)); err != nil {
		return fmt.Errorf("mount %s at %s: %w", fstype, target, err)
	}
	return nil
}

// msr reads the msr driver's device of a CPU, whose file offset is the register
// number (msr(4)).
func msr(device string, reg uint32) (uint64, error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, fmt.Errorf("read MSR %#x: %w", reg, err)
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], int64(reg)); err != nil {
		return 0, fmt.Errorf("read MSR %#x: %w", reg, err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}
