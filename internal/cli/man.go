package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
)

// manCommand writes the man pages of all commands, which packages contain. It is hidden: who has the packages has the pages.
func manCommand(root *cobra.Command) *cobra.Command {
	var dir, date string
	c := &cobra.Command{
		Use:    "man",
		Short:  "Write the man pages of all commands",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			for name, text := range manPages(root, date) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					return fmt.Errorf("write man pages: %w", err)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "out", ".", "folder for the pages")
	c.Flags().StringVar(&date, "date", "", "date of the pages, as 2026-11-30")
	return c
}

// manPages returns the page of a command and those of the commands below it, by file name.
func manPages(c *cobra.Command, date string) map[string]string {
	name := manName(c)
	all := map[string]string{name + ".1": manPage(c, date)}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			for name, text := range manPages(below, date) {
				all[name] = text
			}
		}
	}
	return all
}

// manName is the name of a command's page, as teescope-bench-run.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes what --help says in the language of man pages (man(7)).
func manPage(c *cobra.Command, date string) string {
	var b strings.Builder
	c.InitDefaultHelpFlag()
	if data := c.Flags().Lookup("data"); data != nil && data.DefValue == dataDir() { // which depends on the user
		data.DefValue = "/var/lib/teescope for root, ~/.local/share/teescope for others"
	}
	fmt.Fprintf(&b, ".TH %s 1 %q %q teescope\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(manName(c))), date, "teescope "+build.Version(), roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") { // a table or commands: its lines stay
			asItIs(&b, paragraph)
			continue
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	if flags := c.LocalFlags().FlagUsagesWrapped(76); flags != "" {
		b.WriteString(".SH OPTIONS\n")
		asItIs(&b, flags)
	}
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		asItIs(&b, c.Example)
	}
	var below []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			below = append(below, fmt.Sprintf(".TP\n.BR %s (1)\n%s\n", roff(manName(sub)), roff(sub.Short)))
		}
	}
	if len(below) > 0 {
		b.WriteString(".SH COMMANDS\n" + strings.Join(below, ""))
	}
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(c.Parent())))
	}
	return b.String()
}

// asItIs adds text whose lines and spaces stay.
func asItIs(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(strings.Trim(text, "\n")))
}

// roff escapes text: a backslash, signs that are to be copied (others would be shown in their place: groff_char(7)), and a line that would be a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
