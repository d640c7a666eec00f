package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/licenses"
)

// licensesCommand prints under which terms teescope is, and what of others is in it.
func licensesCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "licenses",
		Short: "Print the licenses of teescope and of what it contains",
		Long: `Licenses prints the license of teescope, and the works of others that this program
contains, with the texts of their licenses: Go, its modules, the packages of the page,
and the C library of the small worker.`,
		Example: "  teescope licenses",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			others, err := licenses.Others()
			if err != nil {
				return fmt.Errorf("read the licenses in the program: %w", err)
			}
			_, err = fmt.Fprintf(env.Stdout, "teescope: Apache-2.0 (https://www.apache.org/licenses/LICENSE-2.0). Its programs in the kernel: GPL-2.0-only OR BSD-2-Clause.\n\n%s", others)
			return err
		},
	}
}
