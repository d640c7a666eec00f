package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/verdict"
)

func gateCommand(env Env) *cobra.Command {
	var j judging
	var inconclusive string
	var asJSON bool
	c := &cobra.Command{
		Use:   "gate RESULT.json | gate BASE.json HEAD.json",
		Short: "Fail a build that is worse by more than the margin",
		Long: `Gate checks one interleaved experiment whose environments differ in exactly one declared
subject, such as two builds of a program. It fails only if the whole interval of the
cost lies beyond the margin. Two separate files are not paired. Gate decides about two
files only if an A/A result of this host (--calibration) shows a drift below the margin.

Exit status: 0 no cost beyond the margin, 1 regression, 2 inconclusive (see
--inconclusive), 3 invalid (a guard refused it, or a metric is missing), 4 usage error.`,
		Example: "  teescope gate r.json --margin 5%\n\n" +
			"  # to make r.json\n" +
			"  teescope bench run custom --param 'command={binary}' --env base=native,binary=./old --env head=native,binary=./new --out r.json",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			policy, ok := map[string]verdict.Policy{"report": verdict.Report, "pass": verdict.Pass, "fail": verdict.Fail}[inconclusive]
			if !ok {
				return fmt.Errorf("--inconclusive %q: want report, pass or fail", inconclusive)
			}
			o, err := j.options()
			if err != nil {
				return err
			}
			e, err := j.load(args)
			if err != nil {
				return err
			}
			r := verdict.Gate(e, verdict.GateOptions{Options: o, Inconclusive: policy})
			if asJSON {
				err = printJSON(env.Stdout, map[string]any{"status": r.Status, "text": r.Text, "comparisons": e.Comparisons, "guards": e.Guards, "origin": j.origin})
			} else {
				_, err = fmt.Fprintf(env.Stdout, "%s\norigin: %s\n", r.Text, j.origin)
			}
			if err != nil {
				return err
			}
			if r.Status != exitOK {
				return outcome(r.Status)
			}
			return nil
		},
	}
	j.flags(c)
	c.Flags().StringVar(&inconclusive, "inconclusive", "report", "exit status of an inconclusive comparison: report (2), pass (0) or fail (1)")
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of text")
	return c
}
