package sources

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// exampleProbes is the folder of docs/probes.md's examples.
func exampleProbes(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../../docs/probes")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// probesIn returns the sources of a folder by name.
func probesIn(t *testing.T, folder string) map[string]*probe.Source {
	t.Helper()
	sources, err := UserProbes(host.Local(), folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*probe.Source{}
	for _, s := range sources {
		if out[s.Name] != nil {
			t.Errorf("two sources are called %s", s.Name)
		}
		out[s.Name] = s
	}
	return out
}

// opened opens the source of a user's probe.
func opened(t *testing.T, s *probe.Source) probe.Reader {
	t.Helper()
	r, err := s.Open(host.Local(), nil)
	if err != nil {
		probetest.Skip(t, s.Name, fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// series reads the samples of a metric by their labels, joined by commas.
func series(t *testing.T, r probe.Reader, name string) (map[string]metric.Sample, error) {
	t.Helper()
	out := map[string]metric.Sample{}
	err := r.Read(t.Context(), func(x metric.Sample) {
		if x.Desc.Name != name {
			return
		}
		key := strings.Join(x.Labels, ",")
		if _, ok := out[key]; ok {
			t.Errorf("%s{%s} is emitted twice", name, key)
		}
		out[key] = x
	})
	return out, err
}

func TestExampleProbesCountExactly(t *testing.T) {
	probes := probesIn(t, exampleProbes(t))
	for _, name := range []string{"user_execs", "user_lookups"} {
		if s := probes[name]; s == nil || !s.OptIn || len(s.Metrics) != 1 || s.Metrics[0].Check() != nil {
			t.Fatalf("source %s: %+v", name, s)
		}
	}
	dir := t.TempDir()
	t.Run("execs", func(t *testing.T) {
		r := opened(t, probes["user_execs"])
		name := probetest.Name("up") + "-\xff\"\n\\x"
		program := compile(t, filepath.Join(dir, name), "../userprobe/true.c")
		run := func(n int) {
			for range n {
				if err := exec.Command(program).Run(); err != nil {
					t.Fatal(err)
				}
			}
		}
		run(25)
		got, err := series(t, r, "tee_user_execs_total")
		if err != nil || got[name].Value != 25 {
			t.Errorf("%v of %q (%v), want 25", got[name].Value, name, err)
		}
		g, ok := r.(probe.Governed)
		if !ok {
			t.Fatal("the budget does not govern it, though it names its events")
		}
		if events, seconds := g.Spent(); events < 25 || len(seconds) == 0 || slices.Max(seconds) <= 0 {
			t.Errorf("%v events cost %v", events, seconds)
		}
		if err := g.Detach(); err != nil {
			t.Fatal(err)
		}
		run(5)
		if err := g.Attach(); err != nil {
			t.Fatal(err)
		}
		run(7)
		if got, err := series(t, r, "tee_user_execs_total"); err != nil || got[name].Value != 32 {
			t.Errorf("%v after a time detached (%v), want 32", got[name].Value, err)
		}
	})
	t.Run("lookups", func(t *testing.T) {
		r := opened(t, probes["user_lookups"])
		if _, ok := r.(probe.Governed); ok {
			t.Error("the budget governs a probe whose events it does not know")
		}
		name := probetest.Name("lookup")
		p := converse(t, compile(t, filepath.Join(dir, name), "../userprobe/lookup.c"), "40")
		began := time.Now()
		p.work()
		got, err := series(t, r, "tee_user_name_lookup_seconds")
		x := got[name]
		if err != nil || x.Hist == nil {
			t.Fatalf("%v (%v)", got, err)
		}
		var n uint64
		for _, c := range x.Hist.Counts {
			n += c
		}
		// clock: no call takes longer than has passed, however much that is.
		if n != 40 || x.Hist.Sum <= 0 || x.Hist.Sum > time.Since(began).Seconds() || len(x.Hist.Counts) != 7 {
			t.Errorf("%d lookups in %v, sum %v s", n, x.Hist.Counts, x.Hist.Sum)
		}
	})
}

// object compiles testdata/userprobe/probes.bpf.c to NAME.o and writes NAME.yaml.
func object(t *testing.T, folder, name, yaml string, flags ...string) {
	t.Helper()
	args := append([]string{"-target", "bpf", "-O2", "-mcpu=v3", "-I" + exampleProbes(t), "-c", "testdata/userprobe/probes.bpf.c",
		"-o", filepath.Join(folder, name+".o")}, flags...)
	if out, err := exec.Command("clang", args...).CombinedOutput(); err != nil {
		probetest.Skip(t, "clang", fmt.Errorf("clang: %w: %s", err, out))
	}
	probeFile(t, folder, name, yaml)
}

func probeFile(t *testing.T, folder, name, yaml string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
}

// countsYAML is a probe of the map counts; the metric has the probe's name.
func countsYAML(name, more string) string {
	return fmt.Sprintf("doc: a probe\non: true\n%smetrics:\n  - {map: counts, name: tee_user_%s_total, help: Events., kind: counter, labels: [{name: pid, type: u32}]}\n", more, name)
}

func TestProbesThatCannotBeUsed(t *testing.T) {
	type unusable struct {
		name, more string
		flags      []string
		// want matches the error of opening or, if the source still delivers, of reading.
		want     string
		delivers bool
	}
	cases := []unusable{
		{"good", "", []string{"-g"}, ``, true},
		{"rejected", "", []string{"-g", "-DREJECTED"}, `load .*rejected.o into the kernel: program bad: the kernel's verifier refused it: R\d invalid mem access '(scalar|inv)' \(at ";? ?.*\*\(`, false},
		{"half", "", []string{"-g", "-DHALF"}, `program bad: the kernel's verifier refused it`, true},
		{"nowhere", "", []string{"-g", "-DNOWHERE"}, `program nowhere: attach: .*`, true},
		{"nobtf", "", nil, `nobtf.o: .*BTF`, false},
		{"meddling", "", []string{"-g", "-DMEDDLING"}, `meddling.o: program meddling: a probe may not call .*SendSignal`, false},
		{"filter", "", []string{"-g", "-DFILTER"}, `filter.o: program filter: section "xdp": a probe may be tracepoint, raw_tp`, false},
		{"pinned", "", []string{"-g", "-DPINNED"}, `map counts: a probe's maps may not be pinned`, false},
		{"large", "", []string{"-g", "-DLARGE"}, `its maps need 120000768 bytes, more than 67108864`, false},
		{"unplaced", "", []string{"-g", "-DUPROBE"}, `program function of .*unplaced.o is a uprobe of no function`, false},
		{"nofile", "attach: {function: {path: /no/such/*, symbol: f}}\n", []string{"-g", "-DUPROBE"}, `program function: attach: no file matches /no/such/\*`, true},
		{"nosymbol", "attach: {function: {path: /proc/self/exe, symbol: f}}\n", []string{"-g", "-DUPROBE"}, `program function: attach: .*`, true},
		{"noprogram", "attach: {nothing: {path: /bin/sh, symbol: f}}\n", []string{"-g"}, `attach: .*noprogram.o has no program "nothing"`, false},
	}
	dir := t.TempDir()
	for _, c := range cases {
		object(t, dir, c.name, countsYAML(c.name, c.more), c.flags...)
	}
	object(t, dir, "nomap", strings.Replace(countsYAML("nomap", ""), "map: counts", "map: \"c\\xe9\\n\"", 1), "-g")
	object(t, dir, "outside", strings.Replace(countsYAML("outside", ""), "type: u32", "type: u32, offset: 1", 1), "-g")
	object(t, dir, "beyond", strings.Replace(countsYAML("beyond", ""), "kind: counter", "kind: counter, value: {offset: 4}", 1), "-g")
	cases = append(cases,
		unusable{name: "nomap", want: `metric tee_user_nomap_total: the object has no map "cé\\n", only counts`},
		unusable{name: "outside", want: `metric tee_user_outside_total: label pid ends at byte 5, but a key of map counts has 4`},
		unusable{name: "beyond", want: `a number ends at byte 12, but a value of map counts has 8`},
	)
	probes := probesIn(t, dir)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := probes["user_"+c.name]
			if s == nil {
				t.Fatal("no source")
			}
			r, err := s.Open(host.Local(), nil)
			if (err == nil) != c.delivers {
				t.Fatalf("opened: %v", err)
			}
			if err == nil {
				defer r.Close()
				_ = exec.Command("true").Run()
				var got map[string]metric.Sample
				got, err = series(t, r, "tee_user_"+c.name+"_total")
				if len(got) == 0 {
					t.Error("the program that is good counted nothing")
				}
			}
			text := fmt.Sprint(err)
			if err == nil {
				text = ""
			}
			t.Log(text)
			if ok, rerr := regexp.MatchString(c.want, text); rerr != nil || !ok || (c.want == "") != (text == "") || strings.Contains(text, "\n") {
				t.Errorf("the error is %q, want %q", text, c.want)
			}
			if err != nil && errors.Is(err, errors.ErrUnsupported) && c.name != "nowhere" {
				t.Errorf("%q reads as if the machine lacked something", text)
			}
		})
	}
}

func TestProbesWithMoreSeriesThanAllowed(t *testing.T) {
	dir := t.TempDir()
	for _, overflow := range []string{"other", "drop"} {
		yaml := strings.Replace(countsYAML(overflow, ""), "kind: counter", "kind: counter, series: 3, overflow: "+overflow, 1)
		object(t, dir, overflow, yaml, "-g")
	}
	probes := probesIn(t, dir)
	for _, overflow := range []string{"other", "drop"} {
		r := opened(t, probes["user_"+overflow])
		for range 10 {
			if err := exec.Command("true").Run(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := series(t, r, "tee_user_"+overflow+"_total")
		other, folded := got["other"]
		if want := 3; folded && len(got) != want+1 || !folded && len(got) != want || folded != (overflow == "other") || folded && other.Value < 7 {
			t.Errorf("overflow %s: %v", overflow, got)
		}
		if err == nil || !strings.Contains(err.Error(), "has more than its 3 series") || probe.Remedy(err) == "" {
			t.Errorf("overflow %s: %v", overflow, err)
		}
	}
}

func TestProbeFiles(t *testing.T) {
	const metrics = "metrics:\n  - map: m\n    name: tee_user_x_total\n    help: X.\n    kind: counter\n"
	for _, c := range []struct{ name, yaml, want string }{
		{"empty", "", "the file is empty"},
		{"comment", "# nothing", "the file is empty"},
		{"list", "- a", "line 1: cannot unmarshal !!seq"},
		{"unknown", "doc: x\nmaps: 3\n" + metrics, "line 2: field maps not found"},
		{"nested", "doc: x\n" + metrics + "    labels: [{name: a, typ: u32}]\n", "line 7: field typ not found"},
		{"twice", "doc: x\ndoc: y\n" + metrics, `line 2: mapping key "doc" already defined at line 1`},
		{"two", "doc: x\n" + metrics + "---\ndoc: y\n", "more than one document"},
		{"type", "doc: x\n" + metrics + "    series: many\n", "line 7: cannot unmarshal !!str `many` into int"},
		{"syntax", "doc: [x", "line 1: did not find expected"},
		{"bytes", "doc: \xff\xfe", "invalid"},
		{"nodoc", metrics, "doc: say in a sentence"},
		{"name", "name: A\ndoc: x\n" + metrics, `line 1: name: "A" is not a name`},
		{"object", "doc: x\nobject: ../../etc/x.o\n" + metrics, "line 2: object: "},
		{"nometrics", "doc: x\n", "metrics: want 1 to 32"},
		{"prefix", "doc: x\n" + strings.Replace(metrics, "tee_user_x", "tee_x", 1), `line 4: metrics[0].name: "tee_x_total" must be tee_user_`},
		{"newline", "doc: x\n" + strings.Replace(metrics, "tee_user_x_total", `"tee_user_x\n_total"`, 1), `line 4: metrics[0].name: `},
		{"total", "doc: x\n" + strings.Replace(metrics, "_total", "", 1), "line 4: metrics[0].name: metric tee_user_x: a counter's name ends in _total"},
		{"kind", "doc: x\n" + strings.Replace(metrics, "counter", "sum", 1), `line 6: metrics[0].kind: "sum" is not`},
		{"unit", "doc: x\n" + metrics + "    unit: bytes\n", "line 7: metrics[0].unit: "},
		{"bounds", "doc: x\n" + strings.Replace(metrics, "x_total\n    help: X.\n    kind: counter", "x\n    help: X.\n    kind: histogram\n    bounds: [1, .nan]\n    sum: {offset: 0}", 1), "line 7: metrics[0].bounds: want numbers that rise"},
		{"sum", "doc: x\n" + strings.Replace(metrics, "x_total\n    help: X.\n    kind: counter", "x\n    help: X.\n    kind: histogram\n    bounds: [1]", 1), "line 7: metrics[0].bounds: a histogram has"},
		{"label", "doc: x\n" + metrics + "    labels:\n      - {name: ok, type: u32}\n      - {name: le, type: float}\n", `line 9: metrics[0].labels[1]: type "float" is not`},
		{"reserved", "doc: x\n" + metrics + "    labels:\n      - {name: job, type: u32}\n", `label "job" is reserved`},
		{"size", "doc: x\n" + metrics + "    labels:\n      - {name: a, type: string}\n", "line 8: metrics[0].labels[0]: a string needs a size"},
		{"huge", "doc: x\n" + metrics + "    labels:\n      - {name: a, type: hex, size: 9223372036854775807}\n", "offset and size are outside"},
		{"value", "doc: x\n" + metrics + "    value: {size: 3}\n", "line 7: metrics[0].value: want a size"},
		{"negative", "doc: x\n" + metrics + "    value: {offset: -8}\n", "line 7: metrics[0].value: the offset"},
		{"scale", "doc: x\n" + metrics + "    value: {scale: -1}\n", "line 7: metrics[0].value: want a scale"},
		{"series", "doc: x\n" + metrics + "    series: 100000\n", "line 7: metrics[0].series: "},
		{"overflow", "doc: x\n" + metrics + "    overflow: ignore\n", "line 7: metrics[0].overflow: "},
		{"events", "doc: x\nevents: tee_user_y_total\n" + metrics, "line 2: events: "},
		{"attach", "doc: x\nattach:\n  f: {path: bin/sh, symbol: main}\n" + metrics, "line 3: attach.f: want path"},
		{"again", "doc: x\n" + metrics + strings.TrimPrefix(metrics, "metrics:\n"), "line 8: metrics[1].name: declared twice"},
		{"anchor", "doc: &a [*a]\n" + metrics, "line 1"},
	} {
		_, err := parseUserProbe([]byte(c.yaml), c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sources.") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A bad file becomes a source that reports the error, and the others are available.
func TestFolderOfProbes(t *testing.T) {
	if s, err := UserProbes(host.Local(), filepath.Join(t.TempDir(), "none")); s != nil || err != nil {
		t.Errorf("no folder: %v, %v", s, err)
	}
	dir := t.TempDir()
	if _, err := UserProbes(host.Local(), filepath.Join(dir, "x\xff")); err != nil {
		t.Error(err)
	}
	good := countsYAML("good", "")
	for name, yaml := range map[string]string{
		"good":      good,
		"a-copy":    strings.Replace(good, "doc:", "name: copy\ndoc:", 1), // comes first, and has the same name
		"B\xff\n\"": "doc: [",
		"b___":      "doc: [",
		"missing":   countsYAML("missing", ""),
		"taken":     strings.Replace(good, "tee_user_good_total", "tee_user_hist", 1),
		"open":      countsYAML("open", ""),
		"large":     "doc: x\n#" + strings.Repeat("x", maxUserFile),
		"not.a":     countsYAML("y", ""),
	} {
		probeFile(t, dir, name, yaml)
	}
	if err := os.Chmod(filepath.Join(dir, "open.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	probes := probesIn(t, dir)
	for name, want := range map[string]string{
		"user_good":    "good.yaml: name: tee_user_good_total is taken by ",
		"user_copy":    "copy.o: no such file",
		"user_b___":    "line 1: did not find",
		"user_b____":   "line 1: did not find",
		"user_missing": "missing.o: no such file",
		"user_open":    "anyone can write to",
		"user_large":   "want a file of at most",
		"user_folder":  "want a file of at most",
		"user_taken":   "line 4: metrics[0].name: metric tee_user_hist: a counter's name",
		"user_not_a":   `not.a.yaml: name: "not.a" is not a name`,
	} {
		s := probes[name]
		if s == nil {
			t.Errorf("no source %s", name)
			continue
		}
		_, err := s.Open(host.Local(), nil)
		if name == "user_copy" {
			want = "a-copy.o: no such file"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := UserProbes(host.Local(), dir); err == nil || probe.Remedy(err) == "" {
		t.Errorf("a folder that anyone may write: %v", err)
	}
}

func TestUserLabels(t *testing.T) {
	key := []byte("ab\xffc\x00def")
	number := binary.NativeEndian.AppendUint32(nil, 2)
	for _, c := range []struct {
		label userLabel
		key   []byte
		want  string
	}{
		{userLabel{Type: "string", Size: 8}, key, "ab\xffc"},
		{userLabel{Type: "comm", Size: 4, Offset: 4}, key, "(unnamed)"},
		{userLabel{Type: "hex", Size: 3, Offset: 1}, key, "62ff63"},
		{userLabel{Type: "ipv4", Size: 4}, []byte{127, 0, 0, 1}, "127.0.0.1"},
		{userLabel{Type: "u32", Size: 4}, number, "2"},
		{userLabel{Type: "u32", Size: 4, Names: []string{"a", "b", "c\xff"}}, number, "c\xff"},
		{userLabel{Type: "u32", Size: 4, Names: []string{"a", "b"}}, number, "2"},
		{userLabel{Type: "u64", Size: 8}, bytes.Repeat([]byte{0xff}, 8), "18446744073709551615"},
		{userLabel{Type: "syscall", Size: 4}, bytes.Repeat([]byte{0xff}, 4), "unknown"},
		{userLabel{Type: "u64", Size: 8}, number, ""},
		{userLabel{Type: "u8", Size: 1, Offset: 4}, number, ""},
	} {
		if got := c.label.decode(c.key); got != c.want {
			t.Errorf("%+v of %q is %q, want %q", c.label, c.key, got, c.want)
		}
	}
}

func FuzzUserProbe(f *testing.F) {
	for _, name := range []string{"execs", "lookups"} {
		b, err := os.ReadFile(filepath.Join(exampleProbes(f), name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte("redis-server\x00\x00\x00\x00"), bytes.Repeat([]byte{1}, 40))
	}
	f.Add([]byte(countsYAML("x", "events: tee_user_x_total\n")), []byte{1, 2, 3}, []byte{})
	f.Fuzz(func(t *testing.T, yaml, key, value []byte) {
		p, err := parseUserProbe(yaml, "fuzz")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		for i := range p.Metrics {
			m := &p.Metrics[i]
			if !strings.HasPrefix(m.Name, userPrefix) || m.desc.Check() != nil {
				t.Errorf("metric %q", m.Name)
			}
			table := userTable{metric: m, series: map[string]*userSeries{}}
			for n := range 3 {
				table.add(append([]byte{byte(n)}, key...), [][]byte{value, value})
			}
			if len(table.series) > m.Series+1 {
				t.Errorf("%d series, at most %d and other", len(table.series), m.Series)
			}
		}
	})
}

// TestUserProbesRelative: a folder that cannot be found is an error, not an empty folder.
func TestUserProbesRelative(t *testing.T) {
	if _, err := UserProbes(host.At(t.TempDir()), "probes"); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative folder: %v; want an error that asks for an absolute path", err)
	}
}
