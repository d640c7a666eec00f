package kernels

import (
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/probe/sources"
)

// seen collects one line for the page from each guest outside the matrix.
var seen struct {
	sync.Mutex
	lines []string
}

// note adds a line if the test has not failed.
func note(t *testing.T, kernel, format string, args ...any) {
	t.Helper()
	if t.Failed() {
		return
	}
	seen.Lock()
	defer seen.Unlock()
	seen.lines = append(seen.lines, fmt.Sprintf("| %s | %s |", kernel, fmt.Sprintf(format, args...)))
}

// signs maps states of sources to the table's words.
var signs = map[string]string{"available": "yes", "degraded": "part", "unavailable": "no", "not here": "–", "off": "off"}

// writeTable writes docs/lab/kernels.md.
func writeTable(t *testing.T, file string, results []result) {
	t.Helper()
	modeAt := func(name string) int { return slices.IndexFunc(modes, func(m mode) bool { return m.name == name }) }
	kernelAt := map[string]int{}
	for i, im := range images(t) {
		kernelAt[im.Name()] = i
	}
	slices.SortFunc(results, func(a, b result) int {
		if d := modeAt(a.mode) - modeAt(b.mode); d != 0 {
			return d
		}
		return kernelAt[a.kernel.Name()] - kernelAt[b.kernel.Name()]
	})
	var b strings.Builder
	qemu, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		t.Error(err)
	}
	emulator, _, _ := strings.Cut(string(qemu), "\n")
	version := "unknown"
	if len(results) > 0 {
		version = results[0].root.Platform.Version
	}
	fmt.Fprintf(&b, `# Kernels

What each source provides on each kernel in Debian's archive. Every entry was tested: the built binary ran as root in a virtual
machine with that kernel. %s generates this page and fails when something is missing on a kernel that should have it.
The exceptions, with their reasons, are in %s and at the end of this page.

Generated on %s with teescope %s and %s (software emulation, one CPU, no performance counters, no TEE).

Debian 12's own kernels (6.1, 6.12) are tested in all flavours and modes. Other kernels are tested in the cloud flavour, without lockdown
integrity. Mode "no BTF" blanks the type information in the kernel's image. The programs need Linux %s.

## Known counts

A program made %d calls of getppid, %d round trips between two threads and %d page faults. The columns compare what the agent counted with
what the program did; starting and ending the program adds a few switches and faults. Sources: how many are available to root, to a user with
CAP_BPF and CAP_PERFMON, and to a user without capabilities. Tests: those of package bpf, which load and attach every program in every variant and
check that it counts.

| kernel | mode | getppid | switches | page faults | sources: root, two capabilities, none | tests passed, skipped | seconds |
|---|---|---|---|---|---|---|---|
`, "`make kernels`", "`e2e/kernels/expect.go`", time.Now().UTC().Format(time.DateOnly), version, emulator, least, calls, switches, faults)
	for _, r := range results {
		tests := "–"
		if r.passed > 0 {
			tests = fmt.Sprintf("%d, %d", r.passed, r.skipped)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d, %d, %d | %s | %.0f |\n", r.kernel.Uname, r.mode, r.calls, r.switches, r.faults, r.available, r.few, r.none, tests, r.took.Seconds())
	}
	if len(seen.lines) > 0 {
		slices.Sort(seen.lines)
		fmt.Fprintf(&b, "\n## Separate guests\n\n| kernel | result |\n|---|---|\n%s\n", strings.Join(seen.lines, "\n"))
	}
	for _, m := range modes {
		of := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.mode != m.name })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## Sources: %s\n\nyes: available; part: degraded; no: unavailable; –: the guest lacks what it reads; off: off by default.\n\n", m.name)
		grid(&b, "source", of, names(of), func(r result, name string) string { return signs[r.root.state(name).State] })
	}
	plain := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.mode != "plain" || len(r.links) == 0 })
	programs := map[string]bool{}
	for _, r := range plain {
		for p := range r.links {
			programs[p] = true
		}
	}
	fmt.Fprintf(&b, "\n## Attached programs\n\nPrograms attached while the agent ran in mode plain, with the attach type from the kernel's list of links (the kernel cuts names at 15 characters).\n\n")
	grid(&b, "program", plain, slices.Sorted(maps.Keys(programs)), func(r result, p string) string { return r.links[p] })
	fmt.Fprintf(&b, "\n%s%s.\n", builtFrom, strings.Join(objects(t), ", "))
	b.WriteString("\n" + missing())
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// builtFrom opens the line of the page that says which programs were attached.
const builtFrom = "By the first digits of SHA-256, the objects in `internal/probe/bpf` were: "

// objects lists the built eBPF objects as that line has them.
func objects(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/probe/bpf/*_bpfel.o.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d objects, %v", len(files), err)
	}
	for _, file := range files {
		out = append(out, fmt.Sprintf("%s %.4x", strings.TrimSuffix(filepath.Base(file), "_bpfel.o.gz"), sha256.Sum256(object(t, file))))
	}
	return out
}

// object decompresses one built eBPF object.
func object(t *testing.T, file string) []byte {
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
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPageAge says when the page is older than the programs. That is no fault of a commit: booting all kernels takes
// twenty minutes, and TestMatrix boots one of them.
func TestPageAge(t *testing.T) {
	b, err := os.ReadFile("../../docs/lab/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), builtFrom)
	line, _, _ := strings.Cut(rest, ".\n")
	var newer []string
	for _, object := range without(objects(t), strings.Split(line, ", ")) {
		name, _, _ := strings.Cut(object, " ")
		newer = append(newer, name)
	}
	if newer != nil {
		t.Skipf("docs/lab/kernels.md is older than the programs %s: make kernels writes it again", strings.Join(newer, ", "))
	}
}

// missingTitle opens the last section of the page.
const missingTitle = "## What may be missing\n"

// missing returns that section: the exceptions with their reasons.
func missing() string {
	var b strings.Builder
	b.WriteString(missingTitle + "\n| what | where | why |\n|---|---|---|\n")
	for _, e := range slices.Concat(sourceExceptions, testExceptions) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(e.what, "|", "\\|"), e.where(), e.why)
	}
	return b.String()
}

// unbooted are the sources added since the page was last generated. Generating it empties
// this list.
var unbooted = []string{"process_times"}

// TestPage: the page lists every source, in report order, and the exceptions as they stand.
// Run with -update, it rewrites the exceptions; the rest takes booting the kernels.
func TestPage(t *testing.T) {
	const file = "../../docs/lab/kernels.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want, unknown []string
	for _, s := range sources.All {
		if !slices.Contains(unbooted, s.Name) {
			want = append(want, s.Name)
		}
	}
	rest, old, _ := strings.Cut(string(b), missingTitle)
	for _, m := range modes {
		_, section, ok := strings.Cut(rest, "\n## Sources: "+m.name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for _, row := range sourceRow.FindAllStringSubmatch(section, -1) {
			if got = append(got, row[1]); slices.Contains(unbooted, row[1]) {
				unknown = append(unknown, row[1])
			}
		}
		if !ok || !slices.Equal(got, want) && len(unknown) == 0 {
			t.Errorf("%s is out of date; run make kernels: mode %s lacks %q, and has %q too much or in another order", file, m.name, without(want, got), without(got, want))
		}
	}
	if len(unknown) > 0 {
		t.Errorf("%s has %q: remove them from the list of what was not booted", file, slices.Compact(slices.Sorted(slices.Values(unknown))))
	}
	if now := missing(); missingTitle+old != now {
		if !*update {
			t.Errorf("%s: the section on what may be missing is out of date; run go test ./e2e/kernels -run TestPage -update", file)
		} else if err := os.WriteFile(file, []byte(rest+now), 0o644); err != nil {
			t.Error(err)
		}
	}
}

var (
	update    = flag.Bool("update", false, "rewrite what may be missing in docs/lab/kernels.md")
	sourceRow = regexp.MustCompile(`(?m)^\| ([a-z0-9_]+) \| (?:yes|part|no|–|off) \|`)
)

// without returns what is in list and not in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// where says to which kernels and modes an exception applies.
func (e *exception) where() string {
	var parts []string
	if (e.from != Version{}) {
		parts = append(parts, "from "+e.from.String())
	}
	if (e.before != Version{}) {
		parts = append(parts, "before "+e.before.String())
	}
	if e.mode != "" {
		parts = append(parts, strings.ReplaceAll(e.mode, "|", ", "))
	}
	if len(parts) == 0 {
		return "everywhere"
	}
	return strings.Join(parts, ", ")
}

// names lists the sources of all results in report order.
func names(results []result) (out []string) {
	for _, r := range results {
		for _, s := range r.root.Sources {
			if !slices.Contains(out, s.Name) {
				out = append(out, s.Name)
			}
		}
	}
	return out
}

// grid writes a table with a column for each guest.
func grid(b *strings.Builder, what string, results []result, rows []string, cell func(result, string) string) {
	fmt.Fprintf(b, "| %s |", what)
	for _, r := range results {
		fmt.Fprintf(b, " %s |", r.kernel.Name())
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(results)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |", row)
		for _, r := range results {
			fmt.Fprintf(b, " %s |", cell(r, row))
		}
		b.WriteString("\n")
	}
}
