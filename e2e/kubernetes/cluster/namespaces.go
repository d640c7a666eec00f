package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces are those that the process of a cluster has of its own.
const Namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Enter makes the mounts of new namespaces. What is written to /run and /var/log is in memory and gone with them; that is so for
// /var/lib, too, unless lib names a folder for it.
func Enter(name, lib string) error {
	storage := mount{"tmpfs", "/var/lib", "tmpfs", 0}
	if lib != "" {
		storage = mount{lib, "/var/lib", "", unix.MS_BIND}
	}
	for _, m := range []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED}, // mounts reach containers
		{"proc", "/proc", "proc", 0},
		storage,
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	return unix.Sethostname([]byte(name))
}

type mount struct {
	from, to, kind string
	flags          uintptr
}

// holding names, in the environment of a process, the node whose namespaces it holds; holdingLib the folder for /var/lib.
const (
	holding    = "TEESCOPE_CLUSTER_NODE"
	holdingLib = "TEESCOPE_CLUSTER_LIB"
)

// HoldNode holds the namespaces of a node until it is killed, if Join has started this process for that. Every program that starts a
// cluster calls it first.
func HoldNode() {
	name := os.Getenv(holding)
	if name == "" {
		return
	}
	signal.Ignore(syscall.SIGCHLD) // the kernel then removes ended processes that nobody waits for
	if err := Enter(name, os.Getenv(holdingLib)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("entered")
	for {
		_ = unix.Pause() // nothing is left to do for Go, which would call that a deadlock
	}
}

// RemoveCgroups removes the control groups of nodes that no process is in, in every hierarchy.
func RemoveCgroups() {
	for _, top := range Cgroups() {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			_ = unix.Rmdir(dir)
		}
	}
}

// Cgroups lists the control groups of nodes that there are.
func Cgroups() (all []string) {
	for _, name := range []string{First, Second} {
		for _, pattern := range []string{"/sys/fs/cgroup/*/" + name, "/sys/fs/cgroup/" + name} {
			found, _ := filepath.Glob(pattern)
			all = append(all, found...)
		}
	}
	return all
}

// makeCgroups makes a node's control groups: two kubelets must not take each other's groups for leftovers.
func makeCgroups(name string) error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if _, v2 := os.Stat("/sys/fs/cgroup/cgroup.procs"); v2 == nil {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	if err != nil {
		return err
	}
	for _, procs := range hierarchies {
		if err := os.Mkdir(filepath.Join(filepath.Dir(procs), name), 0o755); err != nil {
			return err
		}
	}
	return nil
}
