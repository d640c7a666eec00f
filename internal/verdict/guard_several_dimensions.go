package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

var severalDimensions = Guard{
	ID:     "several-dimensions",
	Doc:    "The arms differ in more than the declared subject, so the ratio has several possible causes. The guard's message lists the fields that differ.",
	Effect: "invalid if the arms should differ only in parameters and the environments differ too; a warning if the environments are the subject, or the arms are unpaired",
	Help:   "make the arms equal in everything else, or add intermediate environments that each change only one thing",
	check: func(p *guardRun) {
		if p.e.Design.Subject != "environment" && strings.Contains(p.e.Design.Subject, "+") {
			p.report(warn, scope{}, nil, "the arms are declared to differ in more than one thing: %s", p.e.Design.Subject)
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
					p.unknown(scope{arm: e.ID}, "whether %s differs in %s: these fields were not read there", e.ID, strings.Join(fields, ", "))
				}
			}
			dims := otherDimensions(p.e.Design.Subject, k.changed)
			if len(dims) == 0 {
				continue
			}
			e := warn
			if !strings.Contains(p.e.Design.Subject, "environment") && p.e.Design.Kind != result.Unpaired {
				e = refuse
			}
			p.report(e, k.arms(), values{"dimensions": float64(len(dims))}, "%s and %s also differ in %s", k.base.ID, k.treat.ID, list(dims, k.changed))
		}
	},
}

// blind lists the compared fields of an environment that could not be read.
func blind(e *result.Environment) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(e.Missing)) {
		if dimension(path) != "" {
			out = append(out, path)
		}
	}
	return out
}

// dimensions maps prefixes of environment fields to dimensions. The longest prefix wins; a field without one is a
// dimension of its own.
var dimensions = map[string]string{
	"env_id": "", "role": "", "fingerprint": "", "fingerprint_class": "", "missing": "", "open_seconds": "", "null_run_seconds": "",
	"changed_during_experiment": "",
	"launcher":                  "environment", "params": "environment", "tee": "environment", "software.hypervisor": "environment", "software.versions": "environment",
	"digests": "program", "software.worker": "program",
	"hardware": "processor", "hardware.memory_bytes": "memory", "hardware.swap_bytes": "memory", "hardware.transparent_hugepage": "memory",
	"hardware.disks": "disks", "hardware.nics": "network", "network": "network", "hardware.gpus": "GPU", "hardware.host_id": "host",
	"software": "system", "software.kernel": "kernel", "software.cmdline": "kernel", "software.clock_source": "clock source",
	"software.limits": "limits", "software.limits.container": "environment", "software.limits.pids": "environment", "software.page_cache_policy": "page cache", "software.encryption": "encryption",
}

// dimension returns the dimension of a field of an environment, given by its JSON path.
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

// otherDimensions returns the dimensions, other than the subject, in which arms differ.
func otherDimensions(subject string, changed []result.Difference) []string {
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

// list names dimensions with their fields, at most three of each.
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
