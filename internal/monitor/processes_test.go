package monitor

import (
	"os"
	"path/filepath"
	"reflect"
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
		file := filepath.Join(root, "proc", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
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
	links := filepath.Join(root, "proc/3/fd")
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "orders.log")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"0": "/dev/null", "4": file, "5": file, "6": root, "7": "socket:[81]"} {
		if err := os.Symlink(target, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err = running(h, "server", true)
	if err != nil || len(got) != 4 || len(got[0].Files) != 1 || got[0].Files[0].Path != file || got[0].Files[0].Inode == "" || got[0].Files[0].Device == "" || got[1].Files != nil {
		t.Errorf("with open files: %+v, %v; want %s once", got, err, file)
	}
	if got, err := running(h, "exe", false); err != nil || len(got) != 1 || got[0].Command != "redis-server in Gramine" {
		t.Errorf("in a runtime: %+v, %v", got, err)
	}
	for program, want := range map[string]string{
		"redis-server":     `redis-server runs as process "exe" (redis-server in Gramine), with all others of that name`,
		"Main":             `Main runs as process "java" (java org.example.Main), with all others of that name`,
		"org.example.Main": `org.example.Main runs as process "java" (java org.example.Main), with all others of that name`,
		"other.jar":        `other.jar runs as process "java" (java other.jar), with all others of that name`,
		"server":           "", // it has its own name
		"java":             "",
		"nobody":           "",
		"":                 "",
	} {
		if got := runsAs(h, program); got != want {
			t.Errorf("%q: %q, want %q", program, got, want)
		}
	}
	if got, err := running(h, "nobody", false); err != nil || got == nil || len(got) != 0 {
		t.Errorf("a name that nobody has: %v, %v; want an empty list", got, err)
	}
}
