package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// judging are the flags of the commands that judge results.
type judging struct {
	margin, calibration string
	// origin is what is proved of where the results that load read were made.
	origin string
}

func (j *judging) flags(c *cobra.Command) {
	c.Flags().StringVar(&j.margin, "margin", "", "smallest cost that matters (default: the result's)")
	c.Flags().StringVar(&j.calibration, "calibration", "", "`FILE` with an A/A result of this host (teescope bench calibrate), used as the noise floor")
}

// judged are the options of every verdict.
func judged() verdict.Options { return verdict.Options{Diff: environment.Diff, Catalog: known} }

func (j *judging) options() (verdict.Options, error) {
	o := judged()
	if j.margin != "" {
		v, err := bench.ParsePercent(j.margin)
		if err != nil {
			return o, fmt.Errorf("--margin %w", err)
		}
		o.Margin = v
	}
	if j.calibration != "" {
		e, err := result.Read(j.calibration)
		if err != nil {
			return o, err
		}
		n, err := verdict.Calibrate(e)
		if err != nil {
			return o, fmt.Errorf("--calibration %s: %w", j.calibration, err)
		}
		o.Calibration = n
	}
	return o, nil
}

// load reads results, and joins several into one.
func (j *judging) load(paths []string) (*result.Experiment, error) {
	o, err := j.options()
	if err != nil {
		return nil, err
	}
	var es []*result.Experiment
	var origins []string
	for _, p := range paths {
		e, origin, err := readWithOrigin(p)
		if err != nil {
			return nil, err
		}
		if err := (bench.Lists{Workloads: workloads.All}).Edited(e); err != nil {
			return nil, fmt.Errorf("read %s: %w", p, err)
		}
		origins = append(origins, origin.Word())
		for i, other := range es {
			if other.ID == e.ID {
				return nil, fmt.Errorf("%s and %s are the same experiment (%s); name each experiment only once", paths[i], p, e.ID)
			}
		}
		es = append(es, e)
	}
	if j.origin = origins[0]; slices.ContainsFunc(origins, func(o string) bool { return o != origins[0] }) {
		for i, p := range paths {
			origins[i] = filepath.Base(p) + " " + origins[i]
		}
		j.origin = strings.Join(origins, ", ")
	}
	if len(es) > 1 {
		nameByFile(es, paths)
		return verdict.JoinResults(es, o)
	}
	verdict.Conclude(es[0], o)
	return es[0], nil
}

// nameByFile names results after their files if several share a name, such as one
// workload's results from three machines.
func nameByFile(es []*result.Experiment, paths []string) {
	names := map[string]int{}
	for _, e := range es {
		names[e.Name]++
	}
	for i, e := range es {
		if file := strings.TrimSuffix(filepath.Base(paths[i]), ".gz"); names[e.Name] > 1 {
			e.Name = strings.TrimSuffix(file, filepath.Ext(file))
		}
	}
}

func compareCommand(env Env) *cobra.Command {
	var j judging
	var format, prices, untried string
	c := &cobra.Command{
		Use:   "compare A.json [B.json]...",
		Short: "Print the ratio, interval, verdict and grade of one or more results",
		Long: `Compare prints what can be concluded. One interleaved result gives a cost or a gain
with its interval. Separate files are not paired, so a drift of the machine between the files
looks like an effect. The grade, A to D, says how comparable two arms are. Separate files have
grade B at best, and only a cost of grade A or B is called overhead.

Exit status: 0, or 3 if a guard refused a comparison.`,
		Example: "  teescope compare result.json\n  teescope compare --prices prices.yaml --format md aws.json azure.json gcp.json\n  teescope compare --predict size=48MiB ladder.json\n  teescope compare --predict transitions=0.1x redis.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := findFormat(format)
			if err != nil {
				return err
			}
			d := report.Document{Catalog: known, Made: host.Local().Now().UTC()}
			if d.Prices, err = readPrices(prices); err != nil {
				return err
			}
			e, err := j.load(args)
			if err != nil {
				return err
			}
			d.Experiments = []*result.Experiment{e}
			d.Origins = map[*result.Experiment]string{e: j.origin}
			if untried != "" {
				said, err := predict(e, untried)
				if err != nil {
					return err
				}
				_, err = io.WriteString(env.Stdout, said)
				return err
			}
			if err := f.Write(env.Stdout, d); err != nil {
				return nameFiles(args, err)
			}
			if refused(e) {
				return outcome(exitInvalid)
			}
			return nil
		},
	}
	j.flags(c)
	c.Flags().StringVar(&format, "format", "text", "one of "+formatNames())
	c.Flags().StringVar(&untried, "predict", "", "predict a cost instead: size=48MiB predicts the cost at this setting, from at least 4 measured settings around it in one result; transitions=0.1x predicts the cost with a tenth of the enclave transitions, epc=2x with twice the EPC, both from event counts and costs of single events")
	c.MarkFlagsMutuallyExclusive("predict", "format")
	c.Flags().StringVar(&prices, "prices", "", "YAML list of {name, per_hour, currency, date, source}, to show work per unit of currency; name is an environment, a file or an instance type")
	return c
}

// readPrices reads a list of {name, per_hour, currency, date, source}.
func readPrices(path string) ([]report.Price, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name     string  `yaml:"name"`
		PerHour  float64 `yaml:"per_hour"`
		Currency string  `yaml:"currency"`
		Date     string  `yaml:"date"`
		Source   string  `yaml:"source"`
	}
	if _, err := configfile.Decode(b, &list); err != nil {
		return nil, fmt.Errorf("prices %s: %w", path, err)
	}
	var out []report.Price
	for i, p := range list {
		if p.Name == "" || !(p.PerHour > 0) || p.Currency == "" || p.Date == "" {
			return nil, fmt.Errorf("prices %s: entry %d: want name, per_hour, currency, and the date of the price", path, i+1)
		}
		out = append(out, report.Price(p))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("prices %s: no entries", path)
	}
	return out, nil
}
