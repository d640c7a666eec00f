package build

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// Command returns the command version of a program of this kind; prometheus is as in Describe.
func Command(stdout io.Writer, kind Kind, prometheus string) *cobra.Command {
	var asJSON bool
	program := "teescope"
	if kind == Agent {
		program = "teescope-agent"
	}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the kind of this program",
		Example: "  " + program + " version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			i := Describe(kind, prometheus)
			if asJSON {
				e := json.NewEncoder(stdout)
				e.SetIndent("", "  ")
				return e.Encode(i)
			}
			return i.print(stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of lines")
	return c
}
