package prices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/workloads/micro"
)

// TestMeasure measures the machine that the test runs on: each price is measured, or missing with a reason. How much it is
// is for the machine to say, not for the test.
func TestMeasure(t *testing.T) {
	if micro.Program == nil {
		t.Skip("no worker was built for this architecture")
	}
	h, dir := host.Local(), t.TempDir()
	t.Setenv("TMPDIR", dir)
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Hour
	c, err := Measure(t.Context(), h, machine.Identify(h, "none"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f s of CPU time", c.CPUSeconds)
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v", left)
	}
	// What no kernel, container or hypervisor can hide.
	always := []string{"syscall", "fault_no_page_found", "fault_write", "fault_write_protection", "copy_page"}
	for _, p := range All {
		t.Run(p.Event, func(t *testing.T) {
			u, measured := c.Unit(p.Event)
			i := slices.IndexFunc(c.Missing, func(m Missing) bool { return m.Event == p.Event })
			switch {
			case measured:
				t.Logf("%.1f ns [%.1f, %.1f], %d batches of %d", u.Seconds*1e9, u.Low*1e9, u.High*1e9, u.Batches, u.Operations)
				if u.Method == "" || !(u.Low >= 0 && u.Low <= u.Seconds && u.Seconds <= u.High) || u.Batches < leastBatches || u.Operations == 0 {
					t.Errorf("%+v is no cost with its spread", u)
				}
			case i < 0 || c.Missing[i].Reason == "":
				t.Error("it is neither measured nor missing with a reason")
			case slices.Contains(always, p.Event) && !c.Hurried:
				t.Errorf("it was not measured: %s", c.Missing[i].Reason)
			default:
				t.Logf("none: %s", c.Missing[i].Reason)
			}
		})
	}
}

// TestMeasureWithin: what there was no time for names the time that there was.
func TestMeasureWithin(t *testing.T) {
	w := &worker{got: map[string]*readings{}, most: 3 * time.Second}
	if _, err := w.readings("syscall"); err == nil || !strings.Contains(err.Error(), "did not end within 3s,") {
		t.Errorf("got %v", err)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if c, err := Measure(ctx, host.Local(), machine.Fingerprint{}, nil); c != nil || err == nil {
		t.Errorf("got %v, %v", c, err)
	}
}

// TestUnits makes units of constructed readings.
func TestUnits(t *testing.T) {
	around := func(median, step float64) *readings {
		r := &readings{operations: 1000}
		for i := range 101 {
			r.seconds = append(r.seconds, median+float64(i-50)*step)
		}
		return r
	}
	sampled := &readings{user: 250, kernel: 740, other: 10, loop: []float64{1e-9}, operations: 5}
	sampled4 := &readings{user: 1000, kernel: 2960, other: 40, loop: []float64{1e-9}, operations: 5}
	got := map[string]*readings{
		"null": around(100e-9, 0.1e-9), "calls": around(200e-9, 0), "same": around(2000e-9, 2e-9),
		"small": around(0, 1e-9), "few": {seconds: []float64{1, 2}}, "failed": {err: errors.New("no")},
	}
	nano := func(u Unit) string { return fmt.Sprintf("%.1f [%.1f, %.1f]", u.Seconds*1e9, u.Low*1e9, u.High*1e9) }
	for _, x := range []struct {
		name    string
		unit    func(*worker) (Unit, error)
		sampled *readings
		want    string
	}{
		// 101 batches: two on either side lie outside of 95 %.
		{"direct", direct("null"), nil, "100.0 [95.2, 104.8]"},
		{"switch", switches("same", 1), nil, "800.0 [752.0, 848.0]"},
		// A quarter of 100 ns less the loop; 1.96 standard errors are 1.34 points.
		{"unseen", unseen("null"), sampled4, "24.0 [21.5, 26.6]"},
		{"unseen of few samples", unseen("null"), &readings{user: 10, kernel: 10}, "error: the CPU clock gave only 20 samples, want 1000"},
		{"unseen with more samples", unseen("null"), sampled, "24.0 [20.2, 28.0]"},
		{"difference of nothing", direct("small"), nil, "error: it is too small to be distinguished from 0 (0 s, between -4.8e-08 and 4.8e-08)"},
		{"few", direct("few"), nil, "error: only 2 batches were measured, want 20"},
		{"failed", direct("failed"), nil, "error: no"},
		{"absent", absent("never"), nil, "error: never"},
	} {
		got["sampled null"] = x.sampled
		u, err := x.unit(&worker{got: got})
		s := nano(u)
		if err != nil {
			s = "error: " + err.Error()
		}
		if s != x.want {
			t.Errorf("%s: got %s, want %s", x.name, s, x.want)
		}
	}
}

func TestRead(t *testing.T) {
	for out, want := range map[string]string{
		"begin 0\nend 0 100 5000\nend 0 0 50\nend 1 200 20000\ndone 300 0\n":       "[5e-08 1e-07] of 300",
		"cpus 0 1 known\nwake 10 3000 1000\nlatency 5 1\nbackwards 0\ndone 10 0\n": "[2e-07] of 10",
		"samples 1 2 3\nloop 1000 500\ndone 7 0\n":                                 "[] of 7, samples 1 2 3, loop [5e-10]",
		"end 0 100 5000\n":                                         "the worker ended early",
		"done 100 3\n":                                             "3 of 100 operations went wrong",
		"done 1 0\nend 0 1 1\n":                                    `the worker said "end 0 1 1\n" after its end`,
		"end 0 x 5000\ndone 1 0\n":                                 `the worker said "0 x 5000": strconv.ParseUint: parsing "x": invalid syntax`,
		"end 0 -1 5000\ndone 1 0\n":                                `the worker said "0 -1 5000": strconv.ParseUint: parsing "-1": invalid syntax`,
		"end 0 1\ndone 1 0\n":                                      `the worker said "0 1": want 3 numbers`,
		"samples 1 2\ndone 1 0\n":                                  `the worker said "1 2": want 3 numbers`,
		"end 0 99999999999999999999 1\ndone 1 0\n":                 `the worker said "0 99999999999999999999 1": strconv.ParseUint: parsing "99999999999999999999": value out of range`,
		"\x1b[31mend " + strings.Repeat("9", 200) + "\ndone 1 0\n": "[] of 1",
		"": "the worker ended early",
	} {
		t.Run(out, func(t *testing.T) {
			var r readings
			got := ""
			if err := r.read(out); err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprintf("%.3g of %d", r.seconds, r.operations)
				if r.loop != nil {
					got += fmt.Sprintf(", samples %d %d %d, loop %.3g", r.user, r.kernel, r.other, r.loop)
				}
			}
			if got != want {
				t.Errorf("%q: got %s, want %s", out, got, want)
			}
		})
	}
}

// sound: whatever a worker says, nothing of it is taken that is not whole, and no time that it cannot have taken.
func sound(out string) error {
	r := readings{seconds: []float64{1}}
	if err := r.read(out); err != nil && (len(r.seconds) != 1 || r.operations != 0 || r.user != 0 || r.loop != nil) {
		return fmt.Errorf("%+v was taken beside %w", r, err)
	}
	for _, s := range append(r.seconds, r.loop...) {
		if !(math.Abs(s) <= 1e6) {
			return fmt.Errorf("a batch of %v s", s)
		}
	}
	return nil
}

var said = []string{"begin 0\nend 0 100 5000\nend 1 200 20000\ndone 300 0\n", "wake 10 1000 3000\nsamples 1 2 3\nloop 100 500\ndone 7 0\n"}

func TestDamagedReadings(t *testing.T) {
	for _, out := range said {
		mutate.Try(t, out[:5], []byte(out), " ", func(m mutate.Mutation) error { return sound(string(m.Data)) })
	}
}

func FuzzRead(f *testing.F) {
	for _, out := range append(said, "done 1 1") {
		f.Add(out)
	}
	f.Fuzz(func(t *testing.T, out string) {
		if err := sound(out); err != nil {
			t.Error(err)
		}
	})
}

func TestStore(t *testing.T) {
	dir, h := t.TempDir(), host.Local()
	if _, err := Load(h, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	c := &Calibration{Version: Version, MeasuredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CPUSeconds: 0.5,
		Fingerprint: machine.Fingerprint{CPU: "x", Mitigations: map[string]string{"meltdown": "PTI"}},
		Units:       []Unit{{Event: "syscall", Seconds: 1e-7, Low: 9e-8, High: 2e-7, Batches: 100, Operations: 1000, Method: "m"}},
		Missing:     []Missing{{"wakeup", "one CPU"}}}
	if err := c.Store(h, dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(h, dir)
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("got %+v, %v", got, err)
	}
	t.Chdir(filepath.Dir(dir))
	if got, err := Load(h, filepath.Base(dir)); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("from a folder that is relative to the current one: %+v, %v", got, err)
	}
	whole, _ := os.ReadFile(filepath.Join(dir, fileName))
	for text, want := range map[string]string{
		string(whole[:len(whole)/2]): "unexpected end of JSON input",
		"":                           "unexpected end of JSON input",
		`{"version":99}`:             "it is of version 99, want 1",
		`{"version":1,"units":[{"event":"syscall","seconds":-1}]}`:                      `the cost of "syscall" is -1 s, between 0 and 0`,
		`{"version":1,"units":[{"event":"syscall","seconds":2,"low":3,"high":4}]}`:      `the cost of "syscall" is 2 s, between 3 and 4`,
		`{"version":1,"units":[{"event":"syscall","seconds":"2","low":3,"high":4}]}`:    "cannot unmarshal string",
		`{"version":1,"units":[{"event":"syscall","seconds":2,"low":-1e300,"high":4}]}`: `the cost of "syscall" is 2 s, between -1e+300 and 4`,
	} {
		t.Run(text, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := Load(h, dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: got %v, %v, want %q", text, c, err, want)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	f := hosttest.Open(t, "testdata/guest.txtar")
	got := machine.Identify(f.Host, "SEV guest")
	want := machine.Fingerprint{
		CPU:         "vendor_id AuthenticAMD, cpu family 25, model 1, model name AMD EPYC 7763, stepping 1, microcode 0xa0011d5",
		Kernel:      "6.1.0-13-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1",
		Hypervisor:  "KVMKVMKVM",
		TEE:         "SEV guest",
		Mitigations: map[string]string{"meltdown": "Not affected", "spectre_v2": "Mitigation: Retpolines"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got.Microcode() != "0xa0011d5" || (machine.Fingerprint{CPU: "model 1, microcode 0xffffffff"}).Microcode() != "" || (machine.Fingerprint{}).Microcode() != "" {
		t.Errorf("microcode %q", got.Microcode())
	}
	bare := machine.Identify(hosttest.Open(t, "testdata/bare.txtar").Host, "")
	if bare.Hypervisor != "" || bare.CPU != "" || bare.Kernel != "" || len(bare.Mitigations) != 0 {
		t.Errorf("a machine that says nothing: %+v", bare)
	}
	change := func(f func(*machine.Fingerprint)) machine.Fingerprint {
		n := want
		n.Mitigations = map[string]string{"meltdown": "Not affected", "spectre_v2": "Mitigation: Retpolines"}
		f(&n)
		return n
	}
	for said, now := range map[string]machine.Fingerprint{
		"": want,
		`the processor was "` + want.CPU + `", is "` + strings.Replace(want.CPU, "0xa0011d5", "0xa0011d7", 1) + `"`: change(func(f *machine.Fingerprint) {
			f.CPU = strings.Replace(f.CPU, "0xa0011d5", "0xa0011d7", 1)
		}),
		`the kernel was "6.1.0-13-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1", is "6.2"`: change(func(f *machine.Fingerprint) { f.Kernel = "6.2" }),
		`the hypervisor was "KVMKVMKVM", is ""`:                                            change(func(f *machine.Fingerprint) { f.Hypervisor = "" }),
		`the TEE was "SEV guest", is "SEV-SNP guest"`:                                      change(func(f *machine.Fingerprint) { f.TEE = "SEV-SNP guest" }),
		`the mitigation of spectre_v2 was "Mitigation: Retpolines", is "Vulnerable"`:       change(func(f *machine.Fingerprint) { f.Mitigations["spectre_v2"] = "Vulnerable" }),
		`2 vulnerabilities were known, now 1`:                                              change(func(f *machine.Fingerprint) { delete(f.Mitigations, "meltdown") }),
		`the mitigation of retbleed was "", is "Vulnerable"`:                               change(func(f *machine.Fingerprint) { f.Mitigations["retbleed"] = "Vulnerable" }),
	} {
		t.Run(said, func(t *testing.T) {
			if got := (&Calibration{Fingerprint: want}).Stale(now); got != said {
				t.Errorf("got %s, want %s", got, said)
			}
		})
	}
}

func TestStale(t *testing.T) {
	for want, c := range map[string]*Calibration{
		"": {},
		"they were measured while programs ran on sys_enter, sched_switch": {Traced: []string{"sys_enter", "sched_switch"}},
		"the machine was too busy to measure all of them":                  {Hurried: true},
		`the kernel was "6.1", is ""`:                                      {Hurried: true, Fingerprint: machine.Fingerprint{Kernel: "6.1"}},
	} {
		t.Run(want, func(t *testing.T) {
			if got := c.Stale(machine.Fingerprint{}); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestMeasureWithoutAnything: a machine on which the worker cannot run has no
// calibration, and not an empty one.
func TestMeasureWithoutAnything(t *testing.T) {
	if micro.Program == nil {
		t.Skip("no worker was built for this architecture")
	}
	h := hosttest.Open(t, "testdata/bare.txtar").Host
	if err := h.Mkdir(os.TempDir()); err != nil {
		t.Fatal(err)
	}
	c, err := Measure(t.Context(), h, machine.Fingerprint{}, nil)
	if c != nil || err == nil || !strings.HasPrefix(err.Error(), "calibrate: nothing could be measured: run /") {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestEvents: names are unique, and what is measured says how.
func TestEvents(t *testing.T) {
	var names []string
	for _, p := range All {
		if slices.Contains(names, p.Event) {
			t.Errorf("%s is there twice", p.Event)
		}
		names = append(names, p.Event)
	}
}
