package verdict

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/metric"
)

//go:generate go test -count=1 -run ^TestDocs$ . -update

var update = flag.Bool("update", false, "write the generated document")

// TestDocs compares docs/guards.md with the list of guards.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Guards\n\nGenerated from the code by `make generate`. A guard is a reason to refuse or to doubt a verdict. If a guard could not be\n" +
		"checked, a note \"not checked\" gives the reason: what is unknown never counts as fine.\n\n" +
		"Levels: `invalid` removes the verdict, and the ratio too if the values do not belong together; `warn` stands next to the verdict or makes\n" +
		"it `inconclusive`, as the table says; `info` is a note. `teescope gate` exits with status 3 on `invalid` and 2 on `inconclusive`.\n\n" +
		"| guard | raised if | effect on the verdict | what helps |\n|---|---|---|---|\n")
	for _, r := range Guards {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, cell(r.Doc), cell(r.Effect), cell(r.Help))
	}
	l := DefaultLimits()
	fmt.Fprintf(&b, "\nA pair is disturbed (`disturbed`) if either run is beyond one of these limits: steal %s, others' share of all CPUs %s, throttling\n"+
		"events %g, swap %g MiB, time that tasks waited for memory %s. If most pairs are disturbed, none can be set aside. Then a typical\n"+
		"steal above %s, a typical share of others above %s, or a difference between the arms above the limit of a pair withdraws the\n"+
		"verdict, unless the interval lies beyond the factor that the disturbance can explain: if others use the share f of the CPUs and the\n"+
		"CPUs are shared fairly, a run takes up to 1/(1-f) times as long.\n",
		metric.Percent(l.Steal), metric.Percent(l.Foreign), l.Throttles, l.SwapBytes/(1<<20), metric.Percent(l.Pressure), metric.Percent(l.HopelessSteal), metric.Percent(l.HopelessForeign))
	b.WriteString("\nResults that are compared side by side may also have the note `uncommon-cases`, which names cases that only some of them have.\n")
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
	for _, r := range Guards {
		if slices.Contains(ids, r.ID) {
			t.Errorf("%s is there twice", r.ID)
		}
		ids = append(ids, r.ID)
	}
}

// cell escapes a text for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
