// Package hosttest makes a host.Host from a fixture: one txtar archive that
// holds a small /proc and /sys tree, unpacked into a temporary root.
//
// Names with a slash are files of the machine ("proc/meminfo"). Names without
// one describe the fixture:
//
//	cpuid   lines "leaf subleaf eax ebx ecx edx", hexadecimal; all other leaves read zero
//	msr     lines "cpu register value", hexadecimal, or "cpu register ERRNO"; without it there is no msr device
//	statfs  lines "path device bsize frsize blocks bfree bavail files ffree", the device as "8:1", the rest decimal, or "path ERRNO", with \040 for a space; all other paths are missing
//	mounted lines "path ID": the mount that this process sees on a path, in its mountinfo; all other paths are missing
//	ioctl   lines "device request argument -> answer...": the request and the argument's bytes as they are before addresses are put in, and the bytes of the argument and of each buffer afterwards, hexadecimal, or an ERRNO; the device is a file of the machine
//	perf    lines "cpu|thread N TYPE:CONFIG VALUE ENABLED RUNNING", or an ERRNO at the end: performance counters with their times ("5s"); all others are missing (ENOENT)
//	faults  lines "path ERRNO": paths that may not be read or looked at
//	now     the clock, RFC 3339 (2026-01-02T03:04:05Z without it)
//	links   lines "path -> target": symbolic links
//	dirs    lines "path": empty folders
//	want    what the test expects, compared by the test itself
//
// Names below "bpf/" are BPF map contents: "bpf/PROGRAM/MAP" holds lines
// "index value", 64-bit cells of an array map, decimal; "bpf/PROGRAM/MAP.text"
// holds lines "index text", 16-byte cells.
//
// Names below "exec/" are commands with what they print, a word for each folder:
// "exec/nvidia-smi/-q/-x". One that ends in ".failed" exits with status 1 after
// printing, one that ends in ".hangs" prints nothing and never ends by itself.
// All other commands are missing.
//
// A file at the path of a unix socket is what its other side says: the first
// line at once, then one for each line that it receives. "fd/PID/N" is file N of
// a process, in hexadecimal digits.
package hosttest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/host"
)

// Fixture is an unpacked archive.
type Fixture struct {
	Host *host.Host
	// Files are the machine's files, in archive order, without a leading slash;
	// BPF map files and commands are among them.
	Files []string
	// Meta holds the files that describe the fixture, by name.
	Meta map[string]string
	// Comment is the text above the first file: where the fixture comes from.
	Comment string

	aside    string // a folder outside the root
	maps     map[string]map[string][]byte
	commands map[string][]byte // by words joined with slashes, with the ending that says how they end
}

// Open unpacks the archive at path into a folder that ends with the test.
func Open(t testing.TB, path string) *Fixture {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatalf("open fixture: %v", err)
	}
	f := &Fixture{Meta: map[string]string{}, Comment: string(a.Comment), aside: t.TempDir(), maps: map[string]map[string][]byte{}, commands: map[string][]byte{}}
	root := t.TempDir()
	for _, file := range a.Files {
		switch {
		case strings.HasPrefix(file.Name, "bpf/"):
			if err := f.addMap(file.Name, file.Data); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			f.Files = append(f.Files, file.Name)
		case strings.HasPrefix(file.Name, "exec/"):
			f.commands[strings.TrimPrefix(file.Name, "exec/")] = file.Data
			f.Files = append(f.Files, file.Name)
		case strings.Contains(file.Name, "/"):
			write(t, filepath.Join(root, file.Name), file.Data)
			f.Files = append(f.Files, file.Name)
		default:
			f.Meta[file.Name] = string(file.Data)
		}
	}
	for line := range lines(f.Meta["dirs"]) {
		if err := os.MkdirAll(filepath.Join(root, line), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line := range lines(f.Meta["links"]) {
		name, target, ok := strings.Cut(line, " -> ")
		if !ok {
			t.Fatalf("%s: links: %q: want \"path -> target\"", path, line)
		}
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, p); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if s := strings.TrimSpace(f.Meta["now"]); s != "" {
		if now, err = time.Parse(time.RFC3339, s); err != nil {
			t.Fatalf("%s: now: %v", path, err)
		}
	}
	leaves, err := parseCPUID(f.Meta["cpuid"])
	if err != nil {
		t.Fatalf("%s: cpuid: %v", path, err)
	}
	msrs, err := parseMSR(f.Meta["msr"])
	if err != nil {
		t.Fatalf("%s: msr: %v", path, err)
	}
	stats, err := parseStatfs(f.Meta["statfs"])
	if err != nil {
		t.Fatalf("%s: statfs: %v", path, err)
	}
	f.Host = &host.Host{
		Root: root,
		Now:  func() time.Time { return now },
		CPUID: func(leaf, subleaf uint32) (uint32, uint32, uint32, uint32) {
			r := leaves[[2]uint32{leaf, subleaf}]
			return r[0], r[1], r[2], r[3]
		},
		MSR: func(cpu int, reg uint32) (uint64, error) {
			r, ok := msrs[[2]uint32{uint32(cpu), reg}]
			if !ok {
				r.err = unix.ENOENT
			}
			if r.err != nil {
				return 0, &fs.PathError{Op: "open", Path: fmt.Sprintf("/dev/cpu/%d/msr", cpu), Err: r.err}
			}
			return r.value, nil
		},
		Statfs: func(name string) (host.Filesystem, error) {
			r, ok := stats[name]
			if !ok {
				r.err = unix.ENOENT
			}
			if r.err != nil {
				return r.stat, &fs.PathError{Op: "statfs", Path: name, Err: r.err}
			}
			return r.stat, nil
		},
		Mounted: func(name string) (string, error) {
			for line := range lines(f.Meta["mounted"]) {
				if id, ok := strings.CutPrefix(line, name+" "); ok {
					return id, nil
				}
			}
			return "", &fs.PathError{Op: "find mount of", Path: name, Err: unix.ENOENT}
		},
		Exec: f.exec,
		Start: func(_ context.Context, c host.Cmd) (*host.Process, error) {
			return nil, fmt.Errorf("run %s on a fixture: %w", strings.Join(c.Argv, " "), errors.ErrUnsupported)
		},
		Maps: func(program string) (map[string][]byte, error) {
			m, ok := f.maps[program]
			if !ok {
				return nil, fmt.Errorf("no recorded maps of %s: %w", program, errors.ErrUnsupported)
			}
			own := map[string][]byte{} // a reader may write in its maps
			for name, data := range m {
				own[name] = slices.Clone(data)
			}
			return own, nil
		},
	}
	fakeDevices(t, f.Host, f.Meta["ioctl"])
	f.Host.Faults = map[string]error{}
	for line := range lines(f.Meta["faults"]) {
		name, errno, _ := strings.Cut(line, " ")
		if errnos[errno] == 0 {
			t.Fatalf("%s: faults: %q: want \"path ERRNO\"", path, line)
		}
		f.Host.Faults[name] = errnos[errno]
	}
	fakePerf(t, f.Host, f.Meta["perf"])
	return f
}

// exec answers with what was recorded of a command.
func (f *Fixture) exec(ctx context.Context, c host.Cmd) (host.Output, error) {
	words := strings.Join(c.Argv, "/")
	if out, ok := f.commands[words]; ok {
		return host.Output{Stdout: out}, nil
	}
	if out, ok := f.commands[words+".failed"]; ok {
		return host.Output{Stdout: out, Code: 1}, fmt.Errorf("run %s: exit status 1", c.Argv[0])
	}
	if _, ok := f.commands[words+".hangs"]; ok {
		<-ctx.Done()
		return host.Output{Code: -1}, fmt.Errorf("run %s: signal: terminated", c.Argv[0])
	}
	return host.Output{}, fmt.Errorf("run %s on a fixture: %w: %w", words, fs.ErrNotExist, errors.ErrUnsupported)
}

// RemoveDuring calls do while one of the fixture's Files is missing, so that the
// generic test of a list can see that losing it is noticed.
func (f *Fixture) RemoveDuring(t testing.TB, name string, do func()) {
	t.Helper()
	if program, m, ok := mapOf(name); ok {
		data := f.maps[program][m]
		delete(f.maps[program], m)
		do()
		f.maps[program][m] = data
		return
	}
	if words, ok := strings.CutPrefix(name, "exec/"); ok {
		out := f.commands[words]
		delete(f.commands, words)
		do()
		f.commands[words] = out
		return
	}
	path, aside := filepath.Join(f.Host.Root, name), filepath.Join(f.aside, "file")
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	do()
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
}

// mapOf returns the program and the map of a file of a BPF map.
func mapOf(name string) (program, m string, ok bool) {
	rest, ok := strings.CutPrefix(name, "bpf/")
	program, m, _ = strings.Cut(rest, "/")
	return program, strings.TrimSuffix(m, ".text"), ok
}

// Text returns the contents of one of the fixture's Files; of a BPF map that is its bytes.
func (f *Fixture) Text(t testing.TB, name string) []byte {
	t.Helper()
	if program, m, ok := mapOf(name); ok {
		return f.maps[program][m]
	}
	if words, ok := strings.CutPrefix(name, "exec/"); ok {
		return f.commands[words]
	}
	b, err := os.ReadFile(filepath.Join(f.Host.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ReplaceDuring calls do while one of the fixture's Files has other contents.
func (f *Fixture) ReplaceDuring(t testing.TB, name string, data []byte, do func()) {
	t.Helper()
	old := f.Text(t, name)
	put := func(data []byte) {
		if program, m, ok := mapOf(name); ok {
			f.maps[program][m] = data
			return
		}
		if words, ok := strings.CutPrefix(name, "exec/"); ok {
			f.commands[words] = data
			return
		}
		write(t, filepath.Join(f.Host.Root, name), data)
	}
	put(data)
	do()
	put(old)
}

func (f *Fixture) addMap(name string, data []byte) error {
	program, m, ok := strings.Cut(strings.TrimPrefix(name, "bpf/"), "/")
	if !ok {
		return fmt.Errorf("%s: want bpf/PROGRAM/MAP", name)
	}
	m, text := strings.CutSuffix(m, ".text")
	size := 8
	if text {
		size = 16
	}
	var out []byte
	for line := range lines(string(data)) {
		key, val, _ := strings.Cut(line, " ")
		i, err := strconv.Atoi(key)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if need := (i + 1) * size; need > len(out) {
			out = append(out, make([]byte, need-len(out))...)
		}
		if text {
			copy(out[i*size:(i+1)*size], val)
			continue
		}
		v, err := strconv.ParseUint(val, 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		binary.NativeEndian.PutUint64(out[i*size:], v)
	}
	if f.maps[program] == nil {
		f.maps[program] = map[string][]byte{}
	}
	f.maps[program][m] = out
	return nil
}

func parseCPUID(s string) (map[[2]uint32][4]uint32, error) {
	out := map[[2]uint32][4]uint32{}
	for line := range lines(s) {
		var n [6]uint32
		if _, err := fmt.Sscanf(line, "%x %x %x %x %x %x", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out[[2]uint32{n[0], n[1]}] = [4]uint32{n[2], n[3], n[4], n[5]}
	}
	return out, nil
}

type msr struct {
	value uint64
	err   error
}

func parseMSR(s string) (map[[2]uint32]msr, error) {
	out := map[[2]uint32]msr{}
	for line := range lines(s) {
		var cpu, reg uint32
		var val string
		if _, err := fmt.Sscanf(line, "%x %x %s", &cpu, &reg, &val); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		var m msr
		if errno, ok := errnos[val]; ok {
			m.err = errno
		} else if v, err := strconv.ParseUint(val, 16, 64); err == nil {
			m.value = v
		} else {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out[[2]uint32{cpu, reg}] = m
	}
	return out, nil
}

type statfs struct {
	stat host.Filesystem
	err  error
}

func parseStatfs(s string) (map[string]statfs, error) {
	out := map[string]statfs{}
	for line := range lines(s) {
		name, rest, _ := strings.Cut(line, " ")
		name = strings.ReplaceAll(name, `\040`, " ")
		if errno, ok := errnos[rest]; ok {
			out[name] = statfs{err: errno}
			continue
		}
		var st host.Filesystem
		if _, err := fmt.Sscan(rest, &st.Device, &st.Bsize, &st.Frsize, &st.Blocks, &st.Bfree, &st.Bavail, &st.Files, &st.Ffree); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out[name] = statfs{stat: st}
	}
	return out, nil
}

// errnos are the errors that a fixture can ask for.
var errnos = map[string]syscall.Errno{"EACCES": unix.EACCES, "EIO": unix.EIO, "ENODEV": unix.ENODEV, "ENOENT": unix.ENOENT, "EPERM": unix.EPERM}

// lines yields the lines of s that are neither empty nor comments.
func lines(s string) func(func(string) bool) {
	return func(yield func(string) bool) {
		sc := bufio.NewScanner(strings.NewReader(s))
		for sc.Scan() {
			if l := strings.TrimSpace(sc.Text()); l != "" && !strings.HasPrefix(l, "#") && !yield(l) {
				return
			}
		}
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
