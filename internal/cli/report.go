package cli

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/report/formats"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

func reportCommand(env Env) *cobra.Command {
	var out, format, plots, prices string
	c := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Write results with plots into one self-contained file",
		Example: "  teescope report result.json --out report.html\n" +
			"  teescope report result.json --out report.html --plots plots/\n" +
			"  teescope report result.json --format text\n" +
			"  teescope report result.json --format summary --out summary.json.gz",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := findFormat(format)
			if err != nil {
				return err
			}
			d := report.Document{Catalog: known, Made: host.Local().Now().UTC(), Origins: map[*result.Experiment]string{}}
			if d.Prices, err = readPrices(prices); err != nil {
				return err
			}
			for _, path := range args {
				e, origin, err := readWithOrigin(path)
				if err != nil {
					return err
				}
				e = verdict.Concluded(e, judged())
				d.Experiments = append(d.Experiments, e)
				d.Origins[e] = origin.Line
			}
			if plots != "" {
				if err := writePlots(plots, d); err != nil {
					return err
				}
			}
			if out == "" { // a page is for a browser, all else for a terminal or a pipe
				out = map[bool]string{true: "report.html", false: "-"}[format == "html"]
			}
			if out == "-" {
				return nameFiles(args, f.Write(env.Stdout, d))
			}
			w, err := os.Create(out)
			if err != nil {
				return err
			}
			if err := errors.Join(writeFormat(w, f, d, strings.HasSuffix(out, ".gz")), w.Close()); err != nil {
				return errors.Join(fmt.Errorf("write %s: %w", out, nameFiles(args, err)), os.Remove(out))
			}
			fmt.Fprintln(env.Stdout, out)
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", "", "file to write, compressed if its name ends in .gz, or - for standard output (default report.html for the format html, else -)")
	c.Flags().StringVar(&format, "format", "html", "one of "+formatNames())
	c.Flags().StringVar(&plots, "plots", "", "also write each plot as SVG and PNG into this folder")
	c.Flags().StringVar(&prices, "prices", "", "YAML file with prices per hour, to show work per unit of currency")
	return c
}

// writeFormat writes a document, compressed with gzip (RFC 1952) if asked for.
func writeFormat(w io.Writer, f *report.Format, d report.Document, compressed bool) error {
	if !compressed {
		return f.Write(w, d)
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(f.Write(z, d), z.Close())
}

// nameFiles names the files of an error.
func nameFiles(files []string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(files, ", "), err)
}

func writePlots(dir string, d report.Document) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range report.Plots(d) {
		png, err := p.PNG()
		if err != nil {
			return fmt.Errorf("plot %s: %w", p.Name, err)
		}
		for name, data := range map[string][]byte{p.Name + ".svg": p.SVG(), p.Name + ".png": png} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func findFormat(name string) (*report.Format, error) {
	for _, f := range formats.All {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("--format %q: want one of %s", name, formatNames())
}

func formatNames() string {
	names := make([]string, len(formats.All))
	for i, f := range formats.All {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}
