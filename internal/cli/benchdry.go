//go:build linux

package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// dryRun prints what would run and starts nothing.
func dryRun(w io.Writer, h *host.Host, plans []*bench.Plan, all bool) error {
	var total time.Duration
	var whys []error
	of := map[string][]string{}
	for _, p := range plans {
		took, disk := p.Estimate()
		total += took
		fmt.Fprintf(w, "%s: %s: workload %s, %s x %s x %s = %s, %s of disk\n",
			p.Name, lengthOf(p), p.Workload.Name, metric.Plural(len(p.Cases), "case"), metric.Plural(len(p.Arms), "environment"), metric.Plural(p.Pairs, "pair"),
			metric.Plural(len(p.Cases)*len(p.Arms)*p.Pairs, "run"), metric.Value(float64(disk), "bytes"))
		fmt.Fprintf(w, "  seed %d, verdict on %s with a margin of %s\n", p.Seed, p.Primary, metric.Percent(p.Margin))
		if why := tooFew(p); why != "" {
			fmt.Fprintf(w, "  %s\n", why)
		}
		for _, c := range p.Cases {
			fmt.Fprintf(w, "  case %s\n", c.ID)
		}
		printThen(w, p)
		lacking := p.Lacking(h)
		for i := range p.Arms {
			a := &p.Arms[i]
			foreseen, standIn := a.Foreseen(h)
			if standIn != "" {
				fmt.Fprintf(w, "  stand-in: environment %s (%s) %s: its numbers will not be called a cost\n", a.Label, a.Launcher.Name, standIn)
			} else {
				fmt.Fprintf(w, "  environment %s (%s)\n", a.Label, a.Launcher.Name)
			}
			left := slices.IndexFunc(lacking, func(x result.LeftOut) bool { return x.Env == a.Label })
			if left >= 0 {
				fmt.Fprintf(w, "    cannot run here: %s\n", contain.OneLine(errors.New(lacking[left].Why)))
			}
			commands, err := p.Commands(&foreseen, &p.Cases[0])
			switch {
			case err != nil && left >= 0: // as where it lacks a parameter
				continue
			case err != nil:
				return fmt.Errorf("%s: environment %s: %w", p.Name, a.Label, err)
			}
			for _, c := range commands {
				fmt.Fprintf(w, "    %s\n", shellLine(c))
			}
		}
		if _, err := available(p, h, all); err != nil {
			if of[err.Error()] == nil {
				whys = append(whys, err)
			}
			of[err.Error()] = append(of[err.Error()], p.Name)
		}
	}
	if len(plans) > 1 {
		fmt.Fprintf(w, "total: about %s plus launching\n", round(total))
	}
	var errs []error
	for _, why := range whys { // parts of one workload lack the same
		errs = append(errs, fmt.Errorf("%s cannot run here: %w", strings.Join(of[why.Error()], ", "), why))
	}
	return errors.Join(errs...)
}

// lengthOf says how long a plan takes, and how long with all its spare pairs.
func lengthOf(p *bench.Plan) string {
	took, _ := p.Estimate()
	if more := p.Spared(); more > 0 {
		return fmt.Sprintf("about %s plus launching (%s with %s, which replace lost pairs)", round(took), round(took+more), metric.Plural(p.Spare, "spare pair"))
	}
	return fmt.Sprintf("about %s plus launching", round(took))
}

// tooFew returns why a plan cannot give a verdict, "" if it can.
func tooFew(p *bench.Plan) string {
	if len(p.Arms) < 2 || p.Pairs >= bench.QuickPairs {
		return ""
	}
	return fmt.Sprintf("%d pairs give ratios but no verdict: an interval needs at least %d pairs (--quick)", p.Pairs, bench.QuickPairs)
}

// shellLine is a command in a shell's notation.
func shellLine(c host.Cmd) string {
	var b strings.Builder
	if c.Dir != "" {
		fmt.Fprintf(&b, "cd %s && ", quoted(c.Dir))
	}
	names := make([]string, 0, len(c.Env))
	for k := range c.Env {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		fmt.Fprintf(&b, "%s=%s ", k, quoted(c.Env[k]))
	}
	for i, a := range c.Argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == 0 && strings.Contains(a, "=") { // else an assignment
			a = host.Quote(a)
		} else {
			a = quoted(a)
		}
		b.WriteString(a)
	}
	return b.String()
}

// quoted is a word of a command line, in quotes only where a shell needs them. A placeholder like {work} needs none, but {a,b} and
// {1..3} are expanded (bash(1), Brace Expansion).
func quoted(s string) string {
	expands := strings.Contains(s, "{") && (strings.Contains(s, ",") || strings.Contains(s, ".."))
	if s != "" && !expands && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-{}") == "" {
		return s
	}
	return host.Quote(s)
}
