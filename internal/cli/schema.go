package cli

import (
	_ "embed"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/web"
)

//go:generate go test -count=1 -run ^TestConfigSchema$ . -update

// configSchema is the JSON Schema (draft 2020-12) of the file of --config, made
// from the type config.
//
//go:embed config.schema.json
var configSchema []byte

func schemaCommand(env Env) *cobra.Command {
	documents := []string{"result", "findings", "config"}
	texts := map[string][]byte{"result": result.Schema, "findings": web.FindingsSchema, "config": configSchema}
	return &cobra.Command{
		Use:   "schema result|findings|config",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints a JSON Schema (draft 2020-12) of a result, of what the API answers to
GET /api/teescope/v1/findings, or of the file of --config, for an editor that completes
and checks YAML. Of config, the sections global and scrape_configs are Prometheus' own
and pass as they are.`,
		Example:   "  teescope schema result > result.schema.json\n  teescope schema config > teescope.schema.json",
		ValidArgs: documents,
		Args:      cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, ok := texts[args[0]]
			if !ok {
				return fmt.Errorf("no schema of %q; there is result, findings and config", args[0])
			}
			_, err := env.Stdout.Write(text)
			return err
		},
	}
}
