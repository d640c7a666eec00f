package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

var (
	recordAnew   = flag.Bool("record", false, "record the results of TestRecordedResult anew with bin/teescope")
	recordKernel = flag.String("kernel", "", "kernel image for -record of bounce buffers, such as vmlinuz of Debian's linux-image-cloud-amd64")
)

// TestRecordedResult explains the difference of two arms from the runs of real experiments, in which
// the cause is known: the arms differ in nothing else. Verdict, attribution and sentences of the
// document are made anew from its runs, by `explain` as by `compare`.
//
//	make build && go test ./internal/cli -run TestRecordedResult -record -kernel VMLINUZ -v
//
// runs the experiments anew (Linux, as root; bounce buffers need qemu-system-x86 and fio).
func TestRecordedResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string // of bench run
		counter string   // the most expensive
		cause   string
		// share of the counters of the cause and the rest that nothing explains, in the difference.
		share, unexplained float64
		headline, because  string             // the sentences
		events             map[string]float64 // how many more an operation of the treatment has, as the arms are made
	}{
		{name: "clock", args: []string{"cause-clock", "--param", "reads=64", "--param", "warm=200ms", "--param", "measure=1s"},
			counter: `tee_syscalls_total{syscall="clock_gettime"}`, cause: "vdso_bypass", share: 0.648, unexplained: 0.351,
			events:   map[string]float64{`tee_syscalls_total{syscall="clock_gettime"}`: 64},
			headline: "syscall costs 4.47x [3.94, 6.01] as much as vdso on clock-server (requests per second)",
			because: "In syscall, at least 64.8 % of the extra time of an operation goes into asking the kernel for the time, which the vDSO could answer in user space (+64 clock_gettime per operation at 121 ns): " +
				"make the vDSO usable (a clock source that user space can read, no sandbox, static binary or enclave runtime in between), or read the time once per turn of the event loop."},
		{name: "lock", args: []string{"cause-lock", "--param", "turns=4", "--param", "warm=200ms", "--param", "measure=1s"},
			counter: `tee_sampled_wait_seconds_total{call="futex",state="lock"}`, cause: "lock_contention", share: 0.990, unexplained: 0.010,
			// Others kept the machine busy: a cause under a verdict that is open would be read as one.
			headline: "inconclusive: shared against split on lock-server has a cost ratio of 7.81x [6.82, 8.3] (requests per second)"},
		{name: "bounce-buffers", args: []string{"fio", "--env", "off=qemu,accel=tcg,disk=128MiB", "--env", "on=qemu,accel=tcg,disk=128MiB,bounce=on",
			"--param", "rw=randread", "--param", "bs=256KiB", "--param", "size=32MiB", "--param", "runtime=2s", "--param", "ramp=0s", "--param", "steady=off", "--param", "ioengine=psync"},
			counter: `tee_swiotlb_seconds_total{context="task",operation="map"}`, cause: "bounced_io", share: 0.564, unexplained: 0.470,
			events:   map[string]float64{`tee_swiotlb_bounced_bytes_total{device="0000:00:01.0"}`: 256 << 10},
			headline: "stand-in: on against off on fio has a ratio of 3.09x [1.14, 6.1] (operations per second); on is emulated in software"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join("testdata", "recorded", c.name+".json.gz")
			if *recordAnew {
				recordResult(t, file, c.args)
			}
			path := filepath.Join(t.TempDir(), c.name+".json")
			if err := os.WriteFile(path, unpacked(t, file), 0o644); err != nil {
				t.Fatal(err)
			}
			was, err := result.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			out, err := explainWith(t, "--json", path)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Comparisons []result.Comparison
				Attribution []result.Attribution
				Trees       []explain.Tree
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			k, tree := got.Comparisons[0], got.Trees[0]
			if k.Headline != c.headline || k.Cause != c.because {
				t.Errorf("the sentences are\n%s\n%s\nwant\n%s\n%s", k.Headline, k.Cause, c.headline, c.because)
			}
			if first := got.Attribution[0]; first.Counter != c.counter || first.Cause != c.cause {
				t.Errorf("the most expensive counter is %s of cause %q, want %s of %q", first.Counter, first.Cause, c.counter, c.cause)
			}
			for counter, want := range c.events {
				i := slices.IndexFunc(got.Attribution, func(a result.Attribution) bool { return a.Counter == counter })
				if i < 0 || math.Abs(got.Attribution[i].Delta-want) > 0.001*want {
					t.Errorf("%s is not by %v more an operation: %+v", counter, want, got.Attribution)
				}
			}
			share := 0.0
			for _, a := range got.Attribution { // the tree has no causes where none may be named
				if a.Cause == c.cause && a.Share != nil {
					share += *a.Share
				}
			}
			if math.Abs(share-c.share) > 0.001 || math.Abs(tree.UnexplainedShare.Value-c.unexplained) > 0.001 {
				t.Errorf("%s has the share %.4f and %.4f is not explained, want %.4f and %.4f", c.cause, share, tree.UnexplainedShare.Value, c.share, c.unexplained)
			}
			// What was concluded when the runs ended, before the document was written.
			if before := was.Comparisons[0]; k.Verdict != before.Verdict || *k.Cost != *before.Cost {
				t.Errorf("now it is %s, %v; when it was recorded it was %s, %v", k.Verdict, *k.Cost, before.Verdict, *before.Cost)
			}
			told, err := explainWith(t, path)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, filepath.Join("testdata", "recorded", c.name+".txt"), told)
			var compared strings.Builder
			cmd := compareCommand(Env{Stdout: &compared})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs([]string{path})
			if err := cmd.ExecuteContext(t.Context()); (err != nil) != refused(was) {
				t.Errorf("compare: %v, and when it was recorded refused was %v", err, refused(was))
			}
			said := strings.Join(strings.Fields(compared.String()), " ")
			for _, want := range []string{strings.TrimPrefix(strings.TrimPrefix(c.headline, "inconclusive: "), "stand-in: "), c.because} {
				if !strings.Contains(said, want) {
					t.Errorf("compare does not say %q:\n%s", want, compared.String())
				}
			}
		})
	}
}

// recordResult runs an experiment and keeps its document, packed.
func recordResult(t *testing.T, file string, args []string) {
	t.Helper()
	dir := t.TempDir()
	pairs := "10"
	if args[0] == "fio" {
		pairs = "6" // each boots a guest
		for i, a := range args {
			if strings.Contains(a, "=qemu,") {
				args[i] += ",kernel=" + *recordKernel + ",data=" + dir
			}
		}
	}
	path := filepath.Join(dir, "r.json")
	out, err := exec.Command("../../bin/teescope", append([]string{"bench", "run", "--pairs", pairs, "--out", path, "--data", dir}, args...)...).CombinedOutput()
	t.Logf("%v: %s", err, out) // a guard may refuse a verdict on a busy machine
	e, err := result.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Environments { // what identifies the machine; both arms ran on it
		env := &e.Environments[i]
		env.Hardware.Serial = "1"
		if env.Launcher == "native" {
			env.Software.Cmdline = ""
			env.Software.Kernel, _, _ = strings.Cut(env.Software.Kernel, "-")
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unpacked(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
