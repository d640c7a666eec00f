package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// measure runs a short experiment into a folder and returns the result's path.
func measure(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(dir, name+".json")
	args = append([]string{"bench", "run", "--out", path, "--data", filepath.Join(dir, "data"), "--quick"}, args...)
	if _, errs, code := run(t, args...); code != exitOK && code != exitInvalid {
		t.Fatalf("%v: exit status %d: %s", args, code, errs)
	}
	return path
}

// TestBenchBadInput: a mistake is reported before anything starts, on one line, with
// exit status 4, and leaves no file.
func TestBenchBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("name: x\nworkload: startup\ncolour: red\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(dir, "there.json")
	if err := os.WriteFile(there, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"bench run", "bench list"},
		{"bench run nonsense", "bench list"},
		{"bench run startup --env nowhere", "bench list"},
		{"bench run startup --env native --env native", "calibrate"},
		{"bench run startup --env native,colour=red", "no parameter"},
		{"bench run startup --param touch", "want K=V"},
		{"bench run startup --param touch=lots", "want a size"},
		{"bench run startup --param colour=red", "no parameter"},
		{"bench run startup --pairs -3", "at least 1"},
		{"bench run startup --pairs 0", "at least 1"},
		{"bench run startup --pairs 1000000000", "at most 10000"},
		{"bench calibrate startup --pairs 1000000000", "at most 10000"},
		{"bench run redis --param connections=1000000000", "at most 65536"},
		{"bench run startup --pairs 8 --quick", "pairs quick"},
		{"bench run startup --margin 400%", "share like"},
		{"bench run startup --metric speed", "the metrics are startup_seconds"},
		{"bench run startup --format pdf", "want one of"},
		{"bench run startup --seed 9007199254740993", "2^53"},
		{"bench run startup null --out " + there, "want a folder"},
		{"bench run startup --out " + there, "the file exists already"},
		{"bench run " + bad, "colour"},
		{"bench run " + filepath.Join(dir, "none.yaml"), "no such file"},
		{"bench run --resume", "--out"},
		{"bench run --resume --out " + filepath.Join(dir, "none.json"), "no experiment was started"},
		{"bench run startup --env " + filepath.Join(dir, "none.yaml"), "no such file"},
		{"bench run startup --env ssh", "host"},
		{"bench calibrate startup --env native --env runsc", "one --env"},
		{"bench run custom", "command"},
		{"compare " + filepath.Join(dir, "none.json"), "no such file"},
		{"compare " + there, "cut off"},
		{"gate " + there, "cut off"},
		{"report " + there, "cut off"},
		{"history add " + there, "cut off"},
		{"history show --data " + dir, "history add"},
		{"history detect --data " + dir + " --magnitude x", "share like"},
		{"schema nonsense", "want result"},
	} {
		args := append(strings.Fields(c.args), "--data", filepath.Join(dir, "data"))
		if !strings.HasPrefix(c.args, "bench run") && !strings.HasPrefix(c.args, "bench cal") || strings.Contains(c.args, "--data") {
			args = args[:len(args)-2]
		}
		out, errs, code := run(t, args...)
		if code != exitUsage || !strings.Contains(errs, c.want) || strings.Count(strings.TrimSpace(errs), "\n") > 2 {
			t.Errorf("%s: exit status %d, %q (%q); want 4 with %q", c.args, code, errs, out, c.want)
		}
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "precious" {
		t.Errorf("a file was touched: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a data folder was made")
	}
}

func TestBenchList(t *testing.T) {
	out, errs, code := run(t, "bench", "list", "--json")
	var l listing
	if err := json.Unmarshal([]byte(out), &l); err != nil || code != 0 {
		t.Fatalf("%v, exit status %d: %s", err, code, errs)
	}
	if len(l.Workloads) == 0 || len(l.Experiments) == 0 || len(l.Launchers) == 0 {
		t.Errorf("%d workloads, %d experiments, %d launchers", len(l.Workloads), len(l.Experiments), len(l.Launchers))
	}
	text, _, _ := run(t, "bench", "list")
	for _, w := range l.Workloads {
		if !strings.Contains(text, "\n  "+w.Name+" ") {
			t.Errorf("the text does not name %s", w.Name)
		}
	}
	for _, e := range l.Experiments {
		if !regexp.MustCompile(`(?m) ` + e.Name + `[!*]?( |$)`).MatchString(text) {
			t.Errorf("the text does not name %s", e.Name)
		}
	}
	if i := slices.IndexFunc(l.Launchers, func(x listedLauncher) bool { return x.Name == "ssh" }); i < 0 || l.Launchers[i].Lacks == "" && !strings.Contains(l.Launchers[i].Asks, "host=") {
		t.Errorf("ssh lacks only the name of a machine: %+v", l.Launchers)
	}
	if n := strings.Count(text, "\n"); n > 80 {
		t.Errorf("the list has %d lines, no screenful", n)
	}
	if text, errs, code := run(t, "bench", "list", "e3", "platform"); code != 0 || !strings.Contains(text, "e3-bulk: ") || !strings.Contains(text, "e3-split: ") ||
		strings.Contains(text, "e7-") || !strings.Contains(text, "wake-up, same CPU") {
		t.Errorf("exit status %d, %s: %s", code, errs, text)
	}
	text, _, _ = run(t, "bench", "list", "e7-original", "null")
	if !strings.Contains(text, "null: ") || !strings.Contains(text, "e7-original: ") || !strings.Contains(text, "misleads") || strings.Contains(text, "LAUNCHERS") {
		t.Errorf("two names: %s", text)
	}
	if text, _, _ = run(t, "bench", "list", "boot"); !strings.Contains(text, "\nboot: ") || !strings.Contains(text, "\nboot-memory: ") || strings.Contains(text, "\nexits: ") {
		t.Errorf("a workload, and experiments that begin with its name:\n%s", text)
	}
	if _, errs, code := run(t, "bench", "list", "redis", "rediss"); code != 4 || !strings.Contains(errs, `"rediss"`) {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// TestExperiments: every shipped experiment is a plan, here or elsewhere.
func TestExperiments(t *testing.T) {
	l, err := catalogue(host.Local())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Experiments {
		if x, err := experiment(e.Name); err != nil || x.Params["files"] != "" && x.Install == "" {
			t.Errorf("%s: %v; its files need install, which says how to get them", e.Name, err)
		}
		out, errs, code := run(t, "bench", "run", e.Name, "--dry-run")
		// Status 4 is right if this machine lacks something, which is named.
		if code != 0 && !strings.Contains(out, "cannot run here") || !regexp.MustCompile(`about .* plus launching.*= \d+ runs?, `).MatchString(out) {
			t.Errorf("%s: exit status %d: %s%s", e.Name, code, out, errs)
		}
		if strings.Contains(out, "no verdict") {
			t.Errorf("%s cannot give a verdict: %s", e.Name, out)
		}
	}
	out, errs, code := run(t, "bench", "run", "null", "--env", "a=native", "--env", "b=native", "--pairs", "5", "--dry-run")
	if code != 0 || !strings.Contains(out, "5 pairs give ratios but no verdict") {
		t.Errorf("five pairs: exit status %d: %s%s", code, out, errs)
	}
}

// TestNames: every listed name is a plan as typed, or is refused in a line that says what to do.
func TestNames(t *testing.T) {
	l, err := catalogue(host.Local())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(l.Workloads)+len(l.Experiments))
	for _, w := range l.Workloads {
		names = append(names, w.Name)
		out, errs, code := run(t, "bench", "run", w.Name, "--dry-run")
		if code == 0 && !regexp.MustCompile(`about .* plus launching.*= \d+ runs?, `).MatchString(out) || code != 0 && code != exitUsage {
			t.Errorf("bench run %s: exit status %d: %s%s", w.Name, code, out, errs)
		}
		if said := strings.TrimSpace(errs); code != 0 && (said == "" || strings.Contains(said, "\n")) {
			t.Errorf("bench run %s is refused with %q", w.Name, errs)
		}
	}
	for _, e := range l.Experiments {
		names = append(names, e.Name)
	}
	for _, name := range names {
		out, errs, code := run(t, "bench", "plan", name)
		if code == 0 && strings.Contains(out, "cannot run") || code != 0 && (code != exitUsage || strings.Contains(strings.TrimSpace(errs), "\n")) {
			t.Errorf("bench plan %s: exit status %d: %s%s", name, code, out, errs)
		}
	}
}

func TestPlan(t *testing.T) {
	out, errs, code := run(t, "bench", "plan", "startup", "--param", "touch=1MiB")
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	for _, want := range []string{"SGX host", "gramine-sgx", "TDX guest", "SEV-SNP guest", "H200", "--publish", "touch=1MiB", "sgx-host.json"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan does not have %q:\n%s", want, out)
		}
	}
}

// TestPlanRefuses: a plan prints nothing that a launcher refuses, and keeps an experiment's
// environments.
func TestPlanRefuses(t *testing.T) {
	out, errs, code := run(t, "bench", "plan", "redis")
	if code != 0 || !strings.Contains(out, "--env tdx=ssh:USER@TD_GUEST") || strings.Contains(out, "cannot run") {
		t.Errorf("exit status %d, %s: %s", code, errs, out)
	}
	out, errs, code = run(t, "bench", "plan", "e1-ladder")
	if code != 0 || !strings.Contains(out, "teescope bench run e1-ladder --publish --out") || strings.Contains(out, "H200") {
		t.Errorf("exit status %d, %s: %s", code, errs, out)
	}
	for _, env := range []string{"plain", "encrypted", "vm", "cvm"} {
		if !strings.Contains(out, "e1-ladder starts in "+env+":") {
			t.Errorf("nothing starts in %s: %s", env, out)
		}
	}
}

// TestRunLeavesOut: an experiment runs without what is not here, and says so, also in its
// result; an environment that a user names must be there.
func TestRunLeavesOut(t *testing.T) {
	dir := t.TempDir()
	file, data, out := filepath.Join(dir, "e.yaml"), filepath.Join(dir, "data"), filepath.Join(dir, "r.json")
	text := "name: e\nworkload: \"null\"\npairs: 1\nenvironments: [native, other=native, absent=%s]\n"
	template := filepath.Join(dir, "absent.yaml")
	for path, content := range map[string]string{file: fmt.Sprintf(text, template),
		template: "name: absent\ndoc: Not here.\ntee: {kind: none}\ncheck: [{path: " + dir + "/nothing, hint: a thing}]\nrun: {argv: [\"{argv}\"]}\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, all := range [][]string{{"--strict"}, {"--variants", "native,absent"}, {"--env", "native", "--env", template}} {
		args := append([]string{"bench", "run", file, "--data", data, "--out", out, "--no-counters"}, all...)
		if _, errs, code := run(t, args...); code != exitUsage || !strings.Contains(errs, "a thing") {
			t.Errorf("%v: exit status %d: %s", all, code, errs)
		}
	}
	printed, errs, code := run(t, "bench", "run", file, "--data", data, "--out", out, "--no-counters")
	if code != exitOK || !strings.Contains(errs, "e: left out absent: ") || !strings.Contains(errs, "a thing") || !strings.Contains(printed, "Left out") {
		t.Errorf("exit status %d: %s%s", code, errs, printed)
	}
	e, err := result.Read(out)
	if err != nil || len(e.Environments) != 2 || len(e.Design.LeftOut) != 1 || e.Design.LeftOut[0].Env != "absent" {
		t.Errorf("%+v, %v", e, err)
	}

	// One environment is enough, and the command for the other is printed.
	alone := filepath.Join(dir, "alone.yaml")
	if err := os.WriteFile(alone, fmt.Appendf(nil, "name: alone\nworkload: \"null\"\npairs: 1\nenvironments: [absent=%s, native]\n", template), 0o600); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, "alone.json")
	printed, errs, code = run(t, "bench", "run", alone, "--seed", "7", "--data", data, "--out", out, "--no-counters")
	if e, err = result.Read(out); err != nil || e.Design.Kind != result.Single || len(e.Comparisons) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, want := range []string{
		"NOTHING WAS COMPARED: native ran alone", "teescope " + e.Tool.Version,
		"teescope bench run " + alone + " --variants absent --no-counters --pairs 1 --seed 7 --out alone-absent.json",
		"teescope compare " + out + " alone-absent.json",
	} {
		if code != exitOK || !strings.Contains(printed, want) {
			t.Errorf("exit status %d: lacks %q: %s%s", code, want, errs, printed)
		}
	}
}

// TestRunCompareReport goes the whole way with a workload that does nothing.
func TestRunCompareReport(t *testing.T) {
	dir := t.TempDir()
	a := measure(t, dir, "a", "null", "--env", "native", "--env", "same=native", "--seed", "7", "--format", "json")
	e, err := result.Read(a)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Runs) < 12 || len(e.Runs) > 16 || e.Design.Seed != 7 || e.Environments[0].Hardware.CPUModel == "" || e.Environments[0].NullSeconds == nil {
		t.Errorf("%d runs, seed %d, %+v", len(e.Runs), e.Design.Seed, e.Environments[0].Hardware)
	}
	if e.Environments[0].Fingerprint == "" || e.Environments[0].Fingerprint != e.Environments[1].Fingerprint {
		t.Errorf("fingerprints %q and %q of the same environment", e.Environments[0].Fingerprint, e.Environments[1].Fingerprint)
	}
	for i := range e.Runs {
		if e.Runs[i].Status != result.OK || len(e.Runs[i].Raw) == 0 {
			t.Errorf("run %s: %s %s, raw %v", e.Runs[i].ID, e.Runs[i].Status, e.Runs[i].Reason, e.Runs[i].Raw)
		}
	}
	if got, err := (&result.Archive{Dir: filepath.Join(dir, "data", "results")}).Get(e.ID); err != nil || got.ID != e.ID {
		t.Errorf("the page's folder does not have it: %v", err)
	}
	for _, format := range strings.Split(formatNames(), ", ") {
		out, errs, code := run(t, "compare", a, "--format", format)
		if code != exitOK && code != exitInvalid || out == "" || errs != "" {
			t.Errorf("compare --format %s: exit status %d, %d bytes, %s", format, code, len(out), errs)
		}
	}
	html := filepath.Join(dir, "report.html")
	if _, errs, code := run(t, "report", a, "--out", html, "--plots", filepath.Join(dir, "plots")); code != 0 {
		t.Fatalf("report: exit status %d: %s", code, errs)
	}
	b, err := os.ReadFile(html)
	if err != nil || !strings.Contains(string(b), "<svg") {
		t.Errorf("report of %d bytes, %v", len(b), err)
	}
	if plots, _ := filepath.Glob(filepath.Join(dir, "plots", "*.png")); len(plots) == 0 {
		t.Error("no plots")
	}
	// The same arm twice has no declared subject: a gate over it is invalid.
	if out, _, code := run(t, "gate", a); code != exitInvalid {
		t.Errorf("gate: exit status %d: %s", code, out)
	}

	if _, errs, code := run(t, "compare", a, a); code != exitUsage || !strings.Contains(errs, "same experiment") {
		t.Errorf("compare of a result with itself: exit status %d: %s", code, errs)
	}

	other := measure(t, dir, "b", "startup", "--env", "native", "--param", "touch=1MiB", "--no-counters")
	for _, cmd := range []string{"compare", "gate"} {
		if out, errs, code := run(t, cmd, a, other); code != exitUsage && code != exitInvalid || !strings.Contains(out+errs, "workload") {
			t.Errorf("%s of two workloads: exit status %d: %s%s", cmd, code, out, errs)
		}
	}
	newer := filepath.Join(dir, "newer.json")
	text, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newer, []byte(strings.Replace(string(text), `"schema_version": "1.`, `"schema_version": "2.`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, "compare", newer); code != exitUsage || !strings.Contains(errs, "newer") {
		t.Errorf("a newer schema: exit status %d: %s", code, errs)
	}
	edited := filepath.Join(dir, "edited.json")
	text, err = os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"touch": "1MiB"`, `"touch": "2MiB"`, 1))
	without := regexp.MustCompile(`,\s*"digest": "sha256:[0-9a-f]+"(\s*})$`).ReplaceAll(bytes.TrimSpace(text), []byte("$1"))
	for want, b := range map[string][]byte{"its digest does not match": text, "identity": without} {
		t.Run(want, func(t *testing.T) {
			if err := os.WriteFile(edited, b, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, cmd := range []string{"compare", "gate"} {
				if _, errs, code := run(t, cmd, edited); code != exitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, "edited.json") {
					t.Errorf("%s of a file whose parameters were changed by hand: exit status %d: %s; want %q", cmd, code, errs, want)
				}
			}
		})
	}

	data := filepath.Join(dir, "data")
	if out, errs, code := run(t, "history", "add", a, "--data", data); code != 0 || !strings.Contains(out, "added") {
		t.Fatalf("history add: exit status %d: %s%s", code, out, errs)
	}
	if out, errs, code := run(t, "history", "show", "--data", data); code != 0 || !strings.Contains(out, "null in native") {
		t.Errorf("history show: exit status %d: %s%s", code, out, errs)
	}
	if out, errs, code := run(t, "history", "detect", "--data", data); code != 0 || !strings.Contains(out, "no change in 1 results") {
		t.Errorf("history detect: exit status %d: %s%s", code, out, errs)
	}
}

// TestCalibrate: identical arms give a noise floor, which a comparison accepts.
func TestCalibrate(t *testing.T) {
	dir := t.TempDir()
	floor := filepath.Join(dir, "floor.json")
	args := []string{"custom", "--param", "command=sleep 0.01", "--quick", "--no-counters", "--data", dir}
	out, errs, code := run(t, append([]string{"bench", "calibrate", "--out", floor}, args...)...)
	if code != exitOK && code != exitInvalid || !strings.Contains(out, "NOISE FLOOR of this host for custom (wall_seconds)") {
		t.Fatalf("exit status %d: %s%s", code, out, errs)
	}
	r := measure(t, dir, "r", append(args, "--env", "native", "--env", "again=native")...)
	e, err := result.Read(floor)
	if err != nil {
		t.Fatal(err)
	}
	n, err := verdict.Calibrate(e)
	if err != nil || len(n.Cases) != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	out, errs, code = run(t, "compare", r, "--calibration", floor, "--format", "json")
	for _, f := range n.Cases {
		taken, err := json.Marshal(f.Paired)
		if err != nil || f.Paired <= 0 || code != exitOK && code != exitInvalid || !strings.Contains(out, `"noise_floor": `+string(taken)) {
			t.Errorf("exit status %d, want the noise floor %s: %s%v", code, taken, errs, err)
		}
	}
}

// TestArmThatAlwaysFails: the experiment ends early, says why and keeps what it has;
// its verdict is not a number.
func TestArmThatAlwaysFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	out, errs, code := run(t, "bench", "run", "custom", "--param", "command={binary}", "--env", "base=native,binary=/bin/true", "--env", "head=native,binary=/bin/false",
		"--quick", "--no-counters", "--out", path, "--data", dir)
	if code != exitInvalid || !strings.Contains(errs, "environment head: 3 of 3 runs failed") {
		t.Errorf("exit status %d: %s\n%s", code, errs, out)
	}
	e, err := result.Read(path)
	if err != nil || len(e.Runs) < 5 {
		t.Fatalf("%v", err)
	}
	if out, _, code := run(t, "gate", path); code != exitInvalid {
		t.Errorf("gate: exit status %d: %s", code, out)
	}
}

// TestWrongAnswer: a program that does not do the work is not measured.
func TestWrongAnswer(t *testing.T) {
	dir := t.TempDir()
	_, errs, code := run(t, "bench", "run", "custom", "--param", "command=echo five", "--param", "expect=four", "--quick", "--no-counters", "--out", filepath.Join(dir, "r.json"), "--data", dir)
	if code != exitInvalid || !strings.Contains(errs, "output check") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

func TestMissingTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	_, errs, code := run(t, "bench", "run", "fio", "--quick", "--out", filepath.Join(dir, "r.json"), "--data", dir)
	if code != exitUsage || !strings.Contains(errs, "package fio") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPrices(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	for text, want := range map[string]string{
		"- {name: native, per_hour: 1.5, currency: EUR, date: 2026-11-21}": "",
		"- {name: native, per_hour: 1.5, currency: EUR}":                   "date",
		"- {name: native, per_hour: 0, currency: EUR, date: 2026-11-21}":   "per_hour",
		"[]":               "no entries",
		"- {colour: red}":  "colour",
		"name: not a list": "line 1: want a list",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		ps, err := readPrices(file)
		if want == "" && (err != nil || len(ps) != 1 || ps[0].PerHour != 1.5) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v; want %q", text, ps, err, want)
		}
	}
}

// TestDryRunSaysWhy: what cannot run is one line, with the experiment's name, and what several parts lack is said once.
func TestDryRunSaysWhy(t *testing.T) {
	template := filepath.Join(t.TempDir(), "absent.yaml")
	if err := os.WriteFile(template, []byte("name: absent\ndoc: Not here.\ntee: {kind: none}\ncheck: [{path: /absent/nothing, hint: a thing}]\nrun: {argv: [\"{argv}\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][]string{
		"bench run e9-hosts --dry-run":                                             {"e9-hosts", "host=HOST", "is required"},
		"bench run channel --env native --env " + template + " --strict --dry-run": {"channel-handshake, channel-echo, ", "/absent/nothing (a thing)"},
	} {
		_, errs, code := run(t, strings.Fields(line)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", line, code, errs)
		}
		for _, w := range want {
			if strings.Count(errs, w) != 1 {
				t.Errorf("%s: %q is not once in %s", line, w, errs)
			}
		}
	}
}

// TestNameByFile: results of one name are distinguished by their files, and a price is
// found by that name.
func TestNameByFile(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, cloud := range []string{"aws", "azure"} {
		path := filepath.Join(dir, cloud+".json")
		if _, errs, code := run(t, "bench", "run", "null", "--env", "native=fake", "--quick", "--no-counters", "--out", path, "--data", dir); code != exitOK {
			t.Fatalf("exit status %d: %s", code, errs)
		}
		paths = append(paths, path)
	}
	prices := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(prices, []byte("- {name: aws, per_hour: 2, currency: EUR, date: 2026-11-21}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs, _ := run(t, "compare", "--format", "md", "--prices", prices, paths[0], paths[1])
	for _, want := range []string{"aws/native", "azure/native", "runs/EUR"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the table: %s\n%s", want, errs, out)
		}
	}
}

// TestJoinedExample: each row of the example in docs/benchmarks.md is one that its command prints.
func TestJoinedExample(t *testing.T) {
	const command, folder = "compare channel-native.json channel-container.json channel-guest.json", "../../experiments/results/"
	args := []string{"compare", "--format", "md"}
	for _, name := range strings.Fields(command)[1:] {
		args = append(args, folder+name+".gz")
	}
	out, errs, code := run(t, args...)
	if code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	page, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), command+"\n")
	if !found {
		t.Fatalf("docs/benchmarks.md does not have %q", command)
	}
	_, after, _ = strings.Cut(after, "\n|")
	table, _, _ := strings.Cut(after, "\n\n")
	rows := strings.Split("|"+table, "\n")
	if len(rows) < 8 {
		t.Fatalf("the example's table has %d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(out, row+"\n") {
			t.Errorf("the command does not print %s", row)
		}
	}
	if !strings.Contains(out, "emulated in software") {
		t.Error("the command does not say that the guest is emulated")
	}
}
