//go:build linux

package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe/sources"
)

// checkConfigCommand is check-config.
func checkConfigCommand(env Env) *cobra.Command {
	var agent bool
	var probes string
	c := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration file without starting a monitor",
		Long: `Check-config reads a file of --config as the monitor does, and says what is wrong with it,
with the line. It starts nothing and asks nobody. As the monitor at its start, it reads the
files of the tls_config of receivers; it reads no other secret that the file names.
deploy/teescope.yaml is an example with every key.

Exit status: 0 without a fault, 1 with one, 4 if the file cannot be read. A metric that
nothing here emits is a remark: a scraped target may have it.`,
		Example: "  teescope check-config /etc/teescope/teescope.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return reviewConfig(env, args[0], probes, agent)
		},
	}
	c.Flags().BoolVar(&agent, "agent", false, "check it as the configuration of an agent, which refuses the sections of a monitor")
	observe.ProbesFlag(c.Flags(), &probes)
	return c
}

// reviewConfig prints what is wrong with a file.
func reviewConfig(env Env, name, probes string, agent bool) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	own, err := sources.UserProbes(host.Local(), probes)
	if err != nil {
		return err
	}
	list := slices.Concat(sources.All, own)
	var c config.Config
	if err := configfile.Check(name, text, c.Parser(list, agent)); err != nil {
		fmt.Fprintln(env.Stderr, err)
		return outcome(exitRegression)
	}
	for _, doubt := range monitor.Doubts(&c, list) {
		fmt.Fprintf(env.Stderr, "%s: %s\n", name, contain.OneLine(doubt))
	}
	if c.Analysis.Broken() {
		return outcome(exitRegression)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: no fault\n", name)
	return err
}
