package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/web"
)

func TestRunning(t *testing.T) {
	root := t.TempDir()
	id := strings.Repeat("0123456789abcdef", 4)
	for name, text := range map[string]string{
		"20/comm":    "server\n",
		"20/cmdline": "/usr/bin/server\x00--password=secret\x00",
		"20/cgroup":  "0::/system.slice/docker-" + id + ".scope\n",
		"3/comm":     "server\n",
		"3/cmdline":  "",
		"3/cgroup":   "2:cpu:/a\n1:name=systemd:/user.slice/a.scope\n",
		"9/comm":     "other\n",
		"12/comm":    "server\n",
		"12/cmdline": "server: user secret\x00",
		"11/comm":    "server\n", // it has ended: the rest cannot be read
		"30/comm":    "exe\n",    // Gramine's loader re-executes /proc/self/exe
		"30/cmdline": "/usr/lib/gramine/direct/loader\x00/usr/lib/gramine/direct/libpal.so\x00init\x00redis-server\x00",
		"31/comm":    "java\n",
		"31/cmdline": "java\x00-cp\x00/a\x00org.example.Main\x00secret\x00",
		"32/comm":    "java\n",
		"32/cmdline": "java\x00-jar\x00/a/other.jar\x00",
		"self/comm":  "server\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(root, "proc", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
	h := &host.Host{Root: root}
	got, err := running(h, "server", false)
	want := []web.Process{
		{PID: 3, Cgroup: "/user.slice/a.scope"},
		{PID: 11},
		{PID: 12, Command: "server:"},
		{PID: 20, Command: "/usr/bin/server", Cgroup: "/system.slice/docker-" + id + ".scope", Container: id},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("running: %+v, %v; want %+v", got, err, want)
	}
	if got, err := running(h, "exe", false); err != nil || len(got) != 1 || got[0].Command != "redis-server in Gramine" {
		t.Errorf("in a runtime: %+v, %v", got, err)
	}
	for program, want := range map[string]string{
		"redis-server":     `redis-server runs under the process name "exe" (redis-server in Gramine), together with all other processes of that name`,
		"Main":             `Main runs under the process name "java" (java org.example.Main), together with all other processes of that name`,
		"org.example.Main": `org.example.Main runs under the process name "java" (java org.example.Main), together with all other processes of that name`,
		"other.jar":        `other.jar runs under the process name "java" (java other.jar), together with all other processes of that name`,
		"server":           "", // it has its own name
		"java":             "",
		"nobody":           "",
		"":                 "",
	} {
		t.Run(program, func(t *testing.T) {
			if got := runsAs(h, program); got != want {
				t.Errorf("%q: %q, want %q", program, got, want)
			}
		})
	}
	if got, err := running(h, "nobody", false); err != nil || got == nil || len(got) != 0 {
		t.Errorf("a name that nobody has: %v, %v; want an empty list", got, err)
	}
}

// openAt writes what the kernel says of a descriptor of a process that is open on a path.
func openAt(t *testing.T, root, process, descriptor, path, info string) {
	t.Helper()
	dir := filepath.Join(root, "proc", process)
	for _, folder := range []string{"fd", "fdinfo"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:45 / /home rw - nfs host:/home rw\n"
	for name, text := range map[string]string{"comm": "server\n", "mountinfo": mounts, "fdinfo/" + descriptor: info} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(path, filepath.Join(dir, "fd", descriptor)); err != nil {
		t.Fatal(err)
	}
}

// TestOpenFiles: the kernel says which files a process has open, also those that are gone or whose server does not answer.
func TestOpenFiles(t *testing.T) {
	root := t.TempDir()
	for descriptor, d := range map[string][2]string{
		"0": {"/dev/null", "flags:\t0100002\nmnt_id:\t21\nino:\t4\n"},
		"3": {"/no/orders.log", "pos:\t0\nflags:\t02100001\nmnt_id:\t21\nino:\t1234\n"},
		"4": {"/no/orders.log", "pos:\t9\nflags:\t02100001\nmnt_id:\t21\nino:\t1234\n"},
		"5": {"/home/a (deleted)", "flags:\t0100000\nmnt_id:\t22\nino:\t7\n"},
		"6": {"/no/folder", "flags:\t0300000\nmnt_id:\t21\nino:\t8\n"},
		"7": {"socket:[81]", "flags:\t02\nmnt_id:\t9\nino:\t81\n"},
		"8": {"/detached", "flags:\t0100000\nmnt_id:\t99\nino:\t9\n"},
		"9": {"/old/kernel", "flags:\t0100000\nmnt_id:\t21\n"},
	} {
		t.Run(descriptor, func(t *testing.T) {
			openAt(t, root, "3", descriptor, d[0], d[1])
		})
	}
	got, err := running(&host.Host{Root: root}, "server", true)
	want := []web.OpenFile{{Device: "8:1", Inode: "1234", Path: "/no/orders.log"}, {Device: "0:45", Inode: "7", Path: "/home/a (deleted)"}}
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Files, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestOpenFilesAreBounded: however many processes have however many files open, the list stays short.
func TestOpenFilesAreBounded(t *testing.T) {
	for _, c := range []struct{ processes, each, listed int }{{20, 1, mostFilesOf}, {3, 30, mostOpenFiles}} {
		root := t.TempDir()
		for pid := range c.processes {
			for n := range c.each {
				openAt(t, root, strconv.Itoa(pid+1), strconv.Itoa(n), "/"+strings.Repeat("x", 1000), fmt.Sprintf("flags:\t0\nmnt_id:\t21\nino:\t%d\n", n))
			}
		}
		list, err := running(&host.Host{Root: root}, "server", true)
		listed := 0
		for _, p := range list {
			listed += len(p.Files)
			for _, f := range p.Files {
				if len(f.Path) != mostOfPath {
					t.Errorf("a path of %d bytes", len(f.Path))
				}
			}
		}
		if err != nil || len(list) != c.processes || listed != c.listed {
			t.Errorf("%d processes with %d files each: %d processes, %d files, %v; want %d files", c.processes, c.each, len(list), listed, err, c.listed)
		}
	}
}
