package sources

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

const (
	// lockStack is how many bytes of a waiting thread's stack are searched for the function that takes the lock.
	lockStack = 2048
	// mostCallers is how many return addresses on it are looked up, mostLockThreads how many threads are asked what they wait for.
	mostCallers     = 16
	mostLockThreads = 256
	// longestLockName is how long the name of a symbol or a file in a label may be, in bytes; the end of a longer one is left out.
	longestLockName = 96
	longestFileName = 48
)

// lockNames names locks: by the variable that the lock is in, or else by the function that takes it, or else by the kind of
// memory. Names hold neither addresses nor process ids.
type lockNames struct{ host *host.Host }

// name implements bpf.NameLock.
func (n lockNames) name(pid int, address uint64) (string, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	maps, err := readMaps(n.host, dir)
	if err != nil {
		return "", err
	}
	at, ok := findArea(maps, address)
	if !ok {
		return "", fmt.Errorf("find address of a lock in %s/maps: %w", dir, fs.ErrNotExist)
	}
	if at.file != nil {
		found, err := n.symbols(dir, *at.file, []uint64{address}, false)
		if errors.Is(err, bpf.ErrLater) {
			return "", err
		}
		if s, ok := found.at[address]; err == nil && ok {
			return metric.LockVariable(found.label(s)), nil
		}
	}
	caller, err := n.caller(dir, pid, address, maps)
	switch {
	case errors.Is(err, bpf.ErrLater):
		return "", err
	case err == nil && caller != "":
		return inFunction + caller, nil
	}
	return at.kind, nil
}

// inFunction begins the name of a lock without a variable of its own; the function that takes it follows.
const inFunction = "in "

// symbolsIn are the symbols of a file at addresses of a process.
type symbolsIn struct {
	at map[uint64]bpf.Symbol
	// file is the file in words. A private one is called by its kind, and its symbols do not show.
	file    string
	private bool
}

// label is the name of a symbol with the file that has it, if that is not the program itself. Without one it is the place in
// the file.
func (in symbolsIn) label(s bpf.Symbol) string {
	if in.private || s.Name == "" {
		return fmt.Sprintf("%s+%#x", in.file, s.Address)
	}
	name := shorten(metric.Label(s.Name), longestLockName)
	if s.Plus > 0 {
		name += fmt.Sprintf("+%d", s.Plus)
	}
	if strings.Contains(in.file, ".so") {
		name += " (" + in.file + ")"
	}
	return name
}

// shorten leaves out the end of a long name, such as that of a template: its begin says the namespace and the class.
func shorten(name string, longest int) string {
	if len(name) <= longest {
		return name
	}
	return strings.ToValidUTF8(name[:longest], "") + "..."
}

// fileInWords is the name of a program's file or a library, if it says nothing about what users have on this machine.
func fileInWords(name string) (words string, private bool) {
	base := path.Base(name)
	switch {
	case host.IsPublic(name):
		return shorten(metric.Label(base), longestFileName), false
	case strings.Contains(base, ".so"):
		return "library", true
	}
	return "program", true
}

// symbols returns the symbols at addresses of a file's mapping, or after its end.
func (n lockNames) symbols(dir string, m probe.Mapping, addresses []uint64, code bool) (in symbolsIn, err error) {
	x, err := openMapped(n.host, dir, m)
	if err != nil {
		return in, err
	}
	defer x.Close()
	distances := make([]uint64, len(addresses))
	for i, address := range addresses {
		distances[i] = address - m.Start
	}
	found, err := x.SymbolsAt(m.Offset, distances, code)
	if err != nil {
		return in, err
	}
	in.at = map[uint64]bpf.Symbol{}
	for distance, s := range found {
		in.at[m.Start+distance] = s
	}
	in.file, in.private = fileInWords(m.Path)
	return in, nil
}

// area is the part of a process's memory that an address is in.
type area struct {
	kind string // in words
	// file is the mapping that the address is in, or that ends where the address's anonymous memory begins: variables that
	// begin as zero are there. nil without one.
	file      *probe.Mapping
	anonymous bool
}

// findArea returns the area of an address from a process's maps (proc_pid_maps(5)).
func findArea(maps []byte, address uint64) (area, bool) {
	var file *probe.Mapping
	var last uint64
	for line := range bytes.Lines(maps) {
		from, rest, _ := bytes.Cut(line, []byte("-"))
		to, rest, _ := bytes.Cut(rest, []byte(" "))
		start, err1 := strconv.ParseUint(string(from), 16, 64)
		end, err2 := strconv.ParseUint(string(to), 16, 64)
		if err1 != nil || err2 != nil || len(rest) < 5 {
			continue
		}
		what := ""
		if fields := bytes.Fields(rest); len(fields) > 4 {
			what = string(fields[4])
		}
		switch of := probe.ParseMappings(line); {
		case len(of) == 1:
			file = &of[0]
		case what != "" || start != last:
			file = nil
		}
		last = end
		if address < start || address >= end {
			continue
		}
		a := area{kind: "heap", file: file, anonymous: what == ""}
		switch {
		case rest[3] == 's':
			a.kind, a.file = "shared memory", nil
		case what == "[stack]":
			a.kind = "stack"
		case file != nil && !a.anonymous:
			a.kind = "variables"
		}
		return a, true
	}
	return area{}, false
}

// caller returns the function in which a thread waits for a lock: the first one up its stack that is none of the libraries
// that make locks. It is "" where no thread waits there any more, or where none is found.
func (n lockNames) caller(dir string, pid int, address uint64, maps []byte) (string, error) {
	threads, err := n.host.ReadDir(dir + "/task")
	if err != nil {
		return "", err
	}
	for _, t := range threads[:min(len(threads), mostLockThreads)] {
		text, err := n.host.ReadString(dir + "/task/" + t.Name() + "/syscall")
		if err != nil {
			continue // it has ended, or may not be asked
		}
		f := strings.Fields(text)
		if len(f) != 9 || f[0] != strconv.Itoa(unix.SYS_FUTEX) || parseHex(f[1]) != address {
			continue
		}
		stack := make([]byte, lockStack)
		got, err := n.host.ReadMemory(pid, parseHex(f[7]), stack)
		if err != nil {
			return "", err
		}
		return n.returnsTo(dir, pid, stack[:got], maps)
	}
	return "", nil
}

// parseHex is a number as "0x1f"; 0 for anything else.
func parseHex(s string) uint64 {
	v, _ := strconv.ParseUint(s, 0, 64)
	return v
}

// returnsTo returns the first function to which a stack returns that is not part of a lock. Each file is read once.
func (n lockNames) returnsTo(dir string, pid int, stack, maps []byte) (string, error) {
	code := slices.DeleteFunc(probe.ParseMappings(maps), func(m probe.Mapping) bool { return !m.Exec })
	order, calls := n.calls(pid, stack, code)
	known := map[int]symbolsIn{}
	for _, c := range order {
		in, ok := known[c.mapping]
		if !ok {
			var err error
			if in, err = n.symbols(dir, code[c.mapping], calls[c.mapping], true); errors.Is(err, bpf.ErrLater) {
				return "", err
			}
			known[c.mapping] = in // none after any other error
		}
		s, ok := in.at[c.address]
		if !ok || partOfLock(s.Name) {
			continue
		}
		s.Address -= s.Plus
		s.Plus = 0
		return in.label(s), nil
	}
	return "", nil
}

// call is a call instruction to which a stack returns: an address in it, and the index of its mapping.
type call struct {
	address uint64
	mapping int
}

// calls returns the call instructions to which a stack returns, outside of libraries that make locks, in their order and by
// mapping. Programs rarely keep frame pointers, so each word that follows a call instruction in the code counts as a return
// address.
func (n lockNames) calls(pid int, stack []byte, code []probe.Mapping) (order []call, of map[int][]uint64) {
	of = map[int][]uint64{}
	for looked := 0; len(stack) >= 8 && looked < mostCallers; stack = stack[8:] {
		to := binary.LittleEndian.Uint64(stack)
		i := slices.IndexFunc(code, func(m probe.Mapping) bool { return to > m.Start+longestCall && to < m.End })
		if i < 0 || makesLocks(path.Base(code[i].Path)) {
			continue
		}
		looked++
		before := make([]byte, longestCall)
		if got, err := n.host.ReadMemory(pid, to-longestCall, before); err != nil || got < longestCall || !endsInCall(before) {
			continue
		}
		order, of[i] = append(order, call{to - 1, i}), append(of[i], to-1)
	}
	return order, of
}

// longestCall is how many bytes before a return address are read: calls without prefixes have two to seven.
const longestCall = 8

// endsInCall reports whether x86-64 code may end in a call instruction: E8 with four bytes, or FF /2 with its operand
// (Intel SDM volume 2A, CALL).
func endsInCall(code []byte) bool {
	n := len(code)
	if n >= 5 && code[n-5] == 0xe8 {
		return true
	}
	for length := 2; length <= 7 && length <= n; length++ {
		const mask, call = 0x38, 0x10
		if code[n-length] == 0xff && code[n-length+1]&mask == call && length == callLength(code[n-length+1:]) {
			return true
		}
	}
	return false
}

// callLength is how long FF /2 is, from its ModR/M byte on (Intel SDM volume 2A, table 2-2).
func callLength(operand []byte) int {
	mod, rm := operand[0]>>6, operand[0]&7
	length := 2
	sib := mod != 3 && rm == 4
	if sib {
		length++
	}
	switch {
	case mod == 1:
		length++
	case mod == 2, mod == 0 && rm == 5, mod == 0 && sib && len(operand) > 1 && operand[1]&7 == 5:
		length += 4
	}
	return length
}

// makesLocks reports whether a library only makes locks for others.
func makesLocks(file string) bool {
	for _, prefix := range []string{"libc.", "libc-", "libpthread", "ld-", "libstdc++", "libc++"} {
		if strings.HasPrefix(file, prefix) {
			return true
		}
	}
	return false
}

// partOfLock reports whether a function of a program is one of a library that was linked into it.
func partOfLock(function string) bool {
	for _, part := range []string{"lll_lock", "pthread_", "futex", "lock_contended", "mtx_lock", "RawMutex", "parking_lot"} {
		if strings.Contains(function, part) {
			return true
		}
	}
	return function == "syscall"
}
