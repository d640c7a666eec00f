package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		if len(verdict.Points(e)) == 0 {
			return fmt.Errorf("add %s: no environment of it has a usable value and a fingerprint", p)
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
	for _, e := range es {
		for _, p := range verdict.Points(e) {
			if (f.workload == "" || p.Workload == f.workload) && (p.Metric == f.metric || f.metric == "" && p.Metric == e.Design.Primary) {
				points = append(points, p)
			}
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("the history in %s has nothing of that; `teescope history add RESULT.json` fills it", historyArchive(f.data).Dir)
	}
	return verdict.Changes(points, verdict.ChangeOptions{Magnitude: magnitude}), nil
}

func historyShowCommand(env Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print the values by commit, with the points where the level changed",
		Long:    "Show prints one table for each job, environment and fingerprint: another machine or\nanother kernel starts a new table instead of looking like a change.",
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
				fmt.Fprintf(env.Stdout, "%s\n", seriesName(s.Key))
				tw := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
				for i, p := range s.Points {
					note := ""
					if j := slices.IndexFunc(s.Changes, func(c verdict.Change) bool { return c.Index == i }); j >= 0 {
						note = changeText(s.Changes[j])
					}
					fmt.Fprintf(tw, "  %s\t%s\t%.4g\t%s\n", p.At.Format("2006-01-02 15:04"), short(p.Label), p.Value, note)
				}
				tw.Flush()
			}
			return nil
		},
	}
	f.add(c)
	return c
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
		if len(s.Changes) == 0 {
			fmt.Fprintf(w, "%s: no change in %d results\n", seriesName(s.Key), len(s.Points))
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
