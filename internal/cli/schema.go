package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/web"
)

func schemaCommand(env Env) *cobra.Command {
	documents := []string{"result", "findings", "config", "template", "version"}
	texts := map[string][]byte{"result": result.Schema, "findings": web.FindingsSchema, "config": config.Schema, "template": launchers.TemplateSchema, "version": build.Schema}
	return &cobra.Command{
		Use:   "schema result|findings|config|template|version",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints the JSON Schema (draft 2020-12) of one document: a benchmark result, the
answer to GET /api/teescope/v1/findings, the configuration file (--config), a command
template (--env FILE.yaml), or the output of "teescope version --json". Editors can use
the schemas to complete and check YAML. The configuration's sections global,
scrape_configs and remote_write belong to Prometheus; the schema does not check them.`,
		Example:   "  teescope schema result > result.schema.json\n  teescope schema config > teescope.schema.json",
		ValidArgs: documents,
		Args:      cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, ok := texts[args[0]]
			if !ok {
				return fmt.Errorf("no schema %q; want result, findings, config, template or version", args[0])
			}
			_, err := env.Stdout.Write(text)
			return err
		},
	}
}
