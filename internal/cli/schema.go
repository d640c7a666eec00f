package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/result"
)

func schemaCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:       "schema result",
		Short:     "Print the JSON Schema of a document",
		Example:   "  teescope schema result > result.schema.json",
		ValidArgs: []string{"result"},
		Args:      cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "result" {
				return fmt.Errorf("no schema of %q; there is result", args[0])
			}
			_, err := env.Stdout.Write(result.Schema)
			return err
		},
	}
}
