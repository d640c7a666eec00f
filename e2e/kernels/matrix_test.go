package kernels

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	all   = flag.Bool("matrix", false, "boot every kernel that Debian's archive offers, in every mode")
	table = flag.String("table", "", "write the results to this file (with -matrix)")
)

// built returns the programs of every guest by their path there. TEESCOPE_BIN and
// TEESCOPE_BPF_TEST name a binary and a test binary to use instead of building them.
var built = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "teescope-kernels")
	if err != nil {
		return nil, err
	}
	folder = dir
	files := map[string]string{"/bin/cc": "inside/cc", "/bin/teescope": os.Getenv("TEESCOPE_BIN"), "/bin/bpf.test": os.Getenv("TEESCOPE_BPF_TEST")}
	commands := [][]string{
		{"/bin/teescope", "go", "build", "-o", dir + "/teescope", "../../cmd/teescope"},
		{"/bin/bpf.test", "go", "test", "-c", "-o", dir + "/bpf.test", "../../internal/probe/bpf"},
		{"/bin/events", "cc", "-static", "-O2", "-pthread", "-o", dir + "/events", "../../workloads/events/events.c"},
		{"/bin/inside", "cc", "-static", "-O2", "-o", dir + "/inside", "inside/inside.c"},
	}
	for _, c := range commands {
		if given := files[c[0]]; given != "" { // a copy: a build may replace the file
			c = []string{c[0], "cp", given, filepath.Join(dir, filepath.Base(c[0]))}
		}
		cmd := exec.Command(c[1], c[2:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c[1:], " "), err, out)
		}
		files[c[0]] = filepath.Join(dir, filepath.Base(c[0]))
	}
	return files, nil
})

var folder string

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// tool finds a program, or skips the test and names the package to install.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (package %s)", name, pkg)
	}
	return p
}

var cache = sync.OnceValues(func() (*Archive, error) {
	dir, err := os.UserCacheDir()
	return &Archive{Dir: filepath.Join(dir, "teescope/kernels")}, err
})

// listed queries the archive once: apt locks its lists, so concurrent tests would be refused.
var listed = sync.OnceValues(func() ([]Image, error) {
	a, err := cache()
	if err != nil {
		return nil, errors.Join(ErrNoKernels, err)
	}
	return a.Images(context.Background())
})

// images lists the kernels in the archive, or skips the test.
func images(t *testing.T) []Image {
	t.Helper()
	for _, c := range [][2]string{{"apt-get", "apt"}, {"dpkg-deb", "dpkg"}, {"xz", "xz-utils"}, {"zstd", "zstd"}, {"lz4", "lz4"}} {
		tool(t, c[0], c[1])
	}
	list, err := listed()
	if errors.Is(err, ErrNoKernels) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var fetching sync.Mutex

// fetch gets one kernel; only one is fetched at a time.
func fetch(t *testing.T, im Image) *Kernel {
	t.Helper()
	a, err := cache()
	if err != nil {
		t.Skip(err)
	}
	fetching.Lock()
	defer fetching.Unlock()
	k, err := a.Fetch(t.Context(), im)
	if errors.Is(err, ErrNoKernels) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// named returns the image with a name, or skips the test.
func named(t *testing.T, name string) Image {
	t.Helper()
	list := images(t)
	i := slices.IndexFunc(list, func(im Image) bool { return im.Name() == name })
	if i < 0 {
		t.Skipf("the archive offers no kernel %q", name)
	}
	return list[i]
}

// guestTime bounds one guest. Alone it takes minutes, on a busy machine several times that.
const guestTime = 50 * time.Minute

// boot runs a guest with the built programs and a disk with a file system.
func boot(t *testing.T, g *Guest) *Report {
	t.Helper()
	qemu, busybox := tool(t, "qemu-system-x86_64", "qemu-system-x86"), tool(t, "busybox", "busybox-static")
	files, err := built()
	if err != nil {
		t.Fatal(err)
	}
	g.Files = maps.Clone(g.Files)
	if g.Files == nil {
		g.Files = map[string]string{}
	}
	maps.Copy(g.Files, files)
	g.Modules = append([]string{"virtio_pci", "virtio_blk", "loop", "crc32c_generic", "ext4"}, g.Modules...)
	g.QEMU = append([]string{"-drive", "if=none,id=d0,format=raw,file=" + ext4(t), "-device", "virtio-blk-pci,drive=d0"}, g.QEMU...)
	ctx, cancel := context.WithTimeout(t.Context(), guestTime)
	defer cancel()
	r, err := g.Run(ctx, qemu, busybox)
	if err != nil {
		t.Fatalf("%s: %v", g.Kernel.Name(), err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, s := range g.Steps {
			o := r.Steps[s.Name]
			t.Logf("step %s, status %d:\n%s", s.Name, o.Status, o.Text[max(0, len(o.Text)-6000):])
		}
	})
	return r
}

// ext4 makes a disk image with an empty file system.
func ext4(t *testing.T) string {
	t.Helper()
	mkfs := tool(t, "mkfs.ext4", "e2fsprogs")
	image := filepath.Join(t.TempDir(), "disk")
	if out, err := exec.Command(mkfs, "-q", "-F", image, "48M").CombinedOutput(); err != nil {
		t.Fatalf("make a file system: %v: %s", err, out)
	}
	return image
}

// doctor has the fields of `doctor --json` that the tests read.
type doctor struct {
	Platform struct {
		Kernel, Version string
	}
	Sources []source
}

type source struct{ Name, State, Reason, Remedy string }

func (d doctor) state(name string) source {
	for _, s := range d.Sources {
		if s.Name == name {
			return s
		}
	}
	return source{}
}

func readDoctor(t *testing.T, o Output) doctor {
	t.Helper()
	var d doctor
	_, text, _ := strings.Cut(o.Text, "{")
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&d); err != nil {
		t.Errorf("doctor: %v", err)
	}
	return d
}

const (
	calls    = 5000
	switches = 2000
	faults   = 3000
)

// runDoctor is a step that prints doctor's findings; by, if not empty, is the program that
// starts it.
func runDoctor(name, by string) Step {
	return Step{Name: name, Script: "exec " + by + " /bin/teescope doctor --json"}
}

// startAgent leaves an agent running without a budget, so it counts every event.
var startAgent = Step{Name: "agent", Script: `teescope agent --budget 100% --listen 127.0.0.1:9781 </dev/null >/tmp/agent.log 2>&1 &
echo $! >/tmp/agent.pid
n=0
until wget -q -O /dev/null http://127.0.0.1:9781/-/ready 2>/dev/null; do
	n=$((n+1)); [ $n -lt 3600 ] && kill -0 $(cat /tmp/agent.pid) || { cat /tmp/agent.log; exit 1; }
	usleep 100000
done
cat /tmp/agent.log`}

// stopAgent stops the agent and waits until it is gone.
var stopAgent = Step{Name: "agent ends", Script: `kill $(cat /tmp/agent.pid)
n=0
while kill -0 $(cat /tmp/agent.pid) 2>/dev/null; do n=$((n+1)); [ $n -lt 1800 ] || exit 1; usleep 100000; done
cat /tmp/agent.log`}

const metrics = "wget -q -O - http://127.0.0.1:9781/metrics"

// steps returns the steps for a kernel and mode. The close kernels run all tests of package bpf once; the others run
// those that load and attach every hook and see it fire.
func steps(im Image, m mode) []Step {
	list := []Step{
		runDoctor("doctor", ""),
		runDoctor("doctor, no rights", "inside as 65534 none"),
		runDoctor("doctor, two capabilities", "inside as 65534 bpf,perfmon"),
		startAgent,
		{Name: "links", Script: "inside links"},
		{Name: "calls", Script: fmt.Sprintf("events --comm known-calls getppid %d", calls)},
		{Name: "switches", Script: fmt.Sprintf("events --comm known-switch switches %d", switches)},
		{Name: "faults", Script: fmt.Sprintf("events --comm known-fault faults write %d", faults)},
		{Name: "metrics", Script: metrics},
		stopAgent,
	}
	if m.withoutBTF || im.Series.Before(least) {
		return list
	}
	run := "Attach|Hooks|Load|Variants|AccessByFunction|TestBlock$|TestTCP|TestResets|TestFaults|TestSwitches|TestWord|TestRefused"
	if close(im) && m.name == "plain" {
		run = "^Test"
	}
	return append(list, bpfTests(run, 40*time.Minute))
}

// bpfTests runs tests of package bpf, on a disk with a file system if the kernel has its modules.
func bpfTests(run string, limit time.Duration) Step {
	return Step{Name: "tests", Limit: limit, Script: fmt.Sprintf(`mkdir /disk
if [ -e /modules/virtio_blk.ko ]; then
	n=0; while [ ! -b /dev/vda ] && [ $n -lt 1800 ]; do usleep 100000; n=$((n+1)); done
	mount -t ext4 /dev/vda /disk || { dmesg | tail -20; exit 99; }
fi
cd /tmp && TMPDIR=/disk bpf.test -test.v -test.timeout %v -test.run '%s'`, limit-30*time.Second, run)}
}

// singleKernel is the one that `make test` boots.
const singleKernel = "6.1 cloud"

// TestMatrix boots kernels. In each it checks that every source and hook which the kernel
// should have is there, and that known numbers of events are counted.
func TestMatrix(t *testing.T) {
	var kernels []Image
	for _, im := range images(t) {
		if *all && (close(im) || im.Flavour == "cloud") || !*all && im.Name() == singleKernel {
			kernels = append(kernels, im)
		}
	}
	var mu sync.Mutex
	var results []result
	t.Run("kernels", func(t *testing.T) {
		for _, im := range kernels {
			for _, m := range modes {
				if !m.every && !close(im) || !*all && m.name != "plain" {
					continue
				}
				t.Run(im.Name()+" "+m.name, func(t *testing.T) {
					t.Parallel()
					k := fetch(t, im)
					var r *Report
					if *all {
						r = boot(t, &Guest{Kernel: k, WithoutBTF: m.withoutBTF, Append: m.append, Steps: steps(im, m)})
					} else {
						r, _ = singleGuest(t, k, m)
					}
					res := judge(t, k, m, r)
					mu.Lock()
					defer mu.Unlock()
					results = append(results, res)
				})
			}
		}
	})
	if *table != "" {
		writeTable(t, *table, results)
	}
}

// result holds what one guest reported.
type result struct {
	kernel *Kernel
	mode   string
	root   doctor
	// available is the number of sources available to root, few that with two capabilities, and
	// none that without capabilities.
	available, few, none int
	// links maps programs to their attach types.
	links                   map[string]string
	calls, switches, faults string
	passed, skipped         int
	took                    time.Duration
}

func judge(t *testing.T, k *Kernel, m mode, r *Report) result {
	res := result{kernel: k, mode: m.name, root: readDoctor(t, r.Steps["doctor"]), links: map[string]string{}, took: r.Took}
	for name, o := range r.Steps {
		if o.Status != 0 && name != "tests" {
			t.Errorf("step %s ended with status %d: %s", name, o.Status, o.Text)
		}
	}
	judgeSources(t, k, m, res.root)
	for _, s := range res.root.Sources {
		if s.State == "available" {
			res.available++
		}
	}
	few := readDoctor(t, r.Steps["doctor, two capabilities"])
	res.few = judgeRights(t, res.root, few)
	res.none = judgeRights(t, res.root, readDoctor(t, r.Steps["doctor, no rights"]))
	for _, name := range counted {
		if with, without := few.state(name).State, res.root.state(name).State; counts(k, m) && with != without {
			t.Errorf("source %s is %s for root and %s with two capabilities: %s", name, without, with, few.state(name).Reason)
		}
	}
	for line := range strings.Lines(r.Steps["links"].Text) {
		if f := strings.Fields(line); len(f) == 2 && f[1] != "-" {
			res.links[f[0]] = f[1]
		}
	}
	judgeKnown(t, counts(k, m), r, &res)
	if o, ok := r.Steps["tests"]; ok {
		judgeTests(t, k, m, o, &res)
	}
	return res
}

// counts reports whether programs can count in a guest.
func counts(k *Kernel, m mode) bool { return !m.withoutBTF && !k.Series.Before(least) }

// judgeSources checks each source as root sees it.
func judgeSources(t *testing.T, k *Kernel, m mode, d doctor) {
	t.Helper()
	if want := (k.Uname); !strings.HasSuffix(d.Platform.Kernel, want) {
		t.Errorf("doctor says kernel %q, want %s", d.Platform.Kernel, want)
	}
	must := always
	if counts(k, m) {
		must = slices.Concat(always, counted)
	}
	for _, name := range must {
		if s := d.state(name).State; s == "" || s == "not here" || s == "off" {
			t.Errorf("source %s is %q", name, s)
		}
	}
	for _, s := range d.Sources {
		switch s.State {
		case "available", "not here", "off":
			continue
		}
		t.Logf("%-14s %-12s %s", s.Name, s.State, s.Reason)
		if err := excused(sourceExceptions, k.Image, m.name, s.Name, s.Reason); err != nil {
			t.Errorf("%s: %v; advice: %s", s.State, err, s.Remedy)
		}
	}
}

// judgeRights compares a user with fewer rights with root. Each source that only root has
// needs a reason and a remedy.
func judgeRights(t *testing.T, root, less doctor) (available int) {
	t.Helper()
	if len(less.Sources) != len(root.Sources) {
		t.Errorf("%d sources with fewer rights, root has %d", len(less.Sources), len(root.Sources))
	}
	for _, s := range less.Sources {
		switch s.State {
		case "available":
			available++
		case "degraded", "unavailable":
			if had := root.state(s.Name).State; had == "available" && (s.Reason == "" || s.Remedy == "") {
				t.Errorf("with fewer rights source %s is %s for %q, advice %q", s.Name, s.State, s.Reason, s.Remedy)
			}
		}
	}
	return available
}

// judgeKnown compares the agent's counts with the programs' events.
func judgeKnown(t *testing.T, counts bool, r *Report, res *result) {
	t.Helper()
	text := r.Steps["metrics"].Text
	res.calls, res.switches, res.faults = "-", "-", "-"
	if !counts {
		if regexp.MustCompile(`(?m)^tee_(syscalls|context_switches|page_faults)_total`).MatchString(text) {
			t.Error("events are shown although nothing can count them")
		}
		return
	}
	sum := func(pattern string) (n uint64) {
		for _, f := range regexp.MustCompile("(?m)^"+pattern+` (\S+)$`).FindAllStringSubmatch(text, -1) {
			v, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Error(err)
			}
			n += uint64(v)
		}
		return n
	}
	var did struct{ Voluntary, Involuntary uint64 }
	if err := json.Unmarshal([]byte(r.Steps["switches"].Text), &did); err != nil {
		t.Errorf("switches: %v", err)
	}
	// Starting and ending the program adds a few switches and faults, but no getppid.
	const edge = 40
	check := func(source, pattern string, want, edge uint64) string {
		got, missed := sum(pattern), sum(`teescope_source_missed_events_total\{source="`+source+`"\}`)
		// Where a program can be preempted, as on system calls since 7.2, events during
		// that time are missed. They are counted as missed.
		if got+missed < want || got > want+edge {
			t.Errorf("%s: counted %d and missed %d, want %d and at most %d more", source, got, missed, want, edge)
		}
		if missed == 0 && !strings.Contains(text, `teescope_source_coverage_ratio{source="`+source+`"} 1`+"\n") {
			t.Errorf("%s did not count all the time although nothing was missed", source)
		}
		if missed > 0 {
			return fmt.Sprintf("%d of %d, %d missed", got, want, missed)
		}
		return fmt.Sprintf("%d of %d", got, want)
	}
	res.calls = check("syscalls", `tee_syscalls_total\{process="known-calls",syscall="getppid"\}`, calls, 0)
	res.switches = check("switches", `tee_context_switches_total\{process="known-switch",kind="[a-z]*"\}`, did.Voluntary+did.Involuntary, edge)
	res.faults = check("faults", `tee_page_faults_total\{process="known-fault",space="user",cause="write"\}`, faults, edge)
}

var testLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// judgeTests checks the output of `bpf.test -test.v`.
func judgeTests(t *testing.T, k *Kernel, m mode, o Output, res *result) {
	t.Helper()
	said := map[string]string{} // by test
	var now string
	var failed []string
	for line := range strings.Lines(o.Text) {
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			now = strings.TrimSpace(name)
			continue
		}
		f := testLine.FindStringSubmatch(line)
		if f == nil {
			said[now] += line
			continue
		}
		switch f[1] {
		case "PASS":
			res.passed++
		case "FAIL":
			failed = append(failed, f[2])
		case "SKIP":
			res.skipped++
			if err := excused(testExceptions, k.Image, m.name, f[2], said[f[2]]); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range failed {
		// A test fails with its subtests, which have the reason.
		if slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			continue
		}
		if err := excused(testExceptions, k.Image, m.name, name, said[name]); err != nil {
			t.Errorf("test %s failed: %v", name, err)
		}
	}
	if o.Status != 0 && len(failed) == 0 {
		t.Errorf("the tests ended with status %d:\n%s", o.Status, tail(o.Text))
	}
	if res.passed == 0 {
		t.Error("no test passed")
	}
}
