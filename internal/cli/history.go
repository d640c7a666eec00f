package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/commits"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// historyFlags choose a part of the history.
type historyFlags struct {
	data, workload, metric, magnitude string
	counters                          int // columns with counters per operation
	asJSON                            bool
}

func historyCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "Keep results by commit and find the commits that changed a cost",
		Example: "  teescope history add result.json --commit HEAD\n" +
			"  teescope history show\n" +
			"  teescope history detect",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(historyAddCommand(env), historyShowCommand(env), historyDetectCommand(env))
	return c
}

func historyArchive(data string) *result.Archive {
	return &result.Archive{Dir: filepath.Join(data, "history")}
}

func historyAddCommand(env Env) *cobra.Command {
	var data, commit string
	c := &cobra.Command{
		Use:     "add RESULT.json...",
		Short:   "Add results to the history",
		Example: "  teescope history add result.json --commit HEAD",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if commit != "" && len(args) > 1 {
				return errors.New("--commit names the commit of one result, but several results were given; add each result with a separate command")
			}
			return addHistory(c.Context(), env.Stdout, historyArchive(data), args, commit)
		},
	}
	c.Flags().StringVar(&data, "data", dataDir(), "data folder")
	c.Flags().StringVar(&commit, "commit", "", "commit of the result (default: the one in the result)")
	return c
}

func addHistory(ctx context.Context, w io.Writer, a *result.Archive, paths []string, commit string) error {
	for _, p := range paths {
		e, err := result.Read(p)
		if err != nil {
			return err
		}
		if commit != "" {
			if e.Commit, err = commits.Resolve(ctx, host.Local(), commit); err != nil {
				return err
			}
		}
		if points, refused := verdict.Points(e); len(points) == 0 {
			why := ""
			if len(refused) > 0 {
				why = ": " + refused[0].Reason
			}
			return fmt.Errorf("add %s: no environment of this result has both a usable value and a fingerprint%s", p, why)
		}
		name, err := a.Add(e)
		if err != nil {
			return err
		}
		label := "no commit; name one with --commit"
		if e.Commit != nil {
			label = "commit " + result.ShortID(e.Commit.ID)
		}
		fmt.Fprintf(w, "%s: added (%s)\n", name, label)
	}
	return nil
}

// defaultMargin is the smallest cost that matters, as a flag is given it.
var defaultMargin = strings.ReplaceAll(metric.Percent(verdict.DefaultMargin), " ", "")

func (f *historyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.data, "data", dataDir(), "data folder")
	c.Flags().StringVar(&f.workload, "workload", "", "only this workload")
	c.Flags().StringVar(&f.metric, "metric", "", "only this metric (default: the primary metric of each result)")
	c.Flags().StringVar(&f.magnitude, "magnitude", defaultMargin, "smallest change to report")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print data instead of text")
}

// series reads the chosen histories. What is left out of the archive is a warning.
func (f *historyFlags) series(warnings io.Writer) ([]verdict.Series, error) {
	magnitude, err := bench.ParsePercent(f.magnitude)
	if err != nil {
		return nil, fmt.Errorf("--magnitude %w", err)
	}
	es, err := historyArchive(f.data).List()
	if err != nil && len(es) == 0 {
		return nil, err
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(warnings, "left out of the history:", line)
		}
	}
	var points []verdict.Point
	var refused []verdict.Refused
	for _, e := range es {
		other := func(k verdict.Key) bool {
			return f.workload != "" && k.Workload != f.workload || k.Metric != cmp.Or(f.metric, e.Design.Primary)
		}
		used, left := verdict.Points(e)
		points = append(points, slices.DeleteFunc(used, func(p verdict.Point) bool { return other(p.Key) })...)
		refused = append(refused, slices.DeleteFunc(left, func(r verdict.Refused) bool { return other(r.Key) })...)
	}
	if len(points)+len(refused) == 0 {
		return nil, fmt.Errorf("the history in %s has no matching results; add results with `teescope history add RESULT.json`", historyArchive(f.data).Dir)
	}
	return verdict.Changes(points, verdict.ChangeOptions{Magnitude: magnitude, Refused: refused}), nil
}

func historyShowCommand(env Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print the values by commit, and where they changed",
		Long:    "Show prints one table for each job, environment and fingerprint, so another machine or\nkernel starts a new table and does not look like a change. A commit whose runs all failed,\nor whose comparisons were all refused, is listed with the reason, but is not used to find\nchanges.",
		Example: "  teescope history show --workload startup",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ss, err := f.series(env.Stderr)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(env.Stdout, ss)
			}
			for _, s := range ss {
				f.show(env.Stdout, s)
				if f.counters > 0 && len(s.Points) > 0 && len(shownCounters(s, f.counters)) == 0 {
					fmt.Fprintf(env.Stderr, "%s: no counters: no counter counted exactly this workload alone; the result's counters say why\n", seriesName(s.Key))
				}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().IntVar(&f.counters, "counters", 0, "also print this many counters per operation: first the counters that changed, then the most frequent counters")
	return c
}

// show prints a history as a table.
func (f *historyFlags) show(w io.Writer, s verdict.Series) {
	fmt.Fprintf(w, "%s\n", seriesName(s.Key))
	names := shownCounters(s, f.counters)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(names) > 0 {
		fmt.Fprint(tw, "  commit of\t\tvalue\t")
		for _, n := range names {
			fmt.Fprintf(tw, "%s\t", counterWords(n))
		}
		fmt.Fprintln(tw, "(counters per operation)")
	}
	left := s.Refused
	for i, p := range s.Points {
		for len(left) > 0 && left[0].At.Before(p.At) {
			showRefused(tw, left[0], len(names))
			left = left[1:]
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t", p.At.Format("2006-01-02 15:04"), result.ShortID(p.Label), metric.Digits(p.Value))
		for _, n := range names {
			if c, ok := p.Count(n); ok {
				fmt.Fprintf(tw, "%s\t", metric.Digits(c.Median))
			} else {
				fmt.Fprint(tw, "not counted\t")
			}
		}
		var notes []string
		if j := slices.IndexFunc(s.Changes, func(c verdict.Change) bool { return c.Index == i }); j >= 0 {
			notes = append(notes, changeText(s.Changes[j]))
		}
		if j := slices.IndexFunc(s.Mix, func(m verdict.MixChange) bool { return m.Index == i }); j >= 0 {
			notes = append(notes, mixText(s.Mix[j]))
		}
		fmt.Fprintln(tw, strings.Join(notes, "; "))
	}
	for _, r := range left {
		showRefused(tw, r, len(names))
	}
	tw.Flush()
}

// showRefused prints the row of a result that is not used to find changes.
func showRefused(w io.Writer, r verdict.Refused, counters int) {
	value := "-"
	if r.Value != nil {
		value = metric.Digits(*r.Value)
	}
	fmt.Fprintf(w, "  %s\t%s\t%s\t%snot used: %s\n", r.At.Format("2006-01-02 15:04"), result.ShortID(r.Label), value, strings.Repeat("-\t", counters), contain.OneLine(errors.New(r.Reason)))
}

// shownCounters are the names of n counters: first those that changed, then those that
// are highest in any point.
func shownCounters(s verdict.Series, n int) []explain.Event {
	var names []explain.Event
	for _, m := range s.Mix {
		for _, x := range m.Shifts {
			if !slices.Contains(names, x.Event) {
				names = append(names, x.Event)
			}
		}
	}
	most := map[explain.Event]float64{}
	for _, p := range s.Points {
		for name, c := range p.Counters {
			most[name] = max(most[name], c.Median)
		}
	}
	rest := slices.SortedFunc(maps.Keys(most), func(a, b explain.Event) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), strings.Compare(a.String(), b.String()))
	})
	for _, name := range rest {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(n, len(names))]
}

// counterWords is a counter in short: "read calls", "page faults (write)".
func counterWords(e explain.Event) string {
	if e.Metric == explain.CallCount && e != e.Total() {
		return e.Title() + " calls"
	}
	return e.Title()
}

// mixText is a change of the mix of counters, the largest difference first.
func mixText(m verdict.MixChange) string {
	const most = 3
	var list []string
	for _, s := range m.Shifts[:min(most, len(m.Shifts))] {
		list = append(list, fmt.Sprintf("%s %s to %s", counterWords(s.Event), metric.Digits(s.Before.Median), metric.Digits(s.After.Median)))
	}
	text := "per operation: " + strings.Join(list, ", ")
	if more := len(m.Shifts) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func historyDetectCommand(env Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:     "detect",
		Short:   "List the commits at which a benchmark's result became better or worse",
		Long:    "Detect looks for change points: E-Divisive with a t-test, confirmed by a robust z-score.\n\nExit status: 0, or 1 if the last change in a history increased the cost.",
		Example: "  teescope history detect --magnitude 5%",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ss, err := f.series(env.Stderr)
			if err != nil {
				return err
			}
			worse := false
			for _, s := range ss {
				if n := len(s.Changes); n > 0 && s.Changes[n-1].Worse {
					worse = true
				}
			}
			if f.asJSON {
				err = printJSON(env.Stdout, ss)
			} else {
				printChanges(env.Stdout, ss)
			}
			if err == nil && worse {
				return outcome(exitRegression)
			}
			return err
		},
	}
	f.add(c)
	return c
}

func printChanges(w io.Writer, ss []verdict.Series) {
	for _, s := range ss {
		for _, r := range s.Refused {
			fmt.Fprintf(w, "%s: %s not used: %s\n", seriesName(s.Key), result.ShortID(r.Label), r.Reason)
		}
		for _, m := range s.Mix {
			fmt.Fprintf(w, "%s: the mix changed at %s: %s\n", seriesName(s.Key), result.ShortID(m.Label), mixText(m))
		}
		if len(s.Changes) == 0 {
			fmt.Fprintf(w, "%s: no change in %d results\n", seriesName(s.Key), len(s.Points))
			continue
		}
		for _, c := range s.Changes {
			fmt.Fprintf(w, "%s: %s at %s (%s)\n", seriesName(s.Key), changeText(c), result.ShortID(c.Label), c.At.Format("2006-01-02 15:04"))
		}
	}
}

func changeText(c verdict.Change) string {
	word, cost := "better", c.Ratio
	if c.Worse {
		word = "worse"
	}
	if c.Worse != (cost > 1) {
		cost = 1 / cost // higher values are better
	}
	z := ""
	if c.Z == nil {
		z = ", too few earlier points for the z-score"
	}
	return fmt.Sprintf("%s: %s to %s (cost ratio %s, p = %s%s)", word, metric.Digits(c.Before), metric.Digits(c.After), metric.Times(cost), metric.Digits(c.P), z)
}

func seriesName(k verdict.Key) string {
	name := k.Workload
	if k.Case != "default" {
		name += " " + k.Case
	}
	return fmt.Sprintf("%s in %s, %s, machine %s", name, k.Env, k.Metric, result.ShortID(strings.TrimPrefix(k.Fingerprint, "sha256:")))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// refused reports whether a primary comparison is invalid.
func refused(e *result.Experiment) bool {
	return slices.ContainsFunc(e.Comparisons, func(c result.Comparison) bool { return c.Primary && c.Verdict == stats.Invalid })
}
