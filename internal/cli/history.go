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
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// historyFlags choose what of a history is looked at.
type historyFlags struct {
	data, workload, metric, magnitude string
	counters                          int // columns of counters per operation
	asJSON                            bool
}

func historyCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "Keep results by commit and find where a cost changed",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
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
				return errors.New("--commit is of one result; add them one by one")
			}
			return addHistory(c.Context(), env.Stdout, historyArchive(data), args, commit)
		},
	}
	c.Flags().StringVar(&data, "data", dataDir(), "data folder")
	c.Flags().StringVar(&commit, "commit", "", "commit that the result is of (default: the one in the result)")
	return c
}

func addHistory(ctx context.Context, w io.Writer, a *result.Archive, paths []string, commit string) error {
	for _, p := range paths {
		e, err := result.Read(p)
		if err != nil {
			return err
		}
		if commit != "" {
			if e.Commit, err = commitOf(ctx, host.Local(), commit); err != nil {
				return err
			}
		}
		if points, refused := verdict.Points(e); len(points) == 0 {
			why := ""
			if len(refused) > 0 {
				why = ": " + refused[0].Reason
			}
			return fmt.Errorf("add %s: no environment of it has a usable value and a fingerprint%s", p, why)
		}
		name, err := a.Add(e)
		if err != nil {
			return err
		}
		label := "no commit named"
		if e.Commit != nil {
			label = "commit " + short(e.Commit.ID)
		}
		fmt.Fprintf(w, "%s: added (%s)\n", name, label)
	}
	return nil
}

func (f *historyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.data, "data", dataDir(), "data folder")
	c.Flags().StringVar(&f.workload, "workload", "", "only this workload")
	c.Flags().StringVar(&f.metric, "metric", "", "only this metric (default: each result's primary metric)")
	c.Flags().StringVar(&f.magnitude, "magnitude", "3%", "smallest change that counts")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print data instead of text")
}

// series reads the chosen histories.
func (f *historyFlags) series() ([]verdict.Series, error) {
	magnitude, err := bench.ParsePercent(f.magnitude)
	if err != nil {
		return nil, fmt.Errorf("--magnitude %w", err)
	}
	es, err := historyArchive(f.data).List()
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("the history in %s has nothing of that; `teescope history add RESULT.json` fills it", historyArchive(f.data).Dir)
	}
	return verdict.Changes(points, verdict.ChangeOptions{Magnitude: magnitude, Refused: refused}), nil
}

func historyShowCommand(env Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print the values by commit, with the points where the level changed",
		Long:    "Show prints one table for each job, environment and fingerprint: another machine or\nanother kernel starts a new table instead of looking like a change. A commit whose runs all\nfailed, or whose comparisons were all refused, stands there with the reason and is not\nused to find changes.",
		Example: "  teescope history show --workload startup",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ss, err := f.series()
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(env.Stdout, ss)
			}
			for _, s := range ss {
				f.show(env.Stdout, s)
				if f.counters > 0 && len(s.Points) > 0 && len(shownCounters(s, f.counters)) == 0 {
					fmt.Fprintf(env.Stderr, "%s: no counter saw this workload, all of it and nothing else; the result's own counters say why\n", seriesName(s.Key))
				}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().IntVar(&f.counters, "counters", 0, "print so many counters per operation beside the values: those that changed first, then the most frequent")
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
		fmt.Fprintf(tw, "  %s\t%s\t%.4g\t", p.At.Format("2006-01-02 15:04"), short(p.Label), p.Value)
		for _, n := range names {
			if c, ok := p.Count(n); ok {
				fmt.Fprintf(tw, "%.4g\t", c.Median)
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

// showRefused prints the row of what is kept and not used.
func showRefused(w io.Writer, r verdict.Refused, counters int) {
	value := "-"
	if r.Value != nil {
		value = fmt.Sprintf("%.4g", *r.Value)
	}
	fmt.Fprintf(w, "  %s\t%s\t%s\t%snot used: %s\n", r.At.Format("2006-01-02 15:04"), short(r.Label), value, strings.Repeat("-\t", counters), oneLine(errors.New(r.Reason)))
}

// shownCounters are the names of n counters: those that changed, and then those
// that are highest in any point.
func shownCounters(s verdict.Series, n int) []string {
	var names []string
	for _, m := range s.Mix {
		for _, x := range m.Shifts {
			if !slices.Contains(names, x.Counter) {
				names = append(names, x.Counter)
			}
		}
	}
	most := map[string]float64{}
	for _, p := range s.Points {
		for name, c := range p.Counters {
			most[name] = max(most[name], c.Median)
		}
	}
	rest := slices.SortedFunc(maps.Keys(most), func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), strings.Compare(a, b))
	})
	for _, name := range rest {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(n, len(names))]
}

// counterWords is a counter without what goes without saying: `read calls`,
// `page_faults{cause="write",space="user"}`.
func counterWords(counter string) string {
	name, labels, _ := strings.Cut(counter, "{")
	if call, ok := strings.CutPrefix(labels, `syscall="`); ok && name == "tee_syscalls_total" {
		return strings.TrimSuffix(call, `"}`) + " calls"
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "tee_"), "_total")
	if labels != "" {
		name += "{" + labels
	}
	return name
}

// mixText says what a commit does otherwise, the largest difference first.
func mixText(m verdict.MixChange) string {
	const most = 3
	var list []string
	for _, s := range m.Shifts[:min(most, len(m.Shifts))] {
		list = append(list, fmt.Sprintf("%s %.4g to %.4g", counterWords(s.Counter), s.Before.Median, s.After.Median))
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
		Short:   "Name the commits at which a cost changed",
		Long:    "Detect looks for change points (E-Divisive with a t-test, and a robust z-score that has to\nagree). Exit status: 0, or 1 when the last change of a history made it worse.",
		Example: "  teescope history detect --magnitude 5%",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ss, err := f.series()
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
			fmt.Fprintf(w, "%s: not used at %s: %s\n", seriesName(s.Key), short(r.Label), r.Reason)
		}
		for _, m := range s.Mix {
			fmt.Fprintf(w, "%s: another mix at %s: %s\n", seriesName(s.Key), short(m.Label), mixText(m))
		}
		if len(s.Changes) == 0 {
			fmt.Fprintf(w, "%s: no change of level in %d results\n", seriesName(s.Key), len(s.Points))
			continue
		}
		for _, c := range s.Changes {
			fmt.Fprintf(w, "%s: %s at %s (%s)\n", seriesName(s.Key), changeText(c), short(c.Label), c.At.Format("2006-01-02 15:04"))
		}
	}
}

func changeText(c verdict.Change) string {
	word := "better"
	if c.Worse {
		word = "worse"
	}
	z := ""
	if c.Z == nil {
		z = ", too few points before it for the second rule"
	}
	return fmt.Sprintf("%s: %.4g to %.4g (x%.3g, p = %.2g%s)", word, c.Before, c.After, c.Ratio, c.P, z)
}

func seriesName(k verdict.Key) string {
	name := k.Workload
	if k.Case != "default" {
		name += " " + k.Case
	}
	return fmt.Sprintf("%s in %s, %s, machine %s", name, k.Env, k.Metric, short(strings.TrimPrefix(k.Fingerprint, "sha256:")))
}

// short is enough of a hash or an id to tell it from its neighbours.
func short(id string) string { return id[:min(12, len(id))] }

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
