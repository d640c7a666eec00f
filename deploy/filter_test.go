package deploy

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/probe/bpf"
)

// filterVariable has the names of the system calls that a program of TestMain may make.
const filterVariable = "TEESCOPE_TEST_FILTER"

// filtered lists the system calls that a unit's SystemCallFilter permits, by the groups of this machine's systemd, or nothing without it.
func filtered(t *testing.T, words []string) (names []string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed (package systemd): without a filter of system calls")
		return nil
	}
	out, err := exec.Command(tool, "syscall-filter", "--no-pager").Output()
	if err != nil {
		t.Fatalf("systemd-analyze syscall-filter: %v", err)
	}
	groups, group := map[string][]string{}, ""
	for line := range strings.Lines(string(out)) {
		word := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "@"):
			group = word
		case group != "" && word != "" && !strings.HasPrefix(word, "#"):
			groups[group] = append(groups[group], word)
		}
	}
	if len(groups["@system-service"]) == 0 || len(groups["@default"]) == 0 {
		t.Fatalf("systemd-analyze lists %d groups of system calls", len(groups))
	}
	var add func(word string)
	add = func(word string) {
		if !strings.HasPrefix(word, "@") {
			names = append(names, word)
		}
		for _, w := range groups[word] {
			add(w)
		}
	}
	for _, w := range append([]string{"@default"}, words...) { // systemd permits the first always
		add(w)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// execFiltered becomes another program that may make these system calls only; others give EPERM. It returns only an error.
func execFiltered(names, argv []string) error {
	var filter []unix.SockFilter
	const number = 0 // its place in struct seccomp_data (seccomp(2))
	filter = append(filter, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number})
	for nr := range 1024 {
		if slices.Contains(names, bpf.SyscallName(nr)) {
			filter = append(filter,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jf: 1},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		}
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, filterVariable+"=") })
	runtime.LockOSThread() // the filter is the thread's
	if _, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return os.NewSyscallError("execve "+argv[0], syscall.Exec(argv[0], argv, environment))
}
