package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var missingMetric = Rule{
	ID:     "missing-metric",
	Doc:    "An arm has no usable value of the primary metric, or the metric has no direction. What is missing is never 0 and never fine.",
	Effect: "invalid",
	Help:   "look at the runs' missing_reason and raw output; name another primary metric if the workload does not give this one",
	check: func(p *pass) {
		name := p.e.Design.Primary
		if d := p.primary(); better(d) == 0 {
			p.say(refuse, scope{}, nil, "the primary metric %q is not declared with a direction, so nothing can be worse or better", name)
			return
		}
		for _, k := range p.contests {
			for _, arm := range []string{k.base.ID, k.treat.ID} {
				got, why, odd := 0, "there are no runs", math.NaN()
				for _, r := range p.runs(k.cas.ID, arm) {
					m := r.Metric(name)
					switch {
					case m == nil || m.Value == nil:
						why = reason(r, m)
					case !(*m.Value > 0):
						odd = *m.Value
					default:
						got++
					}
				}
				if !math.IsNaN(odd) {
					p.say(withdraw, k.scope().of(name), values{"value": odd}, "%s of %s in %s is %g: a ratio needs values above 0", name, k.cas.ID, arm, odd)
				}
				if got == 0 && math.IsNaN(odd) {
					p.say(refuse, k.scope(), nil, "no run of %s in %s has %s: %s", k.cas.ID, arm, name, why)
				}
			}
		}
	},
}

// reason says why a run has no value.
func reason(r *result.Run, m *result.Metric) string {
	switch {
	case r.Status == result.Failed && r.Reason != "":
		return r.Reason
	case m != nil && m.Reason != "":
		return m.Reason
	case r.Missing["metrics"] != "":
		return r.Missing["metrics"]
	}
	return noReason
}

var differentJob = Rule{
	ID:     "different-job",
	Doc:    "The arms did not do the same work: the digests of their outputs differ (answers, proof or token counts, bytes).",
	Effect: "invalid, without a ratio; a note where the workload gives no digest",
	Help:   "use the same program version, parameters and data in all arms, and look at the raw outputs of two runs side by side",
	check: func(p *pass) {
		for _, k := range p.contests {
			base, bare := digests(k, true)
			treat, blank := digests(k, false)
			switch {
			case len(base) > 1 || len(treat) > 1:
				p.say(withdraw, k.scope(), nil, "runs of one arm did different work in %s: %s", k.cas.ID, firstOf(append(base, treat...)))
			case len(base) == 1 && len(treat) == 1 && base[0] != treat[0] && p.e.Workload.OutputPerArm:
				p.unknown(k.scope(), "whether the arms did the same work in %s: this workload's output differs between versions of its tool", k.cas.ID)
			case len(base) == 1 && len(treat) == 1 && base[0] != treat[0]:
				p.say(withdraw, k.scope(), nil, "the arms did different work in %s: %s gave %s, %s gave %s", k.cas.ID, k.base.ID, shortened(base[0]), k.treat.ID, shortened(treat[0]))
			case bare+blank > 0: // last: a run without one does not make the others equal
				runs := 2 * len(k.duos)
				if k.unpaired {
					runs = len(k.duos)
				}
				p.unknown(k.scope(), "%d of %d runs of %s have no digest of their output, so whether the same work was done is not known", bare+blank, runs, k.cas.ID)
			}
		}
	},
}

// firstOf is a list of digests, cut to what a reader compares.
func firstOf(digests []string) string {
	const few = 3
	var out []string
	for _, d := range digests[:min(few, len(digests))] {
		out = append(out, shortened(d))
	}
	if n := len(digests) - few; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// shortened is enough of a hash to tell it from another, the runs have it whole;
// other digests are words.
func shortened(digest string) string {
	const enough = len("sha256:") + 12
	if strings.HasPrefix(digest, "sha256:") {
		return digest[:min(enough, len(digest))]
	}
	return digest
}

// digests of an arm's outputs, each once, and how many runs have none.
func digests(k *contest, base bool) (seen []string, without int) {
	for _, d := range k.duos {
		r := d.treat
		if base {
			r = d.base
		}
		switch {
		case r == nil || r.Status == result.Failed:
		case r.OutputDigest == "":
			without++
		case !slices.Contains(seen, r.OutputDigest):
			seen = append(seen, r.OutputDigest)
		}
	}
	return seen, without
}

var severalDimensions = Rule{
	ID:     "several-dimensions",
	Doc:    "The arms differ in more than what is declared to be compared, so the ratio has more than one possible cause. The differing fields are listed.",
	Effect: "invalid where one parameter is declared the subject and the environment differs too; a warning where environments are compared",
	Help:   "make the arms equal in what is not compared, or add a rung that changes one thing at a time",
	check: func(p *pass) {
		if p.e.Design.Subject != "environment" && strings.Contains(p.e.Design.Subject, "+") {
			p.say(warn, scope{}, nil, "the arms are declared to differ in more than one thing: %s", p.e.Design.Subject)
		}
		for _, k := range p.contests {
			if p.o.Diff == nil {
				p.unknown(k.arms(), "the environments of %s and %s were not compared", k.base.ID, k.treat.ID)
				continue
			}
			for _, e := range []*result.Environment{k.base, k.treat} {
				if fields := blind(e); len(fields) > 0 {
					if n := len(fields) - 5; n > 0 {
						fields = append(fields[:5], fmt.Sprintf("%d more fields", n))
					}
					p.unknown(scope{arm: e.ID}, "whether %s differs in %s: not read there", e.ID, strings.Join(fields, ", "))
				}
			}
			dims := beside(p.e.Design.Subject, k.changed)
			if len(dims) == 0 {
				continue
			}
			e := warn
			if !strings.Contains(p.e.Design.Subject, "environment") && p.e.Design.Kind != result.Unpaired {
				e = refuse
			}
			p.say(e, k.arms(), values{"dimensions": float64(len(dims))}, "%s and %s also differ in %s", k.base.ID, k.treat.ID, list(dims, k.changed))
		}
	},
}

// blind lists the fields of an environment that could not be read, of those that
// would be compared.
func blind(e *result.Environment) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(e.Missing)) {
		if dimension(path) != "" {
			out = append(out, path)
		}
	}
	return out
}

// dimensions groups the fields of an environment into what one would call one
// thing. The longest prefix wins; what is not there is a dimension of its own.
var dimensions = map[string]string{
	"env_id": "", "role": "", "fingerprint": "", "fingerprint_class": "", "missing": "", "open_seconds": "", "null_run_seconds": "",
	"changed_during_experiment": "",
	"launcher":                  "environment", "params": "environment", "tee": "environment", "software.hypervisor": "environment",
	"digests": "program", "software.worker": "program",
	"hardware": "processor", "hardware.memory_bytes": "memory", "hardware.swap_bytes": "memory", "hardware.transparent_hugepage": "memory",
	"hardware.disks": "disks", "hardware.nics": "network", "hardware.gpus": "GPU", "hardware.host_id": "host",
	"software": "system", "software.kernel": "kernel", "software.cmdline": "kernel", "software.clock_source": "clock source",
	"software.limits": "limits", "software.page_cache_policy": "page cache", "software.encryption": "encryption",
}

// dimension of a field of an environment, by its JSON path.
func dimension(field string) string {
	if name, ok := strings.CutPrefix(field, "subject."); ok {
		return name
	}
	for at := field; ; {
		if d, ok := dimensions[at]; ok {
			return d
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			return at
		}
		at = at[:cut]
	}
}

// beside are the dimensions in which arms differ although they are not the subject.
func beside(subject string, changed []result.Difference) []string {
	subjects := strings.Split(subject, "+")
	var out []string
	for _, c := range changed {
		d := dimension(c.Field)
		own := slices.Contains(subjects, d) || d == "program" && subject != "environment" && subject != ""
		if d != "" && !own && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// list names dimensions with the fields behind them, at most three of each.
func list(dims []string, changed []result.Difference) string {
	var out []string
	for _, d := range dims {
		var fields []string
		for _, c := range changed {
			if dimension(c.Field) == d {
				fields = append(fields, fmt.Sprintf("%s %s / %s", c.Field, quoted(c.Baseline), quoted(c.Treatment)))
			}
		}
		if n := len(fields) - 3; n > 0 {
			fields = append(fields[:3], fmt.Sprintf("%d more", n))
		}
		out = append(out, d+" ("+strings.Join(fields, ", ")+")")
	}
	return strings.Join(out, "; ")
}

// quoted shows an empty value and cuts a long one.
func quoted(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "..."
	}
	if s == "" || strings.ContainsAny(s, " /") {
		return strconv.Quote(s)
	}
	return s
}

var changedMeanwhile = Rule{
	ID:     "changed-meanwhile",
	Doc:    "An environment was not at the end what it was at the start, so the runs are not of one thing.",
	Effect: "invalid",
	Help:   "find out what changed it (an update, a policy of the host, a migration) and run again",
	check: func(p *pass) {
		for _, e := range p.e.Environments {
			for _, field := range slices.Sorted(maps.Keys(e.Changed)) {
				p.say(refuse, scope{arm: e.ID}, nil, "%s changed during the experiment: %s was %s", e.ID, field, e.Changed[field])
			}
		}
	},
}

var specValue = Rule{
	ID:     "spec-value",
	Doc:    "A value is a vendor's specification or from literature, not measured here. Such values stand beside measurements and are compared with nothing.",
	Effect: "invalid, without a ratio",
	Help:   "measure it, or list it under references",
	check: func(p *pass) {
		type kind struct {
			scope
			source result.Provenance
		}
		seen := map[kind]int{}
		var order []kind
		var example []float64
		for i := range p.e.Runs {
			r := &p.e.Runs[i]
			for _, m := range r.Metrics {
				if m.Value == nil || m.Source == result.Measured || m.Source == result.Derived {
					continue
				}
				k := kind{scope{cas: r.Case, arm: r.Env, metric: m.Name}, m.Source}
				if seen[k]++; seen[k] == 1 {
					order, example = append(order, k), append(example, *m.Value)
				}
			}
		}
		for i, k := range order {
			what := fmt.Sprintf("%s of %s in %s (%.4g, in %s)", k.metric, k.cas, k.arm, example[i], counted(seen[k], "run"))
			v := values{"value": example[i], "runs": float64(seen[k])}
			if k.source == "" {
				p.say(withdraw, k.scope, v, "%s does not say where it comes from", what)
				continue
			}
			p.say(withdraw, k.scope, v, "%s is offered as a measurement, but it is from %s", what, k.source)
		}
	},
}

var suspectBaseline = Rule{
	ID:     "suspect-baseline",
	Doc:    "The efficiency of scaling is above 105 %: more than linear, which says that the value with the fewest processors is an outlier. The absolute ratio to the baseline stands beside it.",
	Effect: "inconclusive for the case with the fewest processors, a warning for the others",
	Help:   "measure the smallest case again with more pairs and a fixed clock rate; report absolute ratios, not efficiency",
	check: func(p *pass) {
		d := p.primary()
		if better(d) == 0 {
			return
		}
		for _, env := range p.e.Environments {
			for _, ladder := range p.sweeps(p.o.Scaling) {
				first := ladder[0]
				one := p.median(first.cas, env.ID, d.Name)
				for _, s := range ladder[1:] {
					many := p.median(s.cas, env.ID, d.Name)
					speedup := many / one
					if better(d) < 0 {
						speedup = one / many
					}
					efficiency := speedup / (s.x / first.x)
					if !(efficiency > superlinearly) { // NaN has its own rule: missing-metric
						continue
					}
					absolute := ""
					b := p.e.Environments[0].ID
					r1, rN := one/p.median(first.cas, b, d.Name), many/p.median(s.cas, b, d.Name)
					if b != env.ID && !math.IsNaN(r1+rN) {
						absolute = fmt.Sprintf("; against %s it is %.0f %% at %s=%g and %.0f %% at %g", b, 100*r1, s.name, first.x, 100*rN, s.x)
					}
					sc := scope{arm: env.ID}
					v := values{"speedup": speedup, "efficiency": efficiency}
					format := "%s: %s=%g gives %.2f times %s=%g, an efficiency of %.0f %%: the value at %g is the suspect%s"
					args := []any{env.ID, s.name, s.x, speedup, s.name, first.x, 100 * efficiency, first.x, absolute}
					p.say(doubt, sc.in(first.cas.ID), v, format, args...)
					p.say(warn, sc.in(s.cas.ID), v, format, args...)
				}
			}
		}
	},
}

var linearity = Rule{
	ID:     "linearity",
	Doc:    "More work does not take more time in proportion (within 20 %), so a fixed cost was measured and not the work.",
	Effect: "invalid where ten times the work takes hardly longer; otherwise a warning, as for a rate over less than a second without a second amount of work",
	Help:   "make the smallest job at least a second long, keep set-up out of the timed part, and report start-up as a metric of its own",
	check: func(p *pass) {
		d := p.primary()
		if better(d) == 0 {
			return
		}
		rate := strings.HasSuffix(d.Unit, "_per_second") || strings.HasSuffix(d.Name, "_per_second")
		sweeps := p.sweeps(p.o.Work)
		for _, env := range p.e.Environments {
			for _, sweep := range sweeps {
				for i := 1; i < len(sweep); i++ {
					p.grows(&env, d, rate, sweep[i-1], sweep[i])
				}
			}
			if !rate || len(sweeps) > 0 {
				continue
			}
			for i := range p.e.Cases {
				c := &p.e.Cases[i]
				if t := p.seconds(c, env.ID); t < 1 {
					p.say(warn, scope{cas: c.ID, arm: env.ID}, values{"seconds": t}, "%s of %s in %s is a rate over runs of %.3g s: a fixed cost may be most of it", d.Name, c.ID, env.ID, t)
				}
			}
		}
	},
}

// grows checks that the time of a run grows with its work.
func (p *pass) grows(env *result.Environment, d *result.MetricDesc, rate bool, a, b step) {
	work := b.x / a.x
	va, vb := p.median(a.cas, env.ID, d.Name), p.median(b.cas, env.ID, d.Name)
	var growth float64
	switch wall := p.seconds(b.cas, env.ID) / p.seconds(a.cas, env.ID); {
	case rate:
		growth = (b.x / vb) / (a.x / va)
	case d.Unit == "seconds": // of the whole work, or of one operation; the run's own time tells which
		growth = math.Max(vb/va, wall)
	default:
		growth = wall
	}
	s := scope{cas: b.cas.ID, arm: env.ID}
	switch {
	case math.IsNaN(growth):
		p.unknown(s, "whether the time of %s grows with %s=%g and %g in %s: a value is missing", d.Name, a.name, a.x, b.x, env.ID)
		return
	case math.Abs(growth/work-1) <= 0.2:
		return
	}
	e := warn
	if growth-1 < 0.2*(work-1) {
		e = refuse
	}
	for _, c := range []*result.Case{a.cas, b.cas} {
		p.say(e, s.in(c.ID), values{"work": work, "time": growth}, "%s: %.3g times the work (%s=%g to %g) takes %.3g times the time", env.ID, work, a.name, a.x, b.x, growth)
	}
}

// step is a case of a sweep over one numeric parameter.
type step struct {
	name string
	x    float64
	cas  *result.Case
}

// sweeps groups the cases that differ in one of these parameters alone, in the
// order of its value; groups of one are left out.
func (p *pass) sweeps(names []string) [][]step {
	groups := map[string][]step{}
	for i := range p.e.Cases {
		c := &p.e.Cases[i]
		for _, name := range names {
			x, err := strconv.ParseFloat(c.Params[name], 64)
			if err != nil || !(x > 0) {
				continue
			}
			rest := maps.Clone(c.Params)
			delete(rest, name)
			key := name + fmt.Sprint(rest) // fmt prints maps sorted by key
			groups[key] = append(groups[key], step{name, x, c})
		}
	}
	var out [][]step
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		slices.SortFunc(g, func(a, b step) int { return int(math.Copysign(1, a.x-b.x)) })
		if len(g) > 1 {
			out = append(out, g)
		}
	}
	return out
}

// median of a metric over the usable runs of a case in an arm, NaN without any.
func (p *pass) median(c *result.Case, env, metric string) float64 {
	var x []float64
	for _, r := range p.runs(c.ID, env) {
		if v, ok := value(r, metric); ok {
			x = append(x, v)
		}
	}
	return stats.Median(x)
}

// seconds is the median wall time of a case's runs in an arm, NaN without any.
func (p *pass) seconds(c *result.Case, env string) float64 {
	var x []float64
	for _, r := range p.runs(c.ID, env) {
		if r.Status != result.Failed && r.Seconds > 0 {
			x = append(x, r.Seconds)
		}
	}
	return stats.Median(x)
}
