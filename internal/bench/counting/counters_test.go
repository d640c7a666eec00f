package counting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// fakeReader gives samples that a test changes between readings.
type fakeReader struct {
	samples []metric.Sample
	err     error
}

func (f *fakeReader) Read(_ context.Context, emit func(metric.Sample)) error {
	for _, s := range f.samples {
		emit(s)
	}
	return f.err
}

func (f *fakeReader) Close() error { return nil }

func fakeCounter(name string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: "Events.", Labels: labels}
}

// fakeCounters are counters of sources that a test makes up; a source that is an error does
// not open.
func fakeCounters(t *testing.T, readers map[string]any, metrics map[string][]*metric.Desc) *Counters {
	t.Helper()
	var list []*probe.Source
	for name, r := range readers {
		list = append(list, &probe.Source{Name: name, Doc: "A fake.", Metrics: metrics[name], Open: func(*host.Host, []tee.Facts) (probe.Reader, error) {
			if err, failed := r.(error); failed {
				return nil, err
			}
			return r.(probe.Reader), nil
		}})
	}
	slices.SortFunc(list, func(a, b *probe.Source) int { return strings.Compare(a.Name, b.Name) })
	h := &host.Host{Root: t.TempDir(), Now: func() time.Time { return time.Unix(100, 0) }}
	c := &Counters{host: h, engine: probe.Open(h, nil, list, nil)}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// written is a counter as text: name{labels} value scope trust note.
func written(list []result.Counter) []string {
	var out []string
	for _, k := range list {
		value := "missing"
		if k.Value != nil {
			value = fmt.Sprint(*k.Value)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s%v %s %s %s %s", k.Name, k.Labels, value, k.Scope, k.Trust, k.Note)))
	}
	return out
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHostWide: the counters of the whole machine and of helpers come apart from the
// workload's, and what was not counted has a reason.
func TestHostWide(t *testing.T) {
	faults, switches := fakeCounter("tee_page_faults_total", "process", "space"), fakeCounter("tee_context_switches_total", "process", "kind")
	cpu, misses := fakeCounter("tee_process_cpu_seconds_total", "process"), fakeCounter("tee_llc_misses_total")
	evicted := fakeCounter("tee_sgx_epc_pages_evicted_total")
	at := func(d *metric.Desc, v float64, labels ...string) metric.Sample {
		return metric.Sample{Desc: d, Labels: labels, Value: v}
	}
	f := &fakeReader{samples: []metric.Sample{at(faults, 5, "redis", "user"), at(faults, 100, "init", "user")}}
	s := &fakeReader{samples: []metric.Sample{at(switches, 7, "kswapd0", "voluntary"), at(cpu, 2, "redis")}}
	c := fakeCounters(t, map[string]any{"faults": f, "switches": s,
		"llc": &probe.Problem{Err: errors.New("the hypervisor gives this VM none"), Blind: true}, "sgx": probe.NotHere("no SGX")},
		map[string][]*metric.Desc{"faults": {faults}, "switches": {switches, cpu}, "llc": {misses}, "sgx": {evicted}})
	f.samples = []metric.Sample{at(faults, 15, "redis", "user"), at(faults, 2, "redis", "kernel"), at(faults, 130, "init", "user")}
	s.samples = []metric.Sample{
		at(switches, 10, "kswapd0", "voluntary"), at(switches, 4, "kswapd1", "voluntary"), at(switches, 9, "vhost-4711", "voluntary"), at(switches, 1, "redis", "involuntary"),
		at(switches, 20, "qemu-system-x86", "voluntary"), at(switches, 30, "other", "voluntary"), at(cpu, 2.5, "redis"), at(cpu, 1, "init"), at(cpu, 0, "kswapd0"),
	}
	s.err = errors.New("one hook is lost")
	got, err := c.Finish(t.Context(), []string{"redis"})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "host-wide", written(got.Host), []string{
		"tee_page_faults_totalmap[] 42 machine full",
		"tee_context_switches_totalmap[] 67 machine partial source switches is degraded: one hook is lost",
		"tee_context_switches_totalmap[helper:kswapd*] 7 machine partial source switches is degraded: one hook is lost",
		"tee_context_switches_totalmap[helper:qemu-system-*] 20 machine partial source switches is degraded: one hook is lost",
		"tee_context_switches_totalmap[helper:vhost*] 9 machine partial source switches is degraded: one hook is lost",
		"tee_process_cpu_seconds_totalmap[] 1.5 machine partial source switches is degraded: one hook is lost",
		"tee_llc_misses_totalmap[] missing machine none source llc is unavailable: the hypervisor gives this VM none",
	})
	check(t, "of the workload", written(got.Counters), []string{
		"tee_context_switches_totalmap[kind:involuntary process:redis] 1 process partial the share of missed events is unknown",
		"tee_page_faults_totalmap[process:redis space:kernel] 2 process full",
		"tee_page_faults_totalmap[process:redis space:user] 10 process full",
		"tee_process_cpu_seconds_totalmap[process:redis] 0.5 process partial the share of missed events is unknown",
		"tee_context_switches_totalmap[] 1 process partial the share of missed events is unknown",
		"tee_page_faults_totalmap[] 12 process full",
		"tee_process_cpu_seconds_totalmap[] 0.5 process partial the share of missed events is unknown",
	})
}

// TestNoneCounted: what a source counts by process is 0 where no process had any, and absent
// where the source did not run, misses an unknown share, sees nothing, or only counts what it is narrowed to.
func TestNoneCounted(t *testing.T) {
	entries, blind, gone := fakeCounter("tee_sgx_enclave_entries_total", "process"), fakeCounter("tee_blind_total", "process"), fakeCounter("tee_gone_total", "process")
	silent, machine, pid := fakeCounter("tee_silent_total", "process"), fakeCounter("tee_machine_total"), fakeCounter("tee_pid_entries_total", "pid", "process")
	absent, late := fakeCounter("tee_absent_total", "process"), &fakeReader{err: errors.New("not yet")}
	begun := fakeCounter("tee_late_total", "process")
	lost := fakeCounter("tee_lost_total", "process")
	other := []metric.Sample{{Desc: lost, Labels: []string{"other"}, Value: 7}}
	c := fakeCounters(t, map[string]any{
		"lost": &fakeReader{samples: other, err: errors.New("one hook is lost")}, "runs": &fakeReader{}, "late": late, "absent": probe.NotHere("no driver"), "gone": errors.New("permission denied"),
		"blind": &fakeReader{err: &probe.Problem{Err: errors.New("opaque"), Blind: true}}, "silent": &fakeReader{err: errors.New("it hangs")},
	}, map[string][]*metric.Desc{"lost": {lost}, "runs": {entries, machine, pid}, "late": {begun}, "absent": {absent}, "gone": {gone}, "blind": {blind}, "silent": {silent}})
	late.err = nil
	got, err := c.Finish(t.Context(), []string{"redis"})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "counters", written(got.Counters), []string{"tee_sgx_enclave_entries_totalmap[] 0 process full"})
	if len(got.Host) != 0 {
		t.Errorf("host-wide counters of no source: %v", written(got.Host))
	}
}

func TestWhenNarrowed(t *testing.T) {
	var got []string
	for _, s := range sources.All {
		for _, d := range s.Metrics {
			if eventCounter(d) && !slices.Contains(d.Labels, "pid") && sources.WhenNarrowed(d) {
				got = append(got, d.Name)
			}
		}
	}
	check(t, "narrowed", got, []string{"tee_process_llc_references_total", "tee_process_llc_misses_total", "tee_process_instructions_total", "tee_process_cycles_total"})
}

func TestHelperOf(t *testing.T) {
	for process, want := range map[string]string{"ksgxd": "ksgxd", "kswapd12": "kswapd*", "vhost-99": "vhost*", "qemu-system-x86": "qemu-system-*", "qemu-system-aar": "qemu-system-*", "cloud-hyperviso": "cloud-hyperviso*", "redis-server": ""} {
		t.Run(process, func(t *testing.T) {
			if got := helperOf(process); got != want {
				t.Errorf("%s: %q, want %q", process, got, want)
			}
		})
	}
}

// TestTimed: of the histograms that prices come from, a run has the sum and the number.
func TestTimed(t *testing.T) {
	d := &metric.Desc{Name: explain.EnclaveFaultTime, Kind: metric.Histogram, Help: "Time."}
	other := &metric.Desc{Name: "tee_syscall_duration_seconds", Kind: metric.Histogram, Help: "Time."}
	hist := func(sum float64, counts ...uint64) *metric.Hist {
		return &metric.Hist{Bounds: []float64{1e-6, 1e-3}, Counts: counts, Sum: sum}
	}
	r := &fakeReader{samples: []metric.Sample{{Desc: d, Hist: hist(0.25, 10, 0, 5)}, {Desc: other, Hist: hist(1, 1, 1, 1)}}}
	c := fakeCounters(t, map[string]any{"sgx": r}, map[string][]*metric.Desc{"sgx": {d, other}})
	r.samples = []metric.Sample{{Desc: d, Hist: hist(0.75, 10, 100, 6)}, {Desc: other, Hist: hist(2, 2, 2, 2)}}
	got, err := c.Finish(t.Context(), []string{"app"})
	if err != nil {
		t.Fatal(err)
	}
	const note = " machine partial counted for the whole machine"
	check(t, "counters", written(got.Counters), []string{d.Name + "_countmap[] 101" + note, d.Name + "_summap[] 0.5" + note})
	for counter, histogram := range explain.Timed {
		if explain.Sources[counter] == "" || explain.Sources[counter] != explain.Sources[histogram] {
			t.Errorf("%s is not of the source of %s", histogram, counter)
		}
	}
}

// TestImpossibleIsZero: what cannot happen here, as there are no bounce buffers, was 0.
func TestImpossibleIsZero(t *testing.T) {
	c := fakeCounters(t, nil, nil)
	if sources.Impossible(c.host, nil) != nil {
		t.Error("debugfs is not there, so whether there are bounce buffers is not known")
	}
	if err := c.host.Install("/sys/kernel/debug/other", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.never, c.missing = sources.Impossible(c.host, nil), map[string]string{"tee_other_total": "off"}
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Finish(t.Context(), []string{"app"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(got.Never, func(k result.Counter) bool { return k.Name == explain.BounceTime })
	if i < 0 || *got.Never[i].Value != 0 || len(got.Never[i].Labels) > 0 || got.Counters != nil {
		t.Errorf("counted %+v", got)
	}
	if got.Missing["tee_other_total"] != "off" {
		t.Errorf("missing %v", got.Missing)
	}
}

// Explanations take the error of an estimate from the source that counts it.
func TestSourcesOfExplanations(t *testing.T) {
	for name, source := range explain.Sources {
		i := slices.IndexFunc(sources.All, func(s *probe.Source) bool { return s.Name == source })
		if i < 0 || !slices.ContainsFunc(sources.All[i].Metrics, func(d *metric.Desc) bool { return d.Name == name }) {
			t.Errorf("%s is no metric of the source %q", name, source)
		}
	}
}

// TestCountersAreOn: no source that counts events waits for what only one arm has, those that slow such an arm are off,
// and none of these counts is 0 because there were none.
func TestCountersAreOn(t *testing.T) {
	h := &host.Host{Root: t.TempDir(), Now: time.Now, CPUID: func(uint32, uint32) (eax, ebx, ecx, edx uint32) { return 0, 0, 0, 0 }}
	sgx := []tee.Detection{{Kind: &tee.Kind{Name: "sgx"}, State: tee.Here, Facts: tee.Facts{Kind: "sgx"}}}
	c := Open(h, sgx)
	defer c.Close()
	seen := map[string]bool{}
	for _, st := range c.engine.Status() {
		seen[st.Source.Name] = true
		if st.State == probe.Off && !st.Source.OptIn {
			t.Errorf("source %s is off: %s", st.Source.Name, st.Reason)
		}
	}
	if seen["runtimes"] || !seen["gramine"] {
		t.Errorf("the sources are %v", seen)
	}
	const log = "----- SGX stats for thread 1 -----\n  # of EENTERs: 5\n  # of EEXITs: 5\n  # of AEXs: 5\n  # of sync signals: 5\n  # of async signals: 5\n"
	for _, process := range []string{"other", "app"} { // app's is an earlier one's
		if err := h.Install("/var/log/gramine/"+process+".log", []byte(log), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Finish(t.Context(), []string{"app"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range got.Counters {
		if strings.HasPrefix(k.Name, "tee_sgx_enclave_") || strings.HasPrefix(k.Name, "tee_sgx_gramine_") {
			t.Errorf("%s: %+v", k.Name, k)
		}
	}
	if why := got.Missing["tee_sgx_enclave_entries_total"]; !strings.Contains(why, "runtimes is off in benchmarks") {
		t.Errorf("missing: %q", why)
	}
	if why := got.Missing["tee_sgx_gramine_signals_total"]; why == "" {
		t.Errorf("missing: %v", got.Missing)
	}
	if _, known := c.read(t.Context()).series["tee_sgx_enclave_entries_total\x00app\x00gramine"]; !known {
		t.Error("Gramine's log was not read")
	}
}
