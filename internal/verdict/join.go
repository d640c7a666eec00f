package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// JobError reports that results are of different jobs, and the fields that differ.
type JobError struct {
	A, B   string // names of the experiments
	Fields []result.Difference
}

// Error lists the fields.
func (e *JobError) Error() string {
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, fmt.Sprintf("%s is %q and %q", f.Field, f.Baseline, f.Treatment))
	}
	return fmt.Sprintf("%s and %s are different jobs and cannot be compared: %s", e.A, e.B, strings.Join(fields, "; "))
}

// JoinResults joins separate results into one unpaired document with its conclusions. The first environment of the first
// result is the baseline of all others. Cases that some results lack are left out, with a guard that names them. It
// fails with a *JobError if the jobs differ; a changed subject (another binary) is not another job. The arguments are
// not changed.
func JoinResults(es []*result.Experiment, o Options) (*result.Experiment, error) {
	if len(es) < 2 {
		return nil, errors.New("compare: give at least two results")
	}
	first := es[0]
	es = slices.Clone(es)
	for i, e := range es[1:] {
		es[i+1] = alike(first, e)
	}
	var shared []result.Case
	var uncommon []string
	for i := range first.Cases {
		c := &first.Cases[i]
		common := true
		for _, e := range es[1:] {
			other := findCase(e, c.ID)
			if fields := jobs(first, e, c, other); len(fields) > 0 {
				return nil, &JobError{name(first), name(e), fields}
			}
			common = common && other != nil
		}
		if common {
			shared = append(shared, *c)
		} else {
			uncommon = append(uncommon, c.ID)
		}
	}
	for _, e := range es[1:] {
		for _, c := range e.Cases {
			if findCase(first, c.ID) == nil && !slices.Contains(uncommon, c.ID) {
				uncommon = append(uncommon, c.ID)
			}
		}
	}
	if len(shared) == 0 {
		return nil, fmt.Errorf("compare %s with %s: the results have no case in common (%s)", name(first), name(es[1]), strings.Join(uncommon, ", "))
	}
	doc := merged(es, shared)
	if len(uncommon) > 0 {
		doc.Guards = append(doc.Guards, result.Guard{ID: "uncommon-cases", Level: result.Note,
			Message: "these cases are left out because not all results have them: " + strings.Join(uncommon, ", "),
			Help:    "run the same sweep in all"})
	}
	Conclude(doc, o)
	return doc, nil
}

// alike is a result with the names that another has for the same jobs: a case of a sweep there may be the only one here.
// It returns e itself if it has none.
func alike(first, e *result.Experiment) *result.Experiment {
	called := map[string]string{}
	for _, c := range e.Cases {
		for _, x := range first.Cases {
			if x.Identity == c.Identity && c.Identity != "" && x.ID != c.ID && findCase(e, x.ID) == nil {
				called[c.ID] = x.ID
			}
		}
	}
	if len(called) == 0 {
		return e
	}
	out := *e
	out.Cases, out.Runs, out.Comparisons = slices.Clone(e.Cases), slices.Clone(e.Runs), slices.Clone(e.Comparisons)
	for i := range out.Cases {
		c := &out.Cases[i]
		c.ID = cmp.Or(called[c.ID], c.ID)
	}
	for i := range out.Runs {
		r := &out.Runs[i]
		r.Case = cmp.Or(called[r.Case], r.Case)
	}
	for i := range out.Comparisons {
		c := &out.Comparisons[i]
		c.Case = cmp.Or(called[c.Case], c.Case)
	}
	return &out
}

func name(e *result.Experiment) string { return cmp.Or(e.Name, e.ID, "a result") }

func findCase(e *result.Experiment, id string) *result.Case {
	for i := range e.Cases {
		if e.Cases[i].ID == id {
			return &e.Cases[i]
		}
	}
	return nil
}

// jobs lists the differences between the jobs of two results: the workload, the primary metric and, for a case that
// both have, its parameters and data.
func jobs(a, b *result.Experiment, ca, cb *result.Case) []result.Difference {
	var out []result.Difference
	differ := func(field, x, y string) {
		if x != y {
			out = append(out, result.Difference{Field: field, Baseline: x, Treatment: y})
		}
	}
	differ("workload.name", a.Workload.Name, b.Workload.Name)
	differ("workload.version", strconv.Itoa(a.Workload.Version), strconv.Itoa(b.Workload.Version))
	differ("design.primary_metric", a.Design.Primary, b.Design.Primary)
	if cb == nil || ca.Identity == cb.Identity && ca.Identity != "" {
		return out
	}
	names := slices.Collect(maps.Keys(ca.Params))
	for k := range cb.Params {
		if _, ok := ca.Params[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		differ("params."+k, ca.Params[k], cb.Params[k])
	}
	differ("data_digest", ca.DataDigest, cb.DataDigest)
	if len(out) == 0 { // the remaining parts of a job: files of the workload, or no identity at all
		out = append(out, result.Difference{Field: "identity", Baseline: ca.Identity, Treatment: cb.Identity})
	}
	return out
}

// merged returns one document for several, without conclusions.
func merged(es []*result.Experiment, cases []result.Case) *result.Experiment {
	first := es[0]
	doc := &result.Experiment{SchemaVersion: result.SchemaVersion, ID: first.ID, Tool: first.Tool, Workload: first.Workload, Cases: cases,
		StartedAt: first.StartedAt, EndedAt: first.EndedAt, Design: first.Design}
	doc.Design.Kind, doc.Design.Order, doc.Design.Calibration, doc.Design.Then, doc.Design.LeftOut = result.Unpaired, nil, false, nil, nil
	doc.Design.Ceilings = nil
	labels := map[string]int{}
	var names, ids []string
	for _, e := range es {
		names, ids = append(names, name(e)), append(ids, e.ID)
		for _, env := range e.Environments {
			labels[env.ID]++
		}
		if e.StartedAt.Before(doc.StartedAt) {
			doc.StartedAt = e.StartedAt
		}
		if e.EndedAt == nil {
			doc.EndedAt = nil // one is unfinished, so this is
		} else if doc.EndedAt != nil && e.EndedAt.After(*doc.EndedAt) {
			doc.EndedAt = e.EndedAt
		}
		doc.References = append(doc.References, e.References...)
	}
	doc.Name = strings.Join(names, " / ")
	doc.ID = strings.Join(ids, "_")
	taken := map[string]bool{}
	named := map[string]int{}
	for _, e := range es {
		renamed := map[string]string{}
		own := name(e)
		if named[own]++; named[own] > 1 {
			own = fmt.Sprintf("%s#%d", own, named[own])
		}
		for _, env := range e.Environments {
			label := env.ID
			if labels[label] > 1 {
				label = name(e) + "/" + label
			}
			for n := 2; taken[label]; n++ {
				label = fmt.Sprintf("%s/%s#%d", name(e), env.ID, n)
			}
			taken[label], renamed[env.ID] = true, label
			env.Joined = &result.Joined{ID: e.ID, Name: own, Env: env.ID, Kind: e.Design.Kind}
			for _, c := range e.Comparisons {
				if c.Treatment == env.ID {
					env.Joined.Own = append(env.Joined.Own, c)
				}
			}
			env.ID, env.Role = label, result.Treatment
			if len(doc.Environments) == 0 {
				env.Role = result.Baseline
			}
			doc.Environments = append(doc.Environments, env)
		}
		for _, c := range e.Design.Ceilings { // each applies to the arms of its own result
			for _, env := range e.Environments {
				if c.Env == "" || c.Env == env.ID {
					of := c
					of.Env = renamed[env.ID]
					doc.Design.Ceilings = append(doc.Design.Ceilings, of)
				}
			}
		}
		for _, r := range e.Runs {
			if !slices.ContainsFunc(cases, func(c result.Case) bool { return c.ID == r.Case }) {
				continue
			}
			label := renamed[r.Env]
			r.ID, r.Env, r.Raw = label+":"+r.ID, label, nil // the raw files stay with their own document
			doc.Runs = append(doc.Runs, r)
		}
		doc.Design.PairsPlanned = min(doc.Design.PairsPlanned, e.Design.PairsPlanned)
	}
	doc.Design.Subject = subject(doc.Environments)
	return doc
}

// subject names the declared difference between the arms of separate results: subject parameters, the environment, or
// the program behind equal names.
func subject(envs []result.Environment) string {
	var names []string
	add := func(n string) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	first := &envs[0]
	for i := range envs {
		e := &envs[i]
		for k, v := range e.Subject {
			if first.Subject[k] != v {
				add(k)
			}
		}
		if e.Launcher != first.Launcher || !maps.Equal(e.Params, first.Params) {
			add("environment")
		}
	}
	if len(names) == 0 {
		return "program"
	}
	slices.Sort(names)
	return strings.Join(names, "+")
}
