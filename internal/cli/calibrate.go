//go:build linux

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
)

func calibrateCommand(env Env) *cobra.Command {
	var asJSON bool
	var data string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what one event (a system call, a page fault, a switch ...) costs on this host",
		Long: `Calibrate measures the costs of single events; explanations multiply rates by these costs.
(` + "`teescope bench calibrate`" + ` is another command: it measures a benchmark's noise floor.)

Calibrate uses a second of CPU time at the lowest priority, unless all CPUs are busy. A monitor
calibrates automatically when it first starts on a machine, before it attaches
anything to the kernel. Stop monitors and other tracers first: the measured costs would
include their probes.`,
		Example: "  teescope calibrate\n  teescope calibrate --json | jq '.units[] | {event, seconds}'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h := host.Local()
			found, _, err := observe.InspectMachine(h)
			if err != nil {
				return err
			}
			k, err := prices.Measure(c.Context(), h, machine.Identify(h, observe.Protection(found)), observe.Traced())
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
		fmt.Fprintf(w, "\nBPF programs on %s ran during the measurement, so the costs include them. Stop other monitors and tracers, and calibrate again.\n", strings.Join(c.Traced, ", "))
	}
	_, err := fmt.Fprintf(w, "\nMeasuring took %s of CPU time, on %s, kernel %s.\n", metric.Value(c.CPUSeconds, "seconds"), cmp.Or(c.Fingerprint.CPU, "unknown"), cmp.Or(c.Fingerprint.Kernel, "unknown"))
	return err
}
