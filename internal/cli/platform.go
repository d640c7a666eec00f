//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// price is what the machine costs, from the file of --price.
type price struct {
	// PerHour is an amount of Currency.
	PerHour  float64 `yaml:"per_hour"`
	Currency string  `yaml:"currency"`
	// Of is what is priced, such as an instance type; Source and Date say where and when.
	Of     string `yaml:"of"`
	Source string `yaml:"source"`
	Date   string `yaml:"date"`
}

// readPrice reads such a file; "" is no price.
func readPrice(path string) (*price, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--price: %w", err)
	}
	var p price
	if _, err := configfile.Decode(b, &p); err != nil {
		return nil, fmt.Errorf("--price %s: %w", path, err)
	}
	if !(p.PerHour > 0) || p.Currency == "" || p.Source == "" || p.Date == "" {
		return nil, fmt.Errorf("--price %s: want per_hour above 0, currency, source and date", path)
	}
	return &p, nil
}

// unitCost formats the price of a million (billion, trillion) units at the given rate per second, "" if it is not a rate.
func (p *price) unitCost(rate float64, unit string) string {
	what, ok := strings.CutSuffix(unit, "_per_second")
	if p == nil || !ok || !(rate > 0) {
		return ""
	}
	each := p.PerHour / 3600 / rate * 1e6
	many := []string{"million", "billion", "trillion"}
	for each < 1e-3 && len(many) > 1 {
		each, many = each*1000, many[1:]
	}
	return fmt.Sprintf("%s %s per %s %s", metric.Value(each, ""), p.Currency, many[0], strings.ReplaceAll(what, "_", " "))
}

// platformChoices are the suite's experiments, each with the ceilings of its metrics.
func platformChoices(base bench.Choice) ([]bench.Choice, error) {
	var out []bench.Choice
	used := make([]bool, len(base.Ceilings))
	for _, x := range components {
		c := base
		w, err := lists().Workload(x.workload)
		if err != nil {
			return nil, err
		}
		params, err := bench.Complete("workload "+w.Name, w.Params, x.params)
		if err != nil {
			return nil, err
		}
		c.Ceilings = nil
		for i, limit := range base.Ceilings {
			if slices.ContainsFunc(w.Metrics(params), func(d *metric.Desc) bool { return d.Name == limit.Metric }) {
				used[i], c.Ceilings = true, append(c.Ceilings, limit)
			}
		}
		if c.Pairs == 0 {
			c.Pairs = bench.QuickPairs
		}
		c.Experiment = &bench.Experiment{Name: platformSuite + ": " + x.name, Workload: x.workload, Params: x.params}
		out = append(out, c)
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("ceiling of %q: no part of the suite measures this metric", base.Ceilings[i].Metric)
	}
	return out, nil
}

// runnable drops the components for which this machine lacks something, and names them.
func runnable(w io.Writer, h *host.Host, plans []*bench.Plan) ([]*bench.Plan, error) {
	var out []*bench.Plan
	for _, p := range plans {
		if err := p.Check(h); err != nil {
			fmt.Fprintf(w, "left out: %s: %s\n", p.Name, contain.OneLine(err))
			continue
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("platform: no part of the suite can run here; the lines above say what is missing")
	}
	return out, nil
}

// platform runs the suite and prints its table.
func (f *benchFlags) platform(ctx context.Context, env Env, o bench.Options, plans []*bench.Plan) error {
	cost, err := readPrice(f.price)
	if err != nil {
		return err
	}
	dir := f.out
	if dir == "" {
		dir = filepath.Join(f.data, "results")
	}
	var done []*result.Experiment
	var status outcome
	for _, p := range plans {
		fmt.Fprintln(env.Stderr, p.Name)
		path := filepath.Join(dir, filepath.Base(f.path(strings.ReplaceAll(p.Name, ", ", "-"), o.Host.Now(), true)))
		e, err := f.measured(ctx, env, o, func(o bench.Options) (*result.Experiment, error) { return bench.Run(ctx, p, o, path) })
		switch {
		case e == nil && ctx.Err() != nil:
			printPlatform(env.Stdout, done, cost)
			return err
		case e == nil: // a failure does not affect the others
			fmt.Fprintf(env.Stderr, "left out: %s: %s\n", p.Name, contain.OneLine(err))
			status = exitInvalid
			continue
		case err != nil:
			fmt.Fprintf(env.Stderr, "teescope: %s: %s\n", p.Name, contain.OneLine(err))
			if !errors.Is(err, bench.ErrLeft) {
				status = exitInvalid
			}
		}
		if err := f.publishTo(path, e); err != nil {
			fmt.Fprintf(env.Stderr, "teescope: the page will not show this result: %s\n", contain.OneLine(err))
		}
		done = append(done, e)
	}
	printPlatform(env.Stdout, done, cost)
	fmt.Fprintf(env.Stdout, "\nEach value is the median of its runs with the interval of the median (order statistics). Results: %s\n", dir)
	if status != exitOK {
		return status
	}
	return nil
}

func printPlatform(w io.Writer, es []*result.Experiment, cost *price) {
	if len(es) == 0 {
		return
	}
	v := &es[0].Environments[0]
	fmt.Fprintf(w, "%s, %d CPUs, %s of memory, kernel %s, TEE: %s, %s\n\n", cmp.Or(v.Hardware.CPUModel, "unknown"), v.Hardware.CPUs,
		metric.Value(float64(v.Hardware.MemoryBytes), "bytes"), cmp.Or(v.Software.Kernel, "unknown"), v.TEE.Type, es[0].StartedAt.Format("2006-01-02"))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "component\tenvironment\tmetric\tvalue\tinterval\tceiling\tsource\t"
	if cost != nil {
		head += "cost\t"
	}
	fmt.Fprintln(tw, head+"insight")
	for _, e := range es {
		for i := range e.Environments {
			platformRow(tw, e, &e.Environments[i], cost)
		}
	}
	tw.Flush()
	if cost != nil {
		fmt.Fprintf(w, "\nCost: %s %s an hour for %s, from %s, %s\n", metric.Value(cost.PerHour, ""), cost.Currency, cmp.Or(cost.Of, "the machine"), cost.Source, cost.Date)
	}
}

func platformRow(w io.Writer, e *result.Experiment, env *result.Environment, cost *price) {
	name := strings.TrimPrefix(e.Name, platformSuite+": ")
	d := e.Desc(e.Design.Primary)
	values, why := primaryValues(e, env.ID)
	row := []string{name, env.ID, e.Design.Primary}
	if len(values) == 0 {
		row = append(row, "none", "", "", "")
		if cost != nil {
			row = append(row, "")
		}
		fmt.Fprintln(w, strings.Join(append(row, why), "\t"))
		return
	}
	m := stats.Median(values)
	interval := fmt.Sprintf("none from %d runs", len(values))
	if lo, hi, ok := stats.PercentileInterval(len(values), 0.5, 0.95); ok {
		slices.Sort(values)
		interval = fmt.Sprintf("[%s, %s]", metric.Value(values[lo-1], d.Unit), metric.Value(values[hi-1], d.Unit))
	}
	insight := ""
	for _, c := range e.Comparisons {
		if c.Primary && c.Treatment == env.ID {
			insight = verdict.Sentence(e, &c)
		}
	}
	if i := slices.IndexFunc(components, func(c component) bool { return c.name == name }); insight == "" && i >= 0 && components[i].insight != nil {
		insight = components[i].insight(m)
	}
	var ceilings []string
	for _, c := range e.Design.Ceilings {
		if c.Metric == e.Design.Primary && (c.Env == "" || c.Env == env.ID) {
			ceilings = append(ceilings, fmt.Sprintf("%s (%s)", metric.Value(c.Value, d.Unit), c.Source))
		}
	}
	row = append(row, metric.Value(m, d.Unit), interval, strings.Join(ceilings, ", "), "measured")
	if cost != nil {
		row = append(row, cost.unitCost(m, d.Unit))
	}
	fmt.Fprintln(w, strings.Join(append(row, insight), "\t"))
}

// primaryValues are an arm's values of the primary metric, or why there are none.
func primaryValues(e *result.Experiment, env string) ([]float64, string) {
	var out []float64
	why := "no run was made"
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Env != env {
			continue
		}
		switch m := r.Metric(e.Design.Primary); {
		case r.Status != result.OK:
			why = r.Reason
		case m == nil || m.Value == nil:
			why = "it was not measured"
		default:
			out = append(out, *m.Value)
		}
	}
	return out, why
}
