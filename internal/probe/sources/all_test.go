package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
	"github.com/teescope/teescope/internal/tee"
)

// A fixture testdata/SOURCE.txtar or testdata/SOURCE-CASE.txtar is a machine on
// which the source is opened and read once. Besides what hosttest knows it holds
//
//	want      the samples in text format, rewritten by "go test -update"
//	error     a regular expression for "STATE: reason (remedy)"; without it there must be no error
//	facts     what was detected, JSON of []tee.Facts
//	setting   what the source is set to, JSON of {"level": "...", "pids": [...]}
//	adjust    lines "level NAME", "process REGEX", "pid NUMBER", "cgroup REGEX", "container REGEX": what the reader is adjusted to before it is read
//	targets   what the source requests asks, JSON of [{"Process": "...", "App": "...", "Address": "..."}]
//	optional  lines "path why": files that some kernels lack; another fixture must show the source without them

var update = flag.Bool("update", false, "rewrite the want file of every fixture")

// ugly matches names that promlint dislikes and that we keep, because existing dashboards use
// them: node_exporter's node_netstat_*, node_sockstat_* and node_memory_* contain the kernel's
// field names, and entropy is in bits.
var ugly = regexp.MustCompile(`^node_(netstat|sockstat|memory|vmstat)_|^node_entropy_available_bits$`)

func TestDeclarations(t *testing.T) {
	descs, names := map[string]*metric.Desc{}, map[string]bool{}
	var page []metric.Sample
	for _, d := range probe.Metrics {
		descs[d.Name] = d
	}
	for _, s := range All {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(s.Name) || names[s.Name] {
			t.Errorf("source %q: a name is lower case, without hyphens, and unique", s.Name)
		}
		names[s.Name] = true
		if s.Doc == "" || s.Open == nil || len(s.Metrics) == 0 {
			t.Errorf("source %s: needs Doc, Open and Metrics", s.Name)
		}
		for _, d := range s.Metrics {
			if err := d.Check(); err != nil {
				t.Errorf("source %s: %v", s.Name, err)
			}
			if other, ok := descs[d.Name]; ok {
				if other != d {
					t.Errorf("source %s: %s is declared twice; share the Desc", s.Name, d.Name)
				}
				continue
			}
			descs[d.Name] = d
			if d.Kind != metric.Histogram {
				page = append(page, metric.Sample{Desc: d, Labels: make([]string, len(d.Labels))})
			}
		}
	}
	problems, err := promlint.New(bytes.NewReader(metric.AppendText(nil, page))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !ugly.MatchString(p.Metric) {
			t.Errorf("promlint: %s: %s", p.Metric, p.Text)
		}
	}
}

func TestFixtures(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(label(path), func(t *testing.T) {
			s := sourceOf(path)
			if s == nil {
				t.Fatalf("%s: orphan, no source has that name", path)
			}
			f := hosttest.Open(t, path)
			samples, err := readOnce(t, s, f)
			checkError(t, f, err)
			seen := map[string]bool{}
			for _, x := range samples {
				switch {
				case x.Desc == probe.Coverage || x.Desc == probe.Missed || x.Desc == probe.Folded:
					x.Labels = []string{s.Name}
				case !slices.Contains(s.Metrics, x.Desc):
					t.Errorf("%s is emitted but not declared", x.Desc.Name)
				case len(x.Labels) != len(x.Desc.Labels):
					t.Fatalf("%s has %d label values, want %d", x.Desc.Name, len(x.Labels), len(x.Desc.Labels))
				}
				series := x.Desc.Name + fmt.Sprintf("%q", x.Labels)
				if seen[series] {
					t.Errorf("%s is emitted twice", series)
				}
				seen[series] = true
			}
			checkGolden(t, path, f, samples)
		})
	}
}

// TestSourcesHaveFixtures: each source has a fixture, and the want files of its fixtures have each of its metrics.
func TestSourcesHaveFixtures(t *testing.T) {
	wanted := map[*probe.Source]string{}
	for _, path := range fixtures(t) {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if f.Name == "want" {
				wanted[sourceOf(path)] += "\n" + string(f.Data)
			}
		}
	}
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			want, ok := wanted[s]
			if !ok {
				t.Fatalf("source %s has no fixture testdata/%s*.txtar", s.Name, s.Name)
			}
			for _, d := range s.Metrics {
				if !regexp.MustCompile(`(?m)^` + d.Name + `(_bucket)?[{ ]`).MatchString(want) {
					t.Errorf("source %s: no fixture makes it emit %s", s.Name, d.Name)
				}
			}
		})
	}
}

// TestRemovedFiles removes every file of every fixture in turn: the source must report it. It
// may still emit what it could read.
func TestRemovedFiles(t *testing.T) {
	have := map[*probe.Source][]string{}
	for _, path := range fixtures(t) {
		have[sourceOf(path)] = append(have[sourceOf(path)], path)
	}
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			var fs []*hosttest.Fixture
			for _, path := range have[s] {
				fs = append(fs, hosttest.Open(t, path))
			}
			for _, f := range fs {
				removeFiles(t, s, f, optionalFiles(t, f, fs))
			}
		})
	}
}

// optionalFiles returns the files that a fixture says some kernels lack; others has its source's fixtures.
func optionalFiles(t *testing.T, f *hosttest.Fixture, others []*hosttest.Fixture) map[string]bool {
	t.Helper()
	optional := map[string]bool{}
	for line := range strings.Lines(f.Meta["optional"]) {
		file, why, ok := strings.Cut(strings.TrimSpace(line), " ")
		lacking := func(g *hosttest.Fixture) bool { return !slices.Contains(g.Files, file) }
		if !ok || why == "" || !slices.Contains(f.Files, file) || !slices.ContainsFunc(others, lacking) {
			t.Errorf("optional file %q needs a reason, and a second fixture without it", file)
		}
		optional[file] = true
	}
	return optional
}

func removeFiles(t *testing.T, s *probe.Source, f *hosttest.Fixture, optional map[string]bool) {
	t.Helper()
	for _, file := range f.Files {
		if optional[file] {
			continue
		}
		f.RemoveDuring(t, file, func() {
			if _, err := readOnce(t, s, f); err == nil {
				t.Errorf("%s: no error without %s", s.Name, file)
			}
		})
	}
}

// TestLocal reads the file sources on the machine that runs the test. A source that is not here
// is fine; a panic or a duplicate is not.
func TestLocal(t *testing.T) {
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			r, err := s.Open(host.Local(), nil)
			if err != nil {
				probetest.Skip(t, s.Name, fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
			}
			defer r.Close()
			seen := map[string]bool{}
			err = r.Read(t.Context(), func(x metric.Sample) {
				series := x.Desc.Name + fmt.Sprintf("%q", x.Labels)
				if seen[series] {
					t.Errorf("%s is emitted twice", series)
				}
				seen[series] = true
			})
			t.Logf("%d series, error %v", len(seen), err)
			if len(seen) == 0 && err == nil && s != &teeInfo && s != &processTimes { // process_times counts from its first reading on
				t.Error("neither samples nor a reason")
			}
		})
	}
}

// BenchmarkRead measures the cost of one round on this machine.
func BenchmarkRead(b *testing.B) {
	for _, s := range All {
		b.Run(s.Name, func(b *testing.B) {
			r, err := s.Open(host.Local(), nil)
			if err != nil {
				probetest.Skip(b, s.Name, err)
			}
			defer r.Close()
			b.ReportAllocs()
			for b.Loop() {
				_ = r.Read(b.Context(), func(metric.Sample) {}) // TestLocal reports errors
			}
		})
	}
}

func readOnce(t *testing.T, s *probe.Source, f *hosttest.Fixture) ([]metric.Sample, error) {
	t.Helper()
	var facts []tee.Facts
	if text := f.Meta["facts"]; text != "" {
		if err := json.Unmarshal([]byte(text), &facts); err != nil {
			t.Fatalf("facts: %v", err)
		}
	}
	if text := f.Meta["targets"]; text != "" {
		s = requestsOf(t, text)
	}
	r, err := s.Open(f.Host, facts)
	if err != nil {
		return nil, err
	}
	if text := f.Meta["setting"]; text != "" {
		var set struct {
			Level string
			PIDs  []int
		}
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			t.Fatalf("setting: %v", err)
		}
		_ = r.(probe.Adjustable).Adjust(set.Level, probe.Scope{PIDs: set.PIDs}) // Read reports the same error
	}
	var out []metric.Sample
	if text := f.Meta["adjust"]; text != "" {
		err = adjust(t, r, text)
	}
	if rerr := r.Read(t.Context(), func(x metric.Sample) { out = append(out, x) }); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		err = &readError{err}
	}
	if cerr := r.Close(); cerr != nil {
		t.Errorf("close: %v", cerr)
	}
	out, refused := probe.Tidy(out)
	if refused != nil {
		err = &readError{errors.Join(err, refused)}
	}
	metric.SortByName(out)
	return out, err
}

func adjust(t *testing.T, r probe.Reader, text string) error {
	t.Helper()
	var level string
	var scope probe.Scope
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "level":
			level = value
		case "process":
			scope.Process = &metric.NamePattern{Regexp: regexp.MustCompile(value)}
		case "cgroup":
			scope.Cgroup = regexp.MustCompile(value)
		case "container":
			scope.Container = regexp.MustCompile(value)
		case "pid":
			pid, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("adjust: %v", err)
			}
			scope.PIDs = append(scope.PIDs, pid)
		default:
			t.Fatalf("adjust: %q", line)
		}
	}
	a, ok := r.(probe.Adjustable)
	if !ok {
		t.Fatalf("adjust: a %T cannot be", r)
	}
	return a.Adjust(level, scope)
}

// readError marks an error of Read, as opposed to one of Open.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

func checkError(t *testing.T, f *hosttest.Fixture, err error) {
	t.Helper()
	want := strings.TrimSpace(f.Meta["error"])
	got := ""
	switch re := new(readError); {
	case err == nil:
	case errors.As(err, &re):
		got = fmt.Sprintf("%s: %v (%s)", probe.Degraded, err, probe.Remedy(err))
	case errors.Is(err, errors.ErrUnsupported):
		got = fmt.Sprintf("%s: %v (%s)", probe.Absent, err, probe.Remedy(err))
	default:
		got = fmt.Sprintf("%s: %v (%s)", probe.Unavailable, err, probe.Remedy(err))
	}
	if ok, rerr := regexp.MatchString(want, got); rerr != nil || !ok || (want == "") != (got == "") {
		t.Errorf("error %q does not match %q (%v)", got, want, rerr)
	}
}

func checkGolden(t *testing.T, path string, f *hosttest.Fixture, samples []metric.Sample) {
	t.Helper()
	labelled := slices.Clone(samples)
	for i, x := range labelled {
		if len(x.Labels) == 0 && slices.Contains(probe.Metrics, x.Desc) {
			labelled[i].Labels = []string{sourceOf(path).Name}
		}
	}
	got := string(metric.AppendText(nil, labelled))
	if !*update {
		if diff := firstDiff(f.Meta["want"], got); diff != "" {
			t.Errorf("samples differ from want (regenerate with -update): %s", diff)
		}
		return
	}
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
	a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
	golden.Write(t, path, txtar.Format(a))
}

// firstDiff describes the first line in which two texts differ.
func firstDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, b, a)
		}
	}
	return ""
}

func fixtures(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return paths
}

func sourceOf(path string) *probe.Source {
	name, _, _ := strings.Cut(label(path), "-")
	for _, s := range All {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func label(path string) string { return strings.TrimSuffix(filepath.Base(path), ".txtar") }

// TestFileNames: source NAME is in the file NAME.go.
func TestFileNames(t *testing.T) {
	for _, s := range All {
		text, err := os.ReadFile(s.Name + ".go")
		if err != nil {
			t.Errorf("%s: want its file to be called %s.go", s.Name, s.Name)
			continue
		}
		if !regexp.MustCompile(`Name: +"` + s.Name + `",\n\s+Doc:`).Match(text) {
			t.Errorf("%s: want its declaration in %s.go", s.Name, s.Name)
		}
	}
}
