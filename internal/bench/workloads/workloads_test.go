package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/result"
)

// A fixture testdata/WORKLOAD.txtar or testdata/WORKLOAD-CASE.txtar holds
// recorded outputs of a workload. Its comment says where they were recorded.
//
//	params          lines "name=value": parameters that differ from the defaults
//	quick           lines "name=value" besides params, with which the job takes a second or so:
//	                TestReal then runs it on this machine. Empty: as it is. Without it TestReal leaves the fixture out
//	job             what Job returns for the defaults, and for params; rewritten by "go test -update"
//	NAME/stdout     what the command inside printed,
//	NAME/lines      or the same with times: lines "SECONDS text", SECONDS from the start to the line's arrival
//	NAME/stderr     what it printed there
//	NAME/code       its exit status, 0 without it
//	NAME/outside    what the command outside printed
//	NAME/boot       when the phases of a boot ended, in seconds: VMM, firmware, kernel, init
//	NAME/monitor    what a guest cost this machine, in seconds: elapsed, CPU
//	NAME/counters   the run's counters, as in a result
//	NAME/wall       the wall time of the run in seconds; without it, the time of the last line
//	NAME/want       what Parse, Series and Check make of it; rewritten by "go test -update"
//
// NAME begins with one of three words. "good": every metric is there, the check
// passes. "wrong": the work was not done or not done right, and Check says so.
// "truncated": the output is not whole, and Parse or Check says so.
// The fixtures of a workload have at least one of each.

var update = flag.Bool("update", false, "rewrite the job and want files of every fixture")

// fixture is a parsed archive.
type fixture struct {
	path     string
	archive  *txtar.Archive
	workload *bench.Workload
	params   bench.Params // completed
}

func (f *fixture) label() string { return strings.TrimSuffix(filepath.Base(f.path), ".txtar") }

func (f *fixture) file(name string) (string, bool) {
	for _, a := range f.archive.Files {
		if a.Name == name {
			return string(a.Data), true
		}
	}
	return "", false
}

// golden compares a file of the archive with what it should be, or writes it.
func (f *fixture) golden(t *testing.T, name, got string) {
	t.Helper()
	want, _ := f.file(name)
	if want == got {
		return
	}
	if !*update {
		t.Errorf("%s of %s is\n%s\nwant\n%s", name, f.path, got, want)
		return
	}
	i := slices.IndexFunc(f.archive.Files, func(a txtar.File) bool { return a.Name == name })
	if i < 0 {
		f.archive.Files = append(f.archive.Files, txtar.File{Name: name})
		i = len(f.archive.Files) - 1
	}
	f.archive.Files[i].Data = []byte(got)
	golden.Write(t, f.path, txtar.Format(f.archive))
}

// outputs lists the NAMEs in the archive, in its order.
func (f *fixture) outputs() []string {
	var names []string
	for _, a := range f.archive.Files {
		if name, _, ok := strings.Cut(a.Name, "/"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// outcome returns a recorded output as the engine would pass it on.
func (f *fixture) outcome(t testing.TB, name string) bench.Outcome {
	t.Helper()
	o := bench.Outcome{Params: f.params}
	if s, ok := f.file(name + "/lines"); ok {
		for line := range strings.Lines(s) {
			at, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			seconds, err := strconv.ParseFloat(at, 64)
			if !ok || err != nil {
				t.Fatalf("%s: %s/lines: %q: want SECONDS text", f.path, name, line)
			}
			o.Inside.Wall = time.Duration(seconds * 1e9)
			o.Inside.Lines = append(o.Inside.Lines, host.Line{At: o.Inside.Wall, Text: text})
			o.Inside.Stdout = append(append(o.Inside.Stdout, text...), '\n')
		}
	} else {
		s, _ := f.file(name + "/stdout")
		o.Inside.Stdout = []byte(s)
		o.Inside.Lines = linesOf(o.Inside.Stdout, 0)
	}
	if s, ok := f.file(name + "/boot"); ok {
		var at [4]float64
		if n, err := fmt.Sscan(s, &at[0], &at[1], &at[2], &at[3]); n != len(at) {
			t.Fatalf("%s: %s/boot: %v", f.path, name, err)
		}
		o.Boot = &bench.Boot{VMM: time.Duration(at[0] * 1e9), Firmware: time.Duration(at[1] * 1e9), Kernel: time.Duration(at[2] * 1e9), Init: time.Duration(at[3] * 1e9)}
	}
	if s, ok := f.file(name + "/monitor"); ok {
		var elapsed, cpu float64
		if n, err := fmt.Sscan(s, &elapsed, &cpu); n != 2 {
			t.Fatalf("%s: %s/monitor: %v", f.path, name, err)
		}
		o.Monitor = &bench.Monitor{Elapsed: time.Duration(elapsed * 1e9), CPU: time.Duration(cpu * 1e9)}
	}
	if s, ok := f.file(name + "/counters"); ok {
		if err := json.Unmarshal([]byte(s), &o.Counters); err != nil {
			t.Fatalf("%s: %s/counters: %v", f.path, name, err)
		}
	}
	if s, ok := f.file(name + "/wall"); ok {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil {
			t.Fatalf("%s: %s/wall: %v", f.path, name, err)
		}
		o.Inside.Wall = time.Duration(seconds * 1e9)
	}
	if s, ok := f.file(name + "/code"); ok {
		code, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			t.Fatalf("%s: %s/code: %v", f.path, name, err)
		}
		o.Inside.Code = code
	}
	stderr, _ := f.file(name + "/stderr")
	outside, _ := f.file(name + "/outside")
	o.Inside.Stderr, o.Outside.Stdout = []byte(stderr), []byte(outside)
	o.Outside.Lines = linesOf(o.Outside.Stdout, 0)
	return o
}

// linesOf splits an output into lines that arrive step apart.
func linesOf(b []byte, step time.Duration) []host.Line {
	var out []host.Line
	for line := range bytes.Lines(b) {
		out = append(out, host.Line{At: step * time.Duration(len(out)+1), Text: string(bytes.TrimSuffix(line, []byte("\n")))})
	}
	return out
}

// settings reads lines "name=value".
func settings(t testing.TB, path, text string) bench.Params {
	t.Helper()
	p := bench.Params{}
	for line := range strings.Lines(text) {
		name, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			t.Fatalf("%s: %q: want name=value", path, line)
		}
		p[name] = v
	}
	return p
}

// fixtures reads all archives; one that belongs to no workload is an error.
func fixtures(t testing.TB) []*fixture {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var out []*fixture
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := &fixture{path: path, archive: a}
		for _, w := range All { // the longest matching name
			if l := f.label(); (l == w.Name || strings.HasPrefix(l, w.Name+"-")) && (f.workload == nil || len(w.Name) > len(f.workload.Name)) {
				f.workload = w
			}
		}
		if f.workload == nil {
			t.Errorf("%s: orphan, no workload has that name", path)
			continue
		}
		text, _ := f.file("params")
		if f.params, err = bench.Complete("workload "+f.workload.Name, f.workload.Params, settings(t, path, text)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, f)
	}
	return out
}

// sentence reports whether a text is one, as docs and help texts must be.
func sentence(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return strings.HasSuffix(s, ".") && (unicode.IsUpper(first) || unicode.IsDigit(first))
}

// baseUnit: seconds, bytes, ratio, a count of things, or one of them per second;
// never a scaled unit.
var (
	baseUnit = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	scaled   = regexp.MustCompile(`(^|_)(ns|us|ms|s|milliseconds|microseconds|nanoseconds|minutes|hours|kib|mib|gib|kb|mb|gb|mips|percent|pct|iops)(_|$)`)
)

func TestDeclarations(t *testing.T) {
	names := map[string]bool{}
	for _, w := range All {
		if !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(w.Name) || names[w.Name] {
			t.Errorf("workload %q: a name is lower case and unique", w.Name)
		}
		names[w.Name] = true
		if !sentence(w.Doc) || w.Version < 1 {
			t.Errorf("workload %s: needs a version and a sentence for Doc", w.Name)
		}
		if w.Metrics == nil || w.Primary == nil || w.Estimate == nil || w.Job == nil || w.Parse == nil || w.Check == nil {
			t.Fatalf("workload %s: needs Metrics, Primary, Estimate, Job, Parse and Check", w.Name)
		}
		params := map[string]bench.Param{}
		for _, p := range w.Params {
			if _, twice := params[p.Name]; twice || !sentence(p.Doc) {
				t.Errorf("workload %s: parameter %s: needs a sentence for Doc, once", w.Name, p.Name)
			}
			if p.Values != nil && !slices.Contains(p.Values, p.Default) {
				t.Errorf("workload %s: parameter %s: the default %q is not one of its values", w.Name, p.Name, p.Default)
			}
			params[p.Name] = p
		}
		for name, values := range w.Sweep {
			p, ok := params[name]
			if !ok || p.Subject || len(values) < 2 {
				t.Errorf("workload %s: sweeps %s, which must be a parameter, no subject, with two values or more", w.Name, name)
			}
			if !slices.Contains(values, p.Default) {
				t.Errorf("workload %s: the default of %s is not in its sweep", w.Name, name)
			}
		}
		for _, tool := range w.Tools {
			if tool.Command == "" || tool.Package == "" {
				t.Errorf("workload %s: tool %+v: needs the command and the package that has it", w.Name, tool)
			}
		}
	}
}

// describing are the measured metrics of which neither more nor less is better.
var describing = []string{"compute_ratio"}

// checkCase checks a workload's declarations for one set of parameters.
func checkCase(t *testing.T, w *bench.Workload, p bench.Params) {
	t.Helper()
	if d, disk := w.Estimate(p); d <= 0 || disk < 0 {
		t.Errorf("estimate is %v and %d bytes", d, disk)
	}
	descs := w.Metrics(p)
	if !slices.ContainsFunc(descs, func(d *metric.Desc) bool { return d.Name == w.Primary(p).Name }) {
		t.Error("the primary metric is not one of Metrics")
	} else if w.Primary(p).Better == metric.Neither {
		t.Error("the primary metric has no better direction")
	}
	if w.Operations != nil && (!slices.Contains(descs, w.Operations) || w.Operations.Kind != metric.Counter) {
		t.Error("Operations must be one of Metrics, and a counter")
	}
	names := map[string]bool{}
	for _, d := range descs {
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		if !sentence(d.Help) {
			t.Errorf("metric %s: help %q is not a sentence", d.Name, d.Help)
		}
		if !baseUnit.MatchString(d.Unit) || scaled.MatchString(d.Unit) || !strings.HasSuffix("_"+strings.TrimSuffix(d.Name, "_total"), "_"+d.Unit) {
			t.Errorf("metric %s: its name must end in its base unit (before _total); the unit is %q", d.Name, d.Unit)
		}
		if d.Better == metric.Neither && d.Kind != metric.Counter && !slices.Contains(describing, d.Name) {
			t.Errorf("metric %s: no better direction; only a count, or a metric that describes and is never compared, may have none", d.Name)
		}
		if len(d.Labels) != 0 {
			t.Errorf("metric %s: a benchmark's metric has no labels", d.Name)
		}
		if names[d.Name] {
			t.Errorf("metric %s is declared twice", d.Name)
		}
		names[d.Name] = true
	}
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.label(), func(t *testing.T) {
			checkCase(t, f.workload, f.params)
			if job, err := f.workload.Job(f.params); err == nil && job.Outside != nil && slices.Contains(job.Outside.Argv, "--hold") != (job.Window == loadWindow) {
				t.Error("the load waits for counters that nobody reads, or they are read while it goes on")
			}
			if job, err := f.workload.Job(f.params); err != nil {
				t.Error(err)
			} else if defaults, _ := bench.Complete("", f.workload.Params, nil); maps.Equal(defaults, f.params) {
				f.golden(t, "job", describeJob(job))
			} else if byDefault, err := f.workload.Job(defaults); err != nil {
				f.golden(t, "job", fmt.Sprintf("defaults: %v\n%s", err, describeJob(job)))
			} else {
				f.golden(t, "job", describeJob(byDefault)+describeJob(job))
			}
			for _, name := range f.outputs() {
				kind := kindOf(name)
				if !slices.Contains([]string{"good", "wrong", "truncated"}, kind) {
					t.Errorf("output %s: a name begins with good, wrong or truncated", name)
				}
				t.Run(name, func(t *testing.T) { f.check(t, name, kind) })
			}
		})
	}
}

// kindOf returns the first word of an output's name.
func kindOf(output string) string {
	kind := strings.TrimRightFunc(output, func(r rune) bool { return !unicode.IsLetter(r) })
	kind, _, _ = strings.Cut(kind, "-")
	return kind
}

// TestWorkloadsHaveFixtures: the fixtures of each workload have outputs of every kind.
func TestWorkloadsHaveFixtures(t *testing.T) {
	have := map[[2]string]bool{}
	for _, f := range fixtures(t) {
		for _, output := range f.outputs() {
			have[[2]string{f.workload.Name, kindOf(output)}] = true
		}
	}
	for _, w := range All {
		t.Run(w.Name, func(t *testing.T) {
			for _, kind := range []string{"good", "wrong", "truncated"} {
				if !have[[2]string{w.Name, kind}] {
					t.Errorf("workload %s: no fixture testdata/%s*.txtar has an output %q", w.Name, w.Name, kind)
				}
			}
		})
	}
}

// check runs one recorded output through the workload.
func (f *fixture) check(t *testing.T, name, kind string) {
	o := f.outcome(t, name)
	got, parseErr, checkErr := read(t, f.workload, o)
	f.golden(t, name+"/want", got)
	switch kind {
	case "good":
		lacks, _ := f.file(name + "/lacks") // the metrics that its tool does not report
		if (parseErr != nil) != (lacks != "") || checkErr != nil {
			t.Errorf("a good output is refused: parse: %v, check: %v", parseErr, checkErr)
		}
		for _, d := range f.workload.Metrics(f.params) {
			switch has, lacking := strings.Contains("\n"+got, "\n"+d.Name+" "), slices.Contains(strings.Fields(lacks), d.Name); {
			case !has && !lacking:
				t.Errorf("%s is declared but not in a good output", d.Name)
			case lacking && (has || !strings.Contains(fmt.Sprint(parseErr), d.Name+": ")):
				t.Errorf("%s is in an output that lacks it, or has no reason", d.Name)
			}
		}
		f.cut(t, o, got, parseErr)
	case "wrong":
		if checkErr == nil {
			t.Error("Check accepts wrong work")
		}
	case "truncated":
		if parseErr == nil && checkErr == nil {
			t.Error("neither Parse nor Check refuses a truncated output")
		}
	}
}

// cut truncates a good output at many places: that gives an error, or no difference, but never
// another number. Another digest counts as an error: it makes the run a different job.
func (f *fixture) cut(t *testing.T, o bench.Outcome, whole string, lacks error) {
	t.Helper()
	for _, which := range []*host.Output{&o.Inside, &o.Outside} {
		all, lines := which.Stdout, which.Lines
		for at := 0; at < len(all); at += 1 + len(all)/400 {
			which.Stdout = all[:at]
			which.Lines = linesOf(all[:at], 0)
			for i := range which.Lines {
				which.Lines[i].At = lines[i].At
			}
			if got, parseErr, checkErr := read(t, f.workload, o); fmt.Sprint(parseErr) == fmt.Sprint(lacks) && checkErr == nil && got != whole && lastLine(got) == lastLine(whole) {
				t.Fatalf("an output that ends after %d of %d bytes gives\n%s\nwant an error, or\n%s", at, len(all), got, whole)
			}
		}
		which.Stdout, which.Lines = all, lines
	}
}

// lastLine returns the digest from the text that read returns.
func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// read returns everything that a workload reads from an outcome, as text.
func read(t testing.TB, w *bench.Workload, o bench.Outcome) (text string, parseErr, checkErr error) {
	t.Helper()
	var b strings.Builder
	samples, parseErr := w.Parse(o)
	seen := map[string]bool{}
	for _, s := range samples {
		if !slices.ContainsFunc(w.Metrics(o.Params), func(d *metric.Desc) bool { return d.Name == s.Desc.Name }) {
			t.Errorf("%s is not declared", s.Desc.Name)
		}
		if seen[s.Desc.Name] || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			t.Errorf("%s is %v, or there twice", s.Desc.Name, s.Value)
		}
		seen[s.Desc.Name] = true
		fmt.Fprintf(&b, "%s %.6g %s", s.Desc.Name, s.Value, s.Trust)
		if s.Hist != nil {
			if len(s.Hist.Counts) != len(s.Hist.Bounds)+1 || !slices.IsSorted(s.Hist.Bounds) {
				t.Errorf("%s: histogram has %d counts for the bounds %v", s.Desc.Name, len(s.Hist.Counts), s.Hist.Bounds)
			}
			fmt.Fprintf(&b, " bounds=%.4g counts=%d sum=%.6g", s.Hist.Bounds, s.Hist.Counts, s.Hist.Sum)
		}
		b.WriteByte('\n')
	}
	if parseErr != nil {
		fmt.Fprintf(&b, "error: %v\n", parseErr)
	}
	if w.Series != nil {
		s, err := w.Series(o)
		fmt.Fprintf(&b, "series width=%.6g values=%.6g method=%q", s.Width, s.Values, s.Method)
		if s.Attained != nil {
			fmt.Fprintf(&b, " attained=%v", *s.Attained)
		}
		if err != nil {
			fmt.Fprintf(&b, " error: %v", err)
		}
		b.WriteByte('\n')
	}
	if w.Server != nil {
		fmt.Fprintf(&b, "server %q\n", w.Server(o))
	}
	digest, checkErr := w.Check(o)
	if checkErr != nil {
		fmt.Fprintf(&b, "check: %v\n", checkErr)
		if digest != "" {
			t.Errorf("a digest %q beside the error %v", digest, checkErr)
		}
	} else {
		fmt.Fprintf(&b, "digest %s\n", digest)
		if digest == "" {
			t.Error("no digest and no error")
		}
	}
	return b.String(), parseErr, checkErr
}

// describeJob renders a job as text, without the bytes of programs.
func describeJob(j bench.Job) string {
	var b strings.Builder
	command := func(where string, c host.Cmd) {
		fmt.Fprintf(&b, "%s %q", where, c.Argv)
		for _, k := range slices.Sorted(maps.Keys(c.Env)) {
			fmt.Fprintf(&b, " %s=%q", k, c.Env[k])
		}
		if c.Dir != "" {
			fmt.Fprintf(&b, " in %q", c.Dir)
		}
		if c.Stdin != nil {
			fmt.Fprintf(&b, " stdin %q", c.Stdin)
		}
		if c.Ready != "" {
			fmt.Fprintf(&b, " after %q asks %q", c.Ready, c.Ask)
		}
		b.WriteByte('\n')
	}
	command("inside", j.Inside)
	if j.Outside != nil {
		command("outside", *j.Outside)
	}
	for _, f := range j.Files {
		fmt.Fprintf(&b, "file %s exec=%v from=%q", f.Name, f.Exec, f.From)
		if utf8.Valid(f.Data) && len(f.Data) > 0 {
			fmt.Fprintf(&b, " data=%q", f.Data)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestReal runs the quick form of every fixture that has one on this machine.
func TestReal(t *testing.T) {
	for _, f := range fixtures(t) {
		quick, ok := f.file("quick")
		if !ok {
			continue
		}
		t.Run(f.label(), func(t *testing.T) {
			for _, tool := range f.workload.Tools {
				if _, err := exec.LookPath(tool.Command); err != nil {
					t.Skipf("%s is not here; package %s has it", tool.Command, tool.Package)
				}
			}
			p := maps.Clone(f.params)
			maps.Copy(p, settings(t, f.path, quick))
			var got string
			await.Event(t, "the machine is in time for the short windows", func() error {
				var parseErr, checkErr error
				got, parseErr, checkErr = read(t, f.workload, runHere(t, f.workload, p))
				if err := errors.Join(parseErr, checkErr); err != nil && strings.Contains(err.Error(), "arrived together") {
					return err
				} else if err != nil {
					t.Errorf("parse: %v, check: %v", parseErr, checkErr)
				}
				return nil
			})
			for _, d := range f.workload.Metrics(p) {
				if !strings.Contains("\n"+got, "\n"+d.Name+" ") {
					t.Errorf("%s is declared but was not measured", d.Name)
				}
			}
			t.Log("\n" + got)
		})
	}
}

// runHere runs a job without any launcher; it must succeed.
func runHere(t *testing.T, w *bench.Workload, p bench.Params) bench.Outcome {
	t.Helper()
	o, err := tryHere(t, w, p)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.Inside.Stderr)
	}
	return o
}

// tryHere runs a job without any launcher.
func tryHere(t *testing.T, w *bench.Workload, p bench.Params) (bench.Outcome, error) {
	t.Helper()
	job, err := w.Job(p)
	if err != nil {
		t.Fatal(err)
	}
	h := host.Local()
	work, data := t.TempDir(), t.TempDir()
	for _, f := range job.Files {
		if f.From != "" {
			if f.Data, err = h.ReadFile(f.From); err != nil {
				t.Fatal(err)
			}
		}
		mode := os.FileMode(0o644)
		if f.Exec {
			mode = 0o755
		}
		if err := h.Install(filepath.Join(work, f.Name), f.Data, mode); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(s string) string { return strings.NewReplacer("{work}", work, "{data}", data).Replace(s) }
	c := job.Inside
	c.Argv, c.Env, c.Dir = slices.Clone(c.Argv), maps.Clone(c.Env), fill(c.Dir)
	for i := range c.Argv {
		c.Argv[i] = fill(c.Argv[i])
	}
	for k, v := range c.Env {
		c.Env[k] = fill(v)
	}
	out, err := h.Exec(t.Context(), c)
	return bench.Outcome{Params: p, Inside: out}, err
}

// sound reads an outcome as the engine does and says what is wrong with the run that becomes of it: a parser that breaks
// off, a metric that is there twice or undeclared, a value that cannot be, or nothing without a reason.
func sound(w *bench.Workload, o bench.Outcome) error {
	r := &result.Run{Status: result.OK, Missing: map[string]string{}}
	w.Read(o, w.Primary(o.Params).Name, r)
	var descs []result.MetricDesc
	for _, d := range w.Metrics(o.Params) {
		descs = append(descs, result.Describe(d))
		if m := r.Metric(d.Name); m == nil && r.Status == result.OK {
			return fmt.Errorf("%s is not there", d.Name)
		}
	}
	seen := map[string]bool{}
	for _, m := range r.Metrics {
		switch {
		case seen[m.Name]:
			return fmt.Errorf("%s is there twice", m.Name)
		case !slices.ContainsFunc(descs, func(d result.MetricDesc) bool { return d.Name == m.Name }):
			return fmt.Errorf("%s is not declared", m.Name)
		case m.Value == nil && strings.TrimSpace(m.Reason) == "":
			return fmt.Errorf("%s is missing without a reason", m.Name)
		}
		seen[m.Name] = true
	}
	for name, why := range result.Impossible(descs, r.Metrics) {
		return fmt.Errorf("%s: %s", name, why)
	}
	for kind, n := range r.Errors {
		if n < 0 {
			return fmt.Errorf("%d errors of kind %q", n, kind)
		}
	}
	switch _, err := json.Marshal(r); {
	case err != nil:
		return err
	case strings.Contains(r.Reason, "crashed"):
		return errors.New(r.Reason)
	case r.Status != result.OK && r.Reason == "":
		return errors.New("it failed without a reason")
	}
	return nil
}

// likewise compares an output with another that says the same: each number is the same, or the run or the number has a reason.
func likewise(w *bench.Workload, whole, other bench.Outcome) error {
	read := func(o bench.Outcome) *result.Run {
		r := &result.Run{Status: result.OK, Missing: map[string]string{}}
		w.Read(o, w.Primary(o.Params).Name, r)
		return r
	}
	was, is := read(whole), read(other)
	if is.Status != result.OK {
		return nil // sound: it has a reason
	}
	for _, m := range is.Metrics {
		before := was.Metric(m.Name)
		if m.Value != nil && (before == nil || before.Value == nil || *before.Value != *m.Value) {
			return fmt.Errorf("%s is %v", m.Name, *m.Value)
		}
	}
	return nil
}

// TestDamagedOutput: whatever is wrong with the output of a tool, a run has no value that cannot be, and a reason for
// each that is missing.
func TestDamagedOutput(t *testing.T) {
	const separators = " \t{}[],:\"|=()/%"
	for _, x := range fixtures(t) {
		t.Run(x.label(), func(t *testing.T) {
			t.Parallel()
			for _, name := range x.outputs() {
				if !strings.HasPrefix(name, "good") {
					continue
				}
				whole := x.outcome(t, name)
				for _, side := range []struct {
					name string
					of   func(*bench.Outcome) *host.Output
				}{{"inside", func(o *bench.Outcome) *host.Output { return &o.Inside }}, {"outside", func(o *bench.Outcome) *host.Output { return &o.Outside }}} {
					out := side.of(&whole)
					if len(out.Stdout) == 0 {
						continue
					}
					mutate.Try(t, name+" "+side.name, out.Stdout, separators, func(m mutate.Mutation) error {
						o := whole
						damaged := side.of(&o)
						damaged.Stdout = m.Data
						damaged.Lines = linesOf(m.Data, 0)
						for i := range damaged.Lines { // lines keep their times as far as there are any
							damaged.Lines[i].At = out.Lines[min(i, len(out.Lines)-1)].At
						}
						if err := sound(x.workload, o); err != nil || !m.Same {
							return err
						}
						return likewise(x.workload, whole, o)
					})
				}
			}
		})
	}
}

// FuzzOutput feeds any text to every workload.
func FuzzOutput(f *testing.F) {
	fs := fixtures(f)
	for i, x := range fs {
		for _, name := range x.outputs() {
			o := x.outcome(f, name)
			f.Add(uint8(i), o.Inside.Stdout, o.Outside.Stdout, int64(time.Millisecond))
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, inside, outside []byte, step int64) {
		x := fs[int(i)%len(fs)]
		o := bench.Outcome{Params: x.params,
			Inside:  host.Output{Stdout: inside, Lines: linesOf(inside, time.Duration(step)), Wall: time.Second},
			Outside: host.Output{Stdout: outside, Lines: linesOf(outside, time.Duration(step))}}
		if err := sound(x.workload, o); err != nil {
			t.Error(err)
		}
	})
}

// TestFileNames: workload NAME is in the file NAME.go, dashes as underscores.
func TestFileNames(t *testing.T) {
	for _, m := range All {
		file := strings.ReplaceAll(m.Name, "-", "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: want its file to be called %s", m.Name, file)
		}
	}
}
