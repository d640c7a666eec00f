package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
)

// onlyOnLinux are the commands that read, measure or prove something about the machine they run on.
var onlyOnLinux = []string{"agent", "attest", "calibrate", "channel", "check-config", "doctor", "monitor", "open", "top", "tpm"}

// benchOnlyOnLinux are those of bench.
var benchOnlyOnLinux = []string{"calibrate", "commits", "plan", "run"}

// clientCommands are the commands of the client, which is this program on other systems than Linux: they read files, and ask a
// monitor elsewhere. The others say that they need Linux.
func clientCommands(env Env) []*cobra.Command {
	bench := &cobra.Command{
		Use: "bench", Short: "List what can be measured; measuring needs Linux", Example: "  teescope bench list",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	bench.AddCommand(benchListCommand(env))
	for _, name := range benchOnlyOnLinux {
		bench.AddCommand(linuxCommand(name))
	}
	out := []*cobra.Command{explainCommand(env), changesCommand(env), bench, compareCommand(env), gateCommand(env), reportCommand(env), historyCommand(env), claimsCommand(env), reproduceCommand(env, linuxCommand("run")), verifyCommand(env), schemaCommand(env), licensesCommand(env),
		build.Command(env.Stdout, build.Client, "")}
	for _, name := range onlyOnLinux {
		out = append(out, linuxCommand(name))
	}
	return out
}

// linuxCommand stands in a client for a command that it does not have.
func linuxCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "(needs Linux)", DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error { return needsLinux(c.CommandPath()[len("teescope "):]) },
	}
}

// needsLinux is the one sentence about what a client cannot do, and what it can.
func needsLinux(what string) error {
	return fmt.Errorf("%s needs Linux: this is the client, which reads results (compare, gate, report, history, claims, reproduce, verify, schema, bench list) and asks a monitor elsewhere (explain --server, changes --server)", what)
}
