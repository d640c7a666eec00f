package environment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/workloads/micro"
)

// worker writes the real worker into a folder.
func worker(t *testing.T, dir string) string {
	t.Helper()
	if micro.Program == nil {
		t.Skipf("no worker for %s", runtime.GOARCH)
	}
	name := filepath.Join(dir, "micro")
	if err := host.Local().Install(name, micro.Program, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd.Args[0], err, stderr.Bytes())
	}
	return out
}

func from(t *testing.T, capture []byte) result.Environment {
	t.Helper()
	u := unpack(t, capture)
	e := Capture(u, tee.Detect(u, kinds.All))
	explained(t, "the worker's capture", &e)
	return e
}

// TestWorkerHere captures this machine through the worker and directly: both must be equal, except for what only the
// worker can know.
func TestWorkerHere(t *testing.T) {
	out := output(t, exec.Command(worker(t, t.TempDir()), append([]string{"capture"}, Paths()...)...))
	t.Logf("%d bytes", len(out))
	got := from(t, out)
	h := host.Local()
	want := Capture(h, tee.Detect(h, kinds.All))
	explained(t, "this machine", &want)
	if got.Software.Libc == "" && got.Missing["software.libc"] == "" {
		t.Error("nothing is said of the C library")
	}
	got.Software.Libc, want.Missing["software.libc"] = "", got.Missing["software.libc"]
	delete(got.Missing, "software.libc")
	delete(want.Missing, "software.libc")
	same(t, got, want)
}

func same(t *testing.T, got, want result.Environment) {
	t.Helper()
	g, err1 := json.MarshalIndent(got, "", " ")
	w, err2 := json.MarshalIndent(want, "", " ")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("through the worker %s\ndirectly %s", g, w)
	}
}

// TestWorkerOnFixtures runs the worker with a fixture as its root folder: its capture must read like the fixture
// itself. CPUID is the fixture's in both, since the worker can only ask the real one, and so are commands, which it
// does not run.
func TestWorkerOnFixtures(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing the root folder needs root")
	}
	detectors, err := filepath.Glob("../tee/kinds/testdata/*.txtar")
	if err != nil || len(detectors) == 0 {
		t.Fatalf("no fixtures of the detectors: %v", err)
	}
	for _, path := range append(fixtures(t, "*"), detectors...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := hosttest.Open(t, path)
			want := captured(f)
			answers := outline(tee.Detect(f.Host, kinds.All))
			worker(t, f.Host.Root)
			cmd := exec.Command("/micro", "capture")
			cmd.Dir = "/"
			cmd.Stdin = strings.NewReader(strings.Join(Paths(), "\n"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: f.Host.Root}
			u := unpack(t, output(t, cmd))
			u.CPUID, u.MSR, u.Exec = f.Host.CPUID, f.Host.MSR, f.Host.Exec
			if err := u.RemoveAll(factsFile); err != nil { // system calls answer for the real machine
				t.Fatal(err)
			}
			found := tee.Detect(u, kinds.All)
			if got := outline(found); got != answers {
				t.Errorf("detected through the worker %s\ndirectly %s", got, answers)
			}
			same(t, Capture(u, found), want)
		})
	}
}

// outline is what was detected, without pointers.
func outline(ds []tee.Detection) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s %s %+v %v\n", d.Kind.Name, d.State, d.Facts, d.Err)
	}
	return b.String()
}

// TestWorkerInSandbox captures gVisor, which has its own kernel and shows little of the machine.
func TestWorkerInSandbox(t *testing.T) {
	runsc, err := exec.LookPath("runsc")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs runsc and root")
	}
	name := worker(t, t.TempDir())
	argv := append([]string{"--network=none", "--ignore-cgroups", "do", name, "capture"}, Paths()...)
	in := from(t, output(t, exec.Command(runsc, argv...)))
	if in.Software.Limits["container"] != "gvisor" || in.Hardware.CPUs == 0 || in.Software.Kernel == "" {
		t.Errorf("%+v", in)
	}
	h := host.Local()
	out := Capture(h, tee.Detect(h, kinds.All))
	if in.Hardware.Serial != out.Hardware.Serial || in.Hardware.CPUFamily != out.Hardware.CPUFamily {
		t.Errorf("another machine: %+v, %+v", in.Hardware, out.Hardware)
	}
	changed := map[string]bool{}
	for _, d := range Diff(&out, &in) {
		changed[d.Field] = true
	}
	if !changed["software.kernel"] || changed["hardware.microcode"] || changed["hardware.cpu_family"] {
		t.Errorf("changed: %v", changed)
	}
}

// TestWorkerUnprivileged asks for files that only root may read: the error names permission, not a missing file.
func TestWorkerUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("dropping privileges needs root")
	}
	dir := t.TempDir()
	name := worker(t, dir)
	hidden := filepath.Join(dir, "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "capture", secret, hidden+"/file", hidden+"/*", dir+"/none")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	u := unpack(t, output(t, cmd))
	for _, p := range []string{secret, hidden + "/file", hidden} {
		t.Run(p, func(t *testing.T) {
			if _, err := u.ReadFile(p); !errors.Is(err, os.ErrPermission) {
				t.Errorf("%s: %v", p, err)
			}
		})
	}
	if ok, err := u.Exists(dir + "/none"); ok || err != nil {
		t.Errorf("a file that does not exist: %t, %v", ok, err)
	}
}

// TestWorkerOnLargeAndOddFiles: a file is cut at a MiB, and a device or a pipe is
// not opened.
func TestWorkerOnLargeAndOddFiles(t *testing.T) {
	dir := t.TempDir()
	name := worker(t, dir)
	for n, size := range map[string]int{"fits": 1 << 20, "long": 1<<20 + 1} {
		t.Run(n, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, n), bytes.Repeat([]byte{'\\'}, size), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	c, err := Parse(output(t, exec.Command(name, "capture", dir+"/*", "/dev/null", "/etc/passwd/x")))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range c.Entries {
		got[filepath.Base(e.Path)] = e.Kind
		if e.Kind == kindPart && len(e.Data) != 1<<20 {
			t.Errorf("%s has %d bytes", e.Path, len(e.Data))
		}
	}
	want := map[string]string{"fits": kindFile, "long": kindPart, "pipe": kindNode, "dangling": kindLink, "null": kindNode, "micro": kindFile}
	for n, kind := range want {
		t.Run(n, func(t *testing.T) {
			if got[n] != kind {
				t.Errorf("%s is a %q, want %q", n, got[n], kind)
			}
		})
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}

// TestWorkerInCgroup runs the worker under limits of the kernel.
func TestWorkerInCgroup(t *testing.T) {
	for _, l := range []struct{ name, dir, file, value, want string }{
		{"memory_bytes", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "268435456", "268435456"},
		{"pids", "/sys/fs/cgroup/pids", "pids.max", "50", "50"},
		{"cpus", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "150000", "1.5"},
		{"memory_bytes", "/sys/fs/cgroup", "memory.max", "268435456", "268435456"},
		{"pids", "/sys/fs/cgroup", "pids.max", "50", "50"},
		{"cpus", "/sys/fs/cgroup", "cpu.max", "150000 100000", "1.5"},
	} {
		t.Run(l.dir+"/"+l.file, func(t *testing.T) {
			outer := fmt.Sprintf("%s/teescope-test-%d", l.dir, os.Getpid())
			inner := outer + "/job"
			if _, err := os.Stat(l.dir + "/cgroup.procs"); err != nil {
				t.Skipf("no cgroups here: %v", err)
			}
			if err := os.MkdirAll(inner, 0o755); err != nil {
				t.Skipf("no cgroup can be made: %v", err)
			}
			t.Cleanup(func() {
				if err := errors.Join(os.Remove(inner), os.Remove(outer)); err != nil {
					t.Error(err)
				}
			})
			// The limit is on the cgroup above the worker's.
			if _, err := os.Stat(outer + "/" + l.file); err != nil {
				t.Skipf("no such limit: %v", err)
			}
			if err := os.WriteFile(outer+"/"+l.file, []byte(l.value), 0o644); err != nil {
				t.Skipf("no limit can be set: %v", err)
			}
			argv := []string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, inner, worker(t, t.TempDir()), "capture"}
			e := from(t, output(t, exec.Command("sh", append(argv, Paths()...)...)))
			if got := e.Software.Limits[l.name]; got != l.want {
				t.Errorf("%s is limited to %q, want %q; missing: %v", l.name, got, l.want, e.Missing)
			}
		})
	}
}
