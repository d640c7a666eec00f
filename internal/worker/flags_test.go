package worker

import (
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/load/protocols"
)

// TestBounds: every number of every command has a limit, beyond which it is refused at once and
// in one line.
func TestBounds(t *testing.T) {
	for _, c := range All {
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.Flags(flags)
		flags.VisitAll(func(f *flag.Flag) {
			if g, ok := f.Value.(flag.Getter); ok {
				if _, plain := g.Get().(int); plain {
					t.Errorf("%s -%s: the number has no bounds", c.Name, f.Name)
				}
			}
			if _, ok := f.Value.(*bounded); !ok {
				return
			}
			for _, v := range []string{"-1", "1000000001", "99999999999999999999"} {
				out, errs, code := command(t.Context(), c.Name, "-"+f.Name, v)
				if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "-"+f.Name) || !strings.Contains(errs, "want a whole number from") {
					t.Errorf("%s -%s %s: status %d, %q, %q", c.Name, f.Name, v, code, out, errs)
				}
			}
			if _, errs, code := command(t.Context(), c.Name, "-"+f.Name, "many"); code != exitUsage {
				t.Errorf("%s -%s many: status %d, %q", c.Name, f.Name, code, errs)
			}
		})
	}
}

// TestLoadHelp: the help names the protocols that take a flag, and no others.
func TestLoadHelp(t *testing.T) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	loadCommand.Flags(flags)
	commands := map[string]string{"mongodb": "find a.b key:{key}", "postgres": "SELECT {key}"}
	for _, p := range protocols.All {
		whole := load.Ask{Host: "localhost", Path: "/", Command: commands[p.Name], Keys: 1, Bytes: 1}
		if whole.Command == "" {
			whole.Command = "get key:{key}"
		}
		d, err := p.Open(whole)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		takes := func(change func(*load.Ask)) bool {
			ask := whole
			change(&ask)
			_, err := p.Open(ask)
			return err != nil
		}
		_, fills := d.(load.Populator)
		for name, want := range map[string]bool{
			"path":       takes(func(a *load.Ask) { a.Path = "" }),
			"command":    takes(func(a *load.Ask) { a.Command = "" }),
			"keys":       takes(func(a *load.Ask) { a.Keys = 0 }),
			"value-size": takes(func(a *load.Ask) { a.Bytes = 0 }),
			"populate":   fills,
		} {
			usage := flags.Lookup(name).Usage
			if got := regexp.MustCompile(`[(, ]` + p.Name + `[,)]`).MatchString(usage); got != want {
				t.Errorf("-%s: the help is %q; that %s takes it is %v", name, usage, p.Name, want)
			}
		}
	}
}

// TestFileNames: command NAME is in the file NAME.go, dashes as underscores.
func TestFileNames(t *testing.T) {
	for _, m := range All {
		file := strings.ReplaceAll(m.Name, "-", "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: want its file to be called %s", m.Name, file)
		}
	}
}
