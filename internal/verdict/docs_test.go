package verdict

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -count=1 -run ^TestDocs$ . -update

var update = flag.Bool("update", false, "write the generated document")

// TestDocs compares docs/guards.md with the list of rules.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Guards\n\nGenerated from the code by `make generate`. A guard is a reason to refuse what numbers seem to say, or to doubt it. Each has three\n" +
		"answers: it speaks, it is silent, or it says \"cannot tell\" and why (a note): what is not known is never passed over as if it were fine.\n\n" +
		"Levels: `invalid` takes the verdict away, and the ratio too where the values do not belong together; `warn` stands beside the verdict, or\n" +
		"makes it `inconclusive`, as said here; `info` is a note. `teescope gate` ends with status 3 on `invalid` and 2 on `inconclusive`.\n\n" +
		"| guard | speaks when | to the verdict | what would help |\n|---|---|---|---|\n")
	for _, r := range Rules {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, cell(r.Doc), cell(r.Effect), cell(r.Help))
	}
	l := DefaultLimits()
	fmt.Fprintf(&b, "\nA pair is disturbed (`disturbed`) beyond one of these limits in either run: steal %s, others' share of all CPUs %s, throttling events %g,\n"+
		"swap %g MiB, time that tasks waited for memory %s. Where most pairs are disturbed, none can be set aside; then a typical steal above %s or\n"+
		"others' share above %s, or a difference between the arms above the limit of a pair, takes the verdict back, unless the interval lies\n"+
		"beyond the factor that it may be: where others take the share f of the CPUs, a run takes up to 1/(1-f) times as long if shared fairly.\n",
		percent(l.Steal), percent(l.Foreign), l.Throttles, l.SwapBytes/(1<<20), percent(l.Pressure), percent(l.HopelessSteal), percent(l.HopelessForeign))
	b.WriteString("\nResults that are put side by side may also have the note `uncommon-cases`, which names cases that not all of them have.\n")
	const name = "../../docs/guards.md"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the code says; run `make generate`", name)
	}
	var ids []string
	for _, r := range Rules {
		if slices.Contains(ids, r.ID) {
			t.Errorf("%s is there twice", r.ID)
		}
		ids = append(ids, r.ID)
	}
}

// cell makes a text fit for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
