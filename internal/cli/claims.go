package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/claims"
)

func claimsCommand(env Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "claims FILE.csv...",
		Short: "Check the claims of a published table against its own numbers",
		Long: `Claims reads published tables and the claims made about them, and recomputes every claim
and every derived cell from the table's own cells. A contradiction is printed with its
arithmetic and, if there is one, with a reading of the cells that gives the claimed
number. Differences that rounding explains are not contradictions. A claim that a missing
cell could make true stays undecided. A row's name with commas or brackets can stand in
double quotes: v["store (4 KiB), sealed"]. The file format is described in
experiments/claims/README.md.

Exit status: 0 no contradiction, 1 contradictions, 4 a file that cannot be read.`,
		Example: "  teescope claims experiments/claims/*.csv\n  teescope claims --json paper.csv",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			// All files are read before anything is printed, so an error stands alone.
			tables := make([]*claims.Table, len(args))
			for i, name := range args {
				var err error
				if tables[i], err = readClaims(name); err != nil {
					return err
				}
			}
			return printClaims(env.Stdout, args, tables, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of text: one report per file")
	return c
}

func readClaims(name string) (*claims.Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := claims.Read(f)
	if err != nil {
		return nil, fmt.Errorf("claims %s: %w", name, err)
	}
	return t, nil
}

func printClaims(w io.Writer, names []string, tables []*claims.Table, asJSON bool) error {
	type named struct {
		File string `json:"file"`
		claims.Report
	}
	reports := make([]named, len(tables))
	found := 0
	for i, t := range tables {
		reports[i] = named{names[i], t.Check()}
		found += len(reports[i].Findings)
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(reports); err != nil {
			return err
		}
	} else {
		for i, r := range reports {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := r.Text(w, r.File); err != nil {
				return err
			}
		}
	}
	if found > 0 {
		return outcome(exitRegression)
	}
	return nil
}
