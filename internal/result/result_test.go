package result

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/stats"
)

func pointer(v float64) *float64 { return &v }

func sample() *Experiment {
	return &Experiment{
		SchemaVersion: SchemaVersion, ID: "4f6c0c9e-0000-4000-8000-000000000001", Name: "t",
		StartedAt:    time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Design:       Design{Kind: Interleaved, PairsPlanned: 6, Primary: "x_seconds"},
		Workload:     Workload{Name: "null", Version: 1, Metrics: []MetricDesc{{Name: "x_seconds", Unit: "seconds", Better: "lower"}}},
		Cases:        []Case{{ID: "default", Identity: "sha256:00"}},
		Environments: []Environment{{ID: "native", Role: Baseline, Launcher: "native"}},
	}
}

func run(i int) *Run {
	return &Run{ID: fmt.Sprintf("p%02d-default-native", i), Env: "native", Case: "default", Pair: i, Status: OK,
		Metrics: []Metric{{Name: "x_seconds", Value: pointer(float64(i) + 0.5), Source: Measured}, {Name: "y_bytes", Reason: "the tool did not say"}}}
}

// TestStreamSurvivesAnyCut cuts the stream at every byte, as a crash could, and resumes: all complete records are
// there, and the next run can be written.
func TestStreamSurvivesAnyCut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	s, err := Create(path, sample())
	if err != nil {
		t.Fatal(err)
	}
	var ends []int64
	ends = append(ends, s.end)
	for i := range 3 {
		if err := s.Run(run(i)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.end)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(partial(path))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(partial(path), whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		e, s, err := Resume(path)
		if int64(cut) < ends[0] {
			if err == nil {
				t.Fatalf("cut at %d: no error without a first record", cut)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := 0
		for _, end := range ends[1:] {
			if int64(cut) >= end {
				want++
			}
		}
		if len(e.Runs) != want {
			t.Fatalf("cut at %d: %d runs, want %d", cut, len(e.Runs), want)
		}
		if err := errors.Join(s.Run(run(9)), s.Close()); err != nil {
			t.Fatal(err)
		}
		e, s, err = Resume(path)
		if err != nil || len(e.Runs) != want+1 || !reflect.DeepEqual(&e.Runs[want], run(9)) {
			t.Fatalf("cut at %d: after another run: %v", cut, err)
		}
		s.Close()
	}
}

func TestFinishAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "r.json")
	e := sample()
	s, err := Create(path, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, e); err == nil || !strings.Contains(err.Error(), "another teescope") {
		t.Errorf("second Create: %v", err)
	}
	if _, _, err := Resume(path); err == nil || !strings.Contains(err.Error(), "another teescope") {
		t.Errorf("Resume while it is written: %v", err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("Read while it is written: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, e); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("Create over a stopped one: %v", err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("Read before the end: %v", err)
	}
	if _, s, err = Resume(path); err != nil {
		t.Fatal(err)
	}
	raw, err := s.Raw("p00/../x", "stdout", []byte("said"))
	if err != nil || strings.Contains(raw.Path, "..") && strings.Contains(raw.Path, "/../") {
		t.Errorf("raw %v, %v", raw, err)
	}
	e.Runs = append(e.Runs, *run(0))
	e.Comparisons = []Comparison{{Verdict: stats.Inconclusive, Bound: Exact}}
	if err := s.Finish(e); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("read back %+v, %v", got, err)
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), raw.Path)); err != nil || string(b) != "said" {
		t.Errorf("raw file: %q, %v", b, err)
	}
	if _, err := Create(path, e); err == nil {
		t.Error("Create over a finished document")
	}
	if _, _, err := Resume(path); err == nil || !strings.Contains(err.Error(), "is finished") {
		t.Errorf("Resume of a finished one: %v", err)
	}
}

func compressed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.json")
	if err := Write(good, sample()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*Experiment)) string {
		e := sample()
		e.Runs = []Run{*run(0), *run(1)}
		change(e)
		path := filepath.Join(dir, "changed.json")
		if err := Write(path, e); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct{ data, want string }{
		"truncated":               {string(text[:len(text)/2]), "cut off"},
		"empty":                   {"", "cut off"},
		"foreign":                 {`{"hello": 1}`, "no schema_version"},
		"a list":                  {`[1]`, "no schema_version"},
		"newer":                   {strings.Replace(string(text), `"`+SchemaVersion+`"`, `"2.0.0"`, 1), "newer"},
		"no version":              {strings.Replace(string(text), `"`+SchemaVersion+`"`, `"x"`, 1), "want a version"},
		"wrong type":              {strings.Replace(string(text), `"pairs_planned": 6`, `"pairs_planned": "six"`, 1), "schema"},
		"a run twice":             {changed(func(e *Experiment) { e.Runs[1] = e.Runs[0] }), "run p00-default-native is there twice"},
		"a run of no environment": {changed(func(e *Experiment) { e.Runs[1].Env = "sgx" }), `there is no environment "sgx"`},
		"a run of no case":        {changed(func(e *Experiment) { e.Runs[1].Case = "big" }), `there is no case "big"`},
		"an environment twice":    {changed(func(e *Experiment) { e.Environments = append(e.Environments, e.Environments[0]) }), `environment "native" is there twice`},
		"a case twice":            {changed(func(e *Experiment) { e.Cases = append(e.Cases, e.Cases[0]) }), `case "default" is there twice`},
		"a margin below 0":        {changed(func(e *Experiment) { e.Design.Margin = -1 }), "shares between 0 and 1"},
		"compressed, cut off":     {string(compressed(t, text)[:60]), "cut off"},
		"compressed, foreign":     {string(compressed(t, []byte(`{"hello": 1}`))), "no schema_version"},
		"missing part":            {strings.Replace(string(text), `"workload"`, `"work"`, 1), "schema"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "bad.json")
			if err := os.WriteFile(path, []byte(c.data), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v; want %q", name, err, c.want)
			}
		})
	}
	packed := filepath.Join(dir, "good.json.gz")
	if err := os.WriteFile(packed, compressed(t, text), 0o644); err != nil {
		t.Fatal(err)
	}
	want := sample()
	if err := seal(want); err != nil {
		t.Fatal(err)
	}
	if e, err := Read(packed); err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("compressed: %+v, %v", e, err)
	}
	newerMinor := strings.Replace(string(text), `"`+SchemaVersion+`"`, `"1.9.0", "new_field": 1`, 1)
	newerMinor = strings.Replace(newerMinor, `"digest": "`+want.Digest+`"`, `"another_field": 2`, 1)
	if _, err := Parse([]byte(newerMinor)); err != nil {
		t.Errorf("a newer minor version: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "nowhere.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestArchive(t *testing.T) {
	a := &Archive{Dir: filepath.Join(t.TempDir(), "results")}
	if es, err := a.List(); err != nil || len(es) != 0 {
		t.Errorf("a folder that is not there: %v, %v", es, err)
	}
	old, young := sample(), sample()
	young.ID, young.StartedAt = "b", old.StartedAt.Add(time.Hour)
	for _, e := range []*Experiment{old, young} {
		if _, err := a.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(a.Dir, "bad.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	es, err := a.List()
	if len(es) != 2 || es[0].ID != "b" || err == nil || !strings.Contains(err.Error(), "bad.json") {
		t.Errorf("%d documents, %v", len(es), err)
	}
	for _, id := range []string{"../secret", "", "nope"} {
		t.Run(id, func(t *testing.T) {
			if _, err := a.Get(id); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get %q: %v", id, err)
			}
		})
	}
	if e, err := a.Get("b"); err != nil || e.ID != "b" {
		t.Errorf("Get: %v, %v", e, err)
	}
	if err := os.Rename(filepath.Join(a.Dir, "b.json"), filepath.Join(a.Dir, "startup-20260501T120000.json")); err != nil {
		t.Fatal(err)
	}
	if e, err := a.Get("b"); err != nil || e.ID != "b" {
		t.Errorf("Get of a document in a file of another name: %v, %v", e, err)
	}
	for id, file := range map[string]string{"b": "startup-20260501T120000.json", old.ID: old.ID + ".json"} {
		t.Run(id, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(a.Dir, file))
			if got, err2 := a.Bytes(id); err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Errorf("Bytes of %s: %d bytes, %v, want the %d of %s", id, len(got), err2, len(want), file)
			}
		})
	}
	for _, id := range []string{"../secret", "", "nope"} {
		t.Run(id, func(t *testing.T) {
			if b, err := a.Bytes(id); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Bytes %q: %q, %v", id, b, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema_version": "1.0.0"}`))
	f.Add([]byte(`{"schema_version": "9"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := Parse(b); err == nil && e.SchemaVersion == "" {
			t.Error("accepted without a version")
		}
	})
}
