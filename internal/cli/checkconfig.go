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
		Long: `Check-config reads a --config file as the monitor does, and prints each error with its
line. It starts nothing and makes no network request. Like the monitor at its start, it reads
the files in the receivers' tls_config. It reads no other secret that the file names.
deploy/teescope.yaml is an example with every key.

Exit status: 0 no error, 1 an error, 4 the file cannot be read. A metric that no source of
teescope emits is only a remark, because a scraped target may emit it.`,
		Example: "  teescope check-config /etc/teescope/teescope.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return reviewConfig(env, args[0], probes, agent)
		},
	}
	c.Flags().BoolVar(&agent, "agent", false, "check the file as an agent's configuration; an agent refuses sections that only a monitor has")
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
	_, err = fmt.Fprintf(env.Stdout, "%s: no errors\n", name)
	return err
}
