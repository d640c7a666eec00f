package sources

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// compile builds a program or library of testdata/runtimes.
func compile(t *testing.T, out string, args ...string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", append([]string{"-O2", "-o", out}, args...)...)
	cmd.Dir = "testdata/runtimes"
	if text, err := cmd.CombinedOutput(); err != nil {
		probetest.Skip(t, "a C compiler", fmt.Errorf("gcc %v: %w: %s", args, err, text))
	}
	return out
}

// conversing is a program that does its work once for each line of input.
type conversing struct {
	t *testing.T
	*await.Program
}

// called returns a name for the program at path by which it becomes a process of that name.
func called(t *testing.T, name, path string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func converse(t *testing.T, argv ...string) *conversing {
	t.Helper()
	c := &conversing{t, await.Converse(t, exec.Command(argv[0], argv[1:]...))}
	t.Cleanup(func() {
		_ = c.In.Close()
		c.ExitStatus(t)
	})
	c.Line(t)
	return c
}

// work makes the program do its work once.
func (c *conversing) work() string {
	c.t.Helper()
	fmt.Fprintln(c.In)
	return c.Line(c.t)
}

// hooking opens the source with its clock controlled by the test.
func hooking(t *testing.T) (*transitions, *time.Time) {
	t.Helper()
	h, now := host.Local(), time.Now()
	h.Now = func() time.Time { return now }
	r, err := runtimes.Open(h, nil)
	if err != nil {
		probetest.Skip(t, "runtimes", fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r.(*transitions), &now
}

// transitionsOf returns the counts of a process: entries, exits, async exits.
func transitionsOf(t *testing.T, r probe.Reader, process, runtime string) (n [3]float64, err error) {
	t.Helper()
	err = r.Read(t.Context(), func(x metric.Sample) {
		for i, d := range []*metric.Desc{enclaveEntries, enclaveExits, enclaveAsyncExits} {
			if x.Desc == d && x.Labels[0] == process && x.Labels[1] == runtime {
				n[i] += x.Value
			}
		}
	})
	return n, err
}

func TestRuntimesAreCountedExactly(t *testing.T) {
	dir := t.TempDir()
	lib := compile(t, dir+"/libsgx_urts.so.2", "-shared", "-fPIC", "urts.c")
	bare := compile(t, dir+"/stripped/libsgx_urts.so.2", "-shared", "-fPIC", "-s", "urts.c")
	occlum := compile(t, dir+"/libocclum-pal.so.0", "-shared", "-fPIC", "occlum.c")
	link := func(name, lib string, more ...string) string {
		return compile(t, dir+"/"+name, append([]string{"host.c", lib, "-Wl,-rpath," + filepath.Dir(lib)}, more...)...)
	}
	device := dir + "/sgx_enclave"
	if err := os.WriteFile(device, make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	name := func() string { return probetest.Name("rt") }
	sdk, stripped, occ, gramine, oe, ego := name(), name(), name(), name(), name(), name()
	cases := []struct {
		process, runtime string
		argv             []string
		// first is what is counted of the first work, each of every later one.
		first, each [3]float64
	}{
		{sdk, "intel_sgx_sdk", []string{link(sdk, lib), "100", "7"}, [3]float64{100, 700}, [3]float64{100, 700}},
		// The OCALL table is noted at the first ECALL and hooked in the round after.
		{stripped, "intel_sgx_sdk", []string{link(stripped, bare), "100", "7"}, [3]float64{100, 0}, [3]float64{100, 700}},
		{occ, "occlum", []string{link(occ, lib, occlum, "-DOCCLUM"), "50", "3"}, [3]float64{50, 150}, [3]float64{50, 150}},
		{gramine, "gramine_loader", []string{called(t, gramine, compile(t, dir+"/gramine/sgx/loader", "gramine.c")), "10", "20", "30"}, [3]float64{11, 200, 300}, [3]float64{11, 200, 300}},
		{oe, "open_enclave", []string{compile(t, dir+"/"+oe, "openenclave.c"), "10", "4", device}, [3]float64{10, 40}, [3]float64{10, 40}},
		{ego, "ego", []string{called(t, ego, compile(t, dir+"/ego-host", "openenclave.c")), "10", "4"}, [3]float64{10, 40}, [3]float64{10, 40}},
	}
	r, _ := hooking(t)
	if s := r.HitSeconds(); s <= 0 {
		t.Errorf("a hit costs %v seconds", s)
	} else {
		t.Logf("a hit costs %.3g s", s)
	}
	for _, c := range cases {
		t.Run(c.runtime+"/"+filepath.Base(c.argv[0])[:2], func(t *testing.T) {
			p := converse(t, c.argv...)
			_, _ = transitionsOf(t, r, c.process, c.runtime) // the round that hooks the file
			if c.runtime == "occlum" {
				p.work() // the call that says so
			}
			var want [3]float64
			for i := range 3 {
				p.work()
				add := c.each
				if i == 0 {
					add = c.first
				}
				for k := range want {
					want[k] += add[k]
				}
				got, err := transitionsOf(t, r, c.process, c.runtime)
				if got != want {
					t.Errorf("after %d: %v, want %v (%v)", i+1, got, want, err)
				}
			}
			// A process that starts later is counted from its first call.
			q := converse(t, c.argv...)
			if c.runtime == "occlum" {
				q.work()
			}
			q.work()
			got, _ := transitionsOf(t, r, c.process, c.runtime)
			for k := range want {
				want[k] += c.each[k]
			}
			if got != want {
				t.Errorf("with a second process: %v, want %v", got, want)
			}
			if err := r.Detach(); err != nil {
				t.Fatal(err)
			}
			p.work()
			if err := r.Attach(); err != nil {
				t.Fatal(err)
			}
			p.work()
			for k := range want {
				want[k] += c.each[k]
			}
			if got, _ := transitionsOf(t, r, c.process, c.runtime); got != want {
				t.Errorf("after a time detached: %v, want %v", got, want)
			}
		})
	}
	events, seconds := r.Spent()
	var sum float64
	for _, s := range seconds {
		sum += s
	}
	if cost := events * r.HitSeconds(); events == 0 || sum < 0.99*cost || sum > 1.01*cost {
		t.Errorf("%v events cost %v seconds, want %v", events, sum, cost)
	}
}

// A library replaced by an upgrade is another file for processes that start later.
func TestRuntimesAfterAnUpgrade(t *testing.T) {
	dir := t.TempDir()
	lib := compile(t, dir+"/libsgx_urts.so.2", "-shared", "-fPIC", "urts.c")
	name := probetest.Name("new")
	app := compile(t, dir+"/"+name, "host.c", lib, "-Wl,-rpath,"+dir)
	old := converse(t, app, "10", "2")
	x, err := bpf.OpenExecutable(host.Local(), lib, 0)
	if err != nil {
		t.Fatal(err)
	}
	id := x.ID
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(compile(t, dir+"/new", "-shared", "-fPIC", "-g", "urts.c"), lib); err != nil {
		t.Fatal(err)
	}
	// The old file has no name any more, but its process still maps it.
	r, now := hooking(t)
	old.work()
	if got, err := transitionsOf(t, r, name, "intel_sgx_sdk"); got != [3]float64{10, 20} {
		t.Errorf("of a deleted library: %v (%v)", got, err)
	}
	fresh := converse(t, app, "10", "2")
	_, _ = transitionsOf(t, r, name, "intel_sgx_sdk")
	fresh.work()
	old.work()
	if got, err := transitionsOf(t, r, name, "intel_sgx_sdk"); got != [3]float64{30, 60} {
		t.Errorf("of both libraries: %v (%v)", got, err)
	}
	if yes, _ := r.Hooked(id); !yes {
		t.Error("the deleted library is not hooked while a process uses it")
	}
	_ = old.In.Close()
	old.ExitStatus(t)
	*now = now.Add(probe.Everything)
	_, _ = transitionsOf(t, r, name, "intel_sgx_sdk")
	if yes, _ := r.Hooked(id); yes {
		t.Error("the deleted library is hooked after its last user has ended")
	}
	fresh.work()
	if got, _ := transitionsOf(t, r, name, "intel_sgx_sdk"); got != [3]float64{40, 80} {
		t.Errorf("after the old one was forgotten: %v", got)
	}
}

// Two containers of one image see its files through separate overlay mounts.
func TestRuntimesInContainers(t *testing.T) {
	dir := t.TempDir()
	lib := compile(t, dir+"/image/libsgx_urts.so.2", "-shared", "-fPIC", "urts.c")
	name := probetest.Name("boxed")
	compile(t, dir+"/image/"+name, "host.c", lib, "-Wl,-rpath,$ORIGIN")
	r, _ := hooking(t)
	var boxes []*conversing
	for _, b := range []string{"a", "b"} {
		box := filepath.Join(dir, b)
		if err := os.Mkdir(box, 0o755); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf(`mount -t tmpfs none %s && cd %[1]s && mkdir up work at && mount -t overlay overlay -o lowerdir=%s/image,upperdir=up,workdir=work at && exec at/%[3]s 10 2`,
			box, dir, name)
		if out, err := exec.Command("unshare", "-m", "sh", "-c", strings.Replace(script, "exec at/"+name+" 10 2", "true", 1)).CombinedOutput(); err != nil {
			probetest.Skip(t, "mounts", fmt.Errorf("no overlay in a mount namespace: %w: %s", err, out))
		}
		boxes = append(boxes, converse(t, "unshare", "-m", "sh", "-c", script))
	}
	_, _ = transitionsOf(t, r, name, "intel_sgx_sdk")
	for _, b := range boxes {
		b.work()
	}
	if got, err := transitionsOf(t, r, name, "intel_sgx_sdk"); got != [3]float64{20, 40} {
		t.Errorf("of two containers: %v, want 20 and 40 (%v)", got, err)
	}
}

func TestRuntimesSayWhatTheyLack(t *testing.T) {
	dir := t.TempDir()
	stripped := compile(t, dir+"/gramine/sgx/loader", "-s", "gramine.c")
	broken := filepath.Join(dir, "libsgx_urts.so.1")
	text, err := os.ReadFile(stripped)
	if err != nil {
		t.Fatal(err)
	}
	for i := 64; i < 1<<10; i++ {
		text[i] ^= 0xa5
	}
	if err := os.WriteFile(broken, text, 0o755); err != nil {
		t.Fatal(err)
	}
	r, _ := hooking(t)
	name := probetest.Name("loader")
	converse(t, called(t, name, stripped), "1", "1", "1")
	_, err = transitionsOf(t, r, name, "gramine_loader")
	if err == nil || !strings.Contains(err.Error(), dir+"/gramine/sgx/loader: no function sgx_ecall") || strings.Contains(host.PublicText(err), dir) || !strings.Contains(host.PublicText(err), "Gramine of process "+name+": no function sgx_ecall") || !strings.Contains(err.Error(), "stripped") {
		t.Errorf("of a stripped runtime: %v", err)
	}
	if x, err := bpf.OpenExecutable(host.Local(), broken, 0); err != nil {
		t.Error(err)
	} else if f, _, err := x.Functions([]string{"sgx_ecall"}); err == nil && len(f) > 0 {
		t.Errorf("functions of a broken file: %v", f)
	}
	if _, err := bpf.OpenExecutable(host.Local(), "/dev/null", 0); err == nil {
		t.Error("opened a device")
	}
	if _, err := bpf.OpenExecutable(host.Local(), stripped, 1); err == nil {
		t.Error("opened another inode")
	}
}

func TestRuntimeOf(t *testing.T) {
	for _, c := range []struct {
		path    string
		enclave bool
		want    string
	}{
		{"/usr/lib/x86_64-linux-gnu/libsgx_urts.so.2.0.25", false, "intel_sgx_sdk"},
		{"/opt/intel/sgxsdk/lib64/libsgx_urts_sim.so", false, "intel_sgx_sdk"},
		{"/usr/lib/x86_64-linux-gnu/gramine/sgx/loader", false, "gramine_loader"},
		{"/usr/lib/x86_64-linux-gnu/gramine/direct/loader", false, ""},
		{"loader", false, ""},
		{"/opt/occlum/build/lib/libocclum-pal.so.0.30", false, "occlum"},
		{"/opt/ego/bin/ego-host", true, "ego"},
		{"/opt/edgelessrt/bin/erthost", false, "ego"},
		{"/opt/scone/lib/ld-scone-x86_64.so.1", true, "scone"},
		{"/lib/ld-scone-x86_64.so", false, "scone"},
		{"/srv/app", true, "open_enclave"},
		{"/srv/app", false, ""},
		{"", false, ""},
	} {
		t.Run(c.path, func(t *testing.T) {
			got := ""
			if i := runtimeOf(c.path, c.enclave); i >= 0 {
				got = enclaveRuntimes[i].name
			}
			if got != c.want {
				t.Errorf("%s (enclave %v) is of %q, want %q", c.path, c.enclave, got, c.want)
			}
		})
	}
	if len(enclaveRuntimes) > bpf.MaxRuntimes {
		t.Errorf("%d runtimes, the program tells %d apart", len(enclaveRuntimes), bpf.MaxRuntimes)
	}
}

func FuzzMappedFiles(f *testing.F) {
	f.Add([]byte("7f0000000000-7f0000001000 r-xp 00001000 fe:00 247741                     /usr/lib/libsgx_urts.so.2 (deleted)\n"))
	f.Add([]byte("7f00-7f01 rw-s 00000000 00:05 12 /dev/sgx_enclave\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"))
	f.Add([]byte("- - - - - -\n\n 1-2 r-xp 0 a b c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range probe.ParseMappings(b) {
			enclaveDevice(m.Path)
			if i := runtimeOf(m.Path, true); i >= len(enclaveRuntimes) {
				t.Errorf("runtime %d", i)
			}
		}
	})
	if runtime.GOARCH != "amd64" {
		f.Skip("SGX is of x86")
	}
}

// TestRuntimesThatCannotBeHooked: the error names the process and the reason.
func TestRuntimesThatCannotBeHooked(t *testing.T) {
	dir := t.TempDir()
	loader := compile(t, dir+"/ld-scone-x86_64.so.1", "-shared", "-fPIC", "urts.c")
	name := probetest.Name("scone")
	scone := compile(t, dir+"/"+name, "host.c", loader, "-Wl,-rpath,"+dir)
	r, _ := hooking(t)
	converse(t, scone, "10", "2")
	_, err := transitionsOf(t, r, name, "scone")
	if err == nil || !strings.Contains(err.Error(), "SCONE of process "+name+": no transition can be hooked: ") {
		t.Errorf("of SCONE: %v", err)
	}
	if len(r.lost) == 0 && !strings.Contains(probe.Remedy(err), "tee_syscalls_total") {
		t.Errorf("advice for SCONE: %q", probe.Remedy(err))
	}
	name = probetest.Name("ego")
	converse(t, called(t, name, compile(t, dir+"/ego-host", "-s", "openenclave.c")), "10", "4")
	_, err = transitionsOf(t, r, name, "ego")
	if want := "EGo of process " + name + ", " + dir + "/ego-host: no function oe_ecall, __oe_dispatch_ocall: the file is stripped"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of a stripped EGo: %v, want %q", err, want)
	}
}
