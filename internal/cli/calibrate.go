package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// unitCostDesc is what an explanation multiplies rates with.
var unitCostDesc = &metric.Desc{Name: explain.UnitCost, Kind: metric.Gauge, Labels: []string{"event", "bound"},
	Help: "Cost of one event on this host in seconds, measured before anything was attached: bound is median, or low and high, between which 95 % of the batches lie. Events are syscall (a null system call), syscall_unseen (its part that sampling takes for the program's), fault_CAUSE by the causes of tee_page_faults_total, fault_unseen (the part of a fault that sampling takes for the program's), fault_file, switch_same_core, switch_cross_core, wakeup, copy_page (4 KiB), vm_exit_cpuid and, on a machine with SGX, enclave_transition; `teescope calibrate` says how each is measured."}

func calibrateCommand(env Env) *cobra.Command {
	var asJSON bool
	var data string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what one event (a system call, a page fault, a switch ...) costs on this host",
		Long: `Calibrate measures what single events cost; explanations multiply rates by it. The noise
floor of a benchmark is another thing: ` + "`teescope bench calibrate`" + `.

It uses a second of CPU time at the lowest priority, unless all CPUs are busy. A monitor
calibrates automatically when it first starts on a machine, before it attaches
anything to the kernel. Stop monitors and other tracers first: their probes are part of what
is measured.`,
		Example: "  teescope calibrate\n  teescope calibrate --json | jq '.units[] | {event, seconds}'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h := host.Local()
			found, _, err := look(h)
			if err != nil {
				return err
			}
			k, err := prices.Measure(c.Context(), h, machine.Identify(h, protection(found)), traced())
			if err != nil {
				return err
			}
			if data != "" {
				if err := k.Store(h, data); err != nil {
					return err
				}
			}
			if asJSON {
				e := json.NewEncoder(env.Stdout)
				e.SetIndent("", "  ")
				return e.Encode(k)
			}
			return printCalibration(env.Stdout, k)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of a table")
	c.Flags().StringVar(&data, "data", "", "folder of a monitor's store; the monitor uses these costs from its next start")
	return c
}

func printCalibration(w io.Writer, c *prices.Calibration) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "event\tcost\t95 % of batches\tbatches\twhat")
	for _, u := range c.Units {
		fmt.Fprintf(tw, "%s\t%s\t%s to %s\t%d\t%s\n", u.Event, metric.Value(u.Seconds, "seconds"),
			metric.Value(u.Low, "seconds"), metric.Value(u.High, "seconds"), u.Batches, u.Method)
	}
	for _, m := range c.Missing {
		fmt.Fprintf(tw, "%s\tnone\t\t\t%s\n", m.Event, m.Reason)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(c.Traced) > 0 {
		fmt.Fprintf(w, "\nPrograms on %s ran during the measurement and are part of the costs. Stop other monitors and tracers, and calibrate again.\n", strings.Join(c.Traced, ", "))
	}
	_, err := fmt.Fprintf(w, "\nMeasuring took %s of CPU time, on %s, kernel %s.\n", metric.Value(c.CPUSeconds, "seconds"), orUnknown(c.Fingerprint.CPU), orUnknown(c.Fingerprint.Kernel))
	return err
}

// protection is the TEE of a machine as far as costs depend on it.
func protection(found []tee.Detection) string {
	var out []string
	for _, f := range tee.Found(found) {
		out = append(out, strings.TrimSpace(f.Kind+" "+f.Variant)+" "+string(f.Role))
	}
	return strings.Join(out, ", ")
}

// unitCosts are the current calibration, or the reason why there is none.
type unitCosts struct {
	*prices.Calibration
	err error
}

// calibrated returns the unit costs stored in a data folder. If it has none for this
// machine, they are measured and stored; with "" they are not stored. It must run
// before anything is attached.
func (o *observer) calibrated(ctx context.Context, dir string) unitCosts {
	return calibrated(ctx, o.host, o.found, dir, o.log)
}

func calibrated(ctx context.Context, h *host.Host, found []tee.Detection, dir string, log *slog.Logger) unitCosts {
	local, now := host.Local(), machine.Identify(h, protection(found))
	if dir != "" {
		c, err := prices.Load(local, dir)
		switch {
		case err == nil && c.Stale(now) == "":
			return unitCosts{c, nil}
		case err == nil:
			log.Warn("the unit costs are measured again", "because", c.Stale(now))
		case !errors.Is(err, fs.ErrNotExist):
			log.Warn("the unit costs are measured again", "because", oneLine(err))
		}
	}
	c, err := prices.Measure(ctx, local, now, traced())
	if err == nil && len(c.Traced) > 0 {
		log.Warn("the unit costs are higher than this host's own and will be measured again at the next start", "because programs run on", strings.Join(c.Traced, ", "))
	}
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("no unit costs: explanations have counts, but no costs", "error", oneLine(err))
		}
		return unitCosts{err: err}
	}
	if dir != "" {
		if err := c.Store(local, dir); err != nil {
			log.Warn("the unit costs will be measured again at the next start", "error", oneLine(err))
		}
	}
	return unitCosts{c, nil}
}

// traced are the tracepoints that other monitors and tracers have programs on, as far
// as this process can see.
func traced() []string {
	names, err := bpf.Tracers()
	if err != nil {
		return nil
	}
	return names
}

// samples appends the costs.
func (u unitCosts) samples(out []metric.Sample) []metric.Sample {
	if u.Calibration == nil {
		return out
	}
	for _, x := range u.Units {
		for _, b := range []struct {
			name  string
			value float64
		}{{"median", x.Seconds}, {"low", x.Low}, {"high", x.High}} {
			out = append(out, metric.Sample{Desc: unitCostDesc, Labels: []string{x.Event, b.name}, Value: b.value})
		}
	}
	return out
}

// forResult is the calibration as stored in a result.
func (u unitCosts) forResult() *result.UnitCosts {
	if u.Calibration == nil {
		return &result.UnitCosts{Reason: u.absent()}
	}
	out := &result.UnitCosts{MeasuredAt: u.MeasuredAt, Traced: u.Traced}
	for _, x := range u.Units {
		out.Units = append(out.Units, result.UnitCost{Event: x.Event, Seconds: x.Seconds, Low: x.Low, High: x.High})
	}
	return out
}

// absent says why there are no unit costs.
func (u unitCosts) absent() string {
	switch {
	case u.err != nil:
		return oneLine(u.err)
	case u.Calibration == nil:
		return "calibration was not requested"
	}
	return ""
}
