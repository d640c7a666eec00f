package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// A reading is the value of a metric in one run, with the run's place in time.
type reading struct {
	run   *result.Run
	order int // from 0
	value float64
}

// inOrder returns the runs in the order in which they ran.
func inOrder(e *result.Experiment) []*result.Run {
	runs := make([]*result.Run, len(e.Runs))
	for i := range e.Runs {
		runs[i] = &e.Runs[i]
	}
	slices.SortStableFunc(runs, func(a, b *result.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return runs
}

// readings returns the values of a metric in one arm and case; "" is any case. Runs that failed or were excluded are
// in out: they are shown and not counted.
func readings(e *result.Experiment, env, kase, name string) (good, out []reading) {
	for i, r := range inOrder(e) {
		if r.Env != env || kase != "" && r.Case != kase {
			continue
		}
		m := r.Metric(name)
		if m == nil || m.Value == nil || !finite(*m.Value) {
			continue
		}
		if v := (reading{r, i, *m.Value}); r.Status == result.OK {
			good = append(good, v)
		} else {
			out = append(out, v)
		}
	}
	return good, out
}

func values(r []reading) []float64 {
	v := make([]float64, len(r))
	for i := range r {
		v[i] = r[i].value
	}
	return v
}

// median returns the median of the readings, nil without any.
func median(r []reading) *float64 {
	if len(r) == 0 {
		return nil
	}
	m := stats.Median(values(r))
	return &m
}

// Median returns the median of a metric over the counted runs of an arm and case, and their number. A nil median
// comes with the reason.
func Median(e *result.Experiment, env, kase, name string) (m *float64, n int, reason string) {
	good, out := readings(e, env, kase, name)
	if m = median(good); m != nil {
		return m, len(good), ""
	}
	return nil, 0, whyMissing(e, env, kase, name, len(out))
}

// whyMissing returns the reason that the runs themselves give.
func whyMissing(e *result.Experiment, env, kase, name string, excluded int) string {
	runs := 0
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Env != env || kase != "" && r.Case != kase {
			continue
		}
		runs++
		if m := r.Metric(name); m != nil && m.Reason != "" {
			return m.Reason
		}
		if why := r.Missing[name]; why != "" {
			return why
		}
		if r.Status != result.OK && r.Reason != "" {
			return "the run " + string(r.Status) + ": " + r.Reason
		}
	}
	switch {
	case runs == 0:
		return "nothing ran in " + orDefault(env, "an unnamed arm")
	case excluded > 0:
		return "every run was excluded or failed"
	}
	return "no run reports it or says why"
}

// envIndex returns the place of an arm, which determines its colour and shape.
func envIndex(e *result.Experiment, id string) int {
	return slices.IndexFunc(e.Environments, func(x result.Environment) bool { return x.ID == id })
}

// armLook returns the shape and colour of an arm.
func armLook(e *result.Experiment, id string) (shape, ink) {
	i := envIndex(e, id)
	if i < 0 {
		return diamond, rest
	}
	if e.Environments[i].StandIn() != "" {
		return shapes[i%len(shapes)], rest
	}
	return shapes[i%len(shapes)], series(i)
}

// armTitle returns the name of an arm before its numbers, with the word for one that is not the real thing.
func armTitle(v *result.Environment) string {
	if v.StandIn() != "" {
		return "stand-in " + orDefault(v.ID, "unnamed")
	}
	return orDefault(v.ID, "unnamed")
}

// CaseIDs returns the cases of the experiment: the declared ones, and those that only runs name.
func CaseIDs(e *result.Experiment) []string {
	var ids []string
	for i := range e.Cases {
		ids = append(ids, e.Cases[i].ID)
	}
	for i := range e.Runs {
		if !slices.Contains(ids, e.Runs[i].Case) {
			ids = append(ids, e.Runs[i].Case)
		}
	}
	return ids
}

// unitOf returns the unit of a metric, "" when it was not declared.
func unitOf(e *result.Experiment, name string) string {
	if d := e.Desc(name); d != nil {
		return d.Unit
	}
	return ""
}

// primary returns the metric that the experiment is about.
func primary(e *result.Experiment) string {
	if e.Design.Primary != "" {
		return e.Design.Primary
	}
	for i := range e.Comparisons {
		if e.Comparisons[i].Primary {
			return e.Comparisons[i].Metric
		}
	}
	if len(e.Workload.Metrics) > 0 {
		return e.Workload.Metrics[0].Name
	}
	return ""
}

// primaries returns the comparisons that carry a verdict.
func primaries(e *result.Experiment) []*result.Comparison {
	var out []*result.Comparison
	for i := range e.Comparisons {
		if e.Comparisons[i].Primary {
			out = append(out, &e.Comparisons[i])
		}
	}
	return out
}

// counted is a counter in all arms: medians of its runs, per operation where
// the operations are known.
type counted struct {
	counterKey
	per  string // what it is divided by: "operation", "100 requests", "run"
	arms []arm
}

type arm struct {
	value  *float64
	trust  result.Trust
	reason string
}

// portion returns the unit for counters: an operation, or 100 requests of a server, since one request makes few
// faults and switches.
func portion(e *result.Experiment) (per string, times float64) {
	if unitOf(e, e.Workload.Operations) == "requests" {
		return "100 requests", 100
	}
	return "operation", 1
}

// counters returns the counters of a case: those of the workload's processes first, and among these the ones that
// differ most between the first arm and the others.
func counters(e *result.Experiment, kase string) []counted {
	out := tabulate(e, kase, false, func(r *result.Run) []result.Counter { return r.Counters })
	// A count of the whole machine includes other programs.
	slices.SortStableFunc(out, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.scope, a.scope), cmp.Compare(b.moved(), a.moved()))
	})
	return out
}

// tabulate returns the medians of a list of counters of a case's runs, in the order in which the runs name them. A
// part of a total that an arm never names is 0 if none is set, and otherwise unknown.
func tabulate(e *result.Experiment, kase string, none bool, list func(*result.Run) []result.Counter) []counted {
	type cell struct {
		perOp, whole []float64
		trust        result.Trust
		note         string
	}
	var runs []map[counterKey]tally
	var arms []int
	cells := map[counterKey][]cell{}
	var keys []counterKey
	for i := range e.Runs {
		r := &e.Runs[i]
		env := envIndex(e, r.Env)
		if env < 0 || r.Case != kase || r.Status != result.OK {
			continue
		}
		sums, order := tallies(list(r))
		runs, arms = append(runs, sums), append(arms, env)
		for _, k := range order {
			if cells[k] == nil {
				cells[k] = make([]cell, len(e.Environments))
				keys = append(keys, k)
			}
			x := &cells[k][env]
			x.trust, x.note = worse(x.trust, sums[k].trust), orDefault(x.note, sums[k].note)
		}
	}
	for i, sums := range runs {
		for _, k := range keys {
			x := &cells[k][arms[i]]
			t, named := sums[k]
			if !named && k.part && (none || x.trust != "") {
				// The source names only what happened: next to a total, a part that is not named did not happen in
				// this run.
				t = sums[k.total()].none()
			}
			x.perOp, x.whole = append(x.perOp, t.perOp...), append(x.whole, t.whole...)
		}
	}
	var out []counted
	portion, times := portion(e)
	for _, k := range keys {
		row := counted{counterKey: k, per: "run"}
		perOp := slices.ContainsFunc(cells[k], func(x cell) bool { return len(x.perOp) > 0 })
		if perOp {
			row.per = portion
		}
		for _, x := range cells[k] {
			a := arm{trust: x.trust}
			v, scale := x.whole, 1.0
			if perOp {
				v, scale = x.perOp, times
			}
			switch {
			case x.trust == result.None:
				a.reason = orDefault(x.note, "the counter cannot see into this environment")
			case len(v) == 0:
				a.reason = orDefault(x.note, "this counter has no reading in this arm")
			default:
				m := scale * stats.Median(v)
				a.value = &m
			}
			row.arms = append(row.arms, a)
		}
		out = append(out, row)
	}
	return out
}

// counterKey identifies a counter summed over the workload's processes, in words: tee_syscalls_total{syscall="read"}
// has the metric "syscalls" and the kind "read".
type counterKey struct {
	metric, kind, scope string
	part                bool // one part of a total, such as one kind of system call
}

// keyOf returns the key of a counter.
func keyOf(c *result.Counter) counterKey {
	var kind []string
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		if k != "process" && c.Labels[k] != "" {
			kind = append(kind, c.Labels[k])
		}
	}
	return counterKey{metric.Words(strings.TrimSuffix(strings.TrimPrefix(c.Name, "tee_"), "_total")), strings.Join(kind, ", "), c.Scope, len(c.Labels) > 0}
}

// name returns a short name: "syscalls, read".
func (k counterKey) name() string { return strings.TrimSuffix(k.metric+", "+k.kind, ", ") }

// total returns the key of the sum over this counter's kinds.
func (k counterKey) total() counterKey { return counterKey{metric: k.metric, scope: k.scope} }

// tally is a counter in one run; each list has at most one value.
type tally struct {
	perOp, whole []float64
	trust        result.Trust
	note         string
}

// none returns the tally of a part that the source did not name next to the total t: zeros.
func (t tally) none() tally {
	return tally{perOp: make([]float64, len(t.perOp)), whole: make([]float64, len(t.whole))}
}

// tallies sums counters of a run over its processes. It leaves out a series that only repeats the total (one
// process's share of a metric without other labels) if the total is there.
func tallies(counters []result.Counter) (sums map[counterKey]tally, order []counterKey) {
	sums = map[counterKey]tally{}
	add := func(to []float64, v *float64) []float64 {
		switch {
		case v == nil || !finite(*v):
			return to
		case to == nil:
			return []float64{*v}
		}
		return []float64{to[0] + *v}
	}
	for i := range counters {
		c := &counters[i]
		k := keyOf(c)
		t, seen := sums[k]
		if !seen {
			order = append(order, k)
		}
		t.trust, t.note = worse(t.trust, c.Trust), orDefault(t.note, c.Note)
		t.perOp, t.whole = add(t.perOp, c.PerOperation), add(t.whole, c.Value)
		sums[k] = t
	}
	for k := range sums {
		if _, whole := sums[k.total()]; k.part && whole && k.kind == "" {
			delete(sums, k)
		}
	}
	return sums, slices.DeleteFunc(order, func(k counterKey) bool { _, kept := sums[k]; return !kept })
}

// moved returns the largest factor, up or down, between the first arm and another; -1 if it is unknown.
func (c counted) moved() float64 {
	if len(c.arms) == 0 || c.arms[0].value == nil {
		return -1
	}
	base, most := *c.arms[0].value, -1.0
	for _, a := range c.arms[1:] {
		if a.value == nil {
			continue
		}
		f := 1.0
		switch {
		case base > 0 && *a.value > 0:
			f = max(*a.value/base, base / *a.value)
		case base != *a.value:
			f = math.MaxFloat64
		}
		most = max(most, f)
	}
	return most
}

// worse returns the lower of two levels of trust.
func worse(a, b result.Trust) result.Trust {
	rank := []result.Trust{result.None, result.Partial, result.Full}
	if a == "" || slices.Index(rank, b) < slices.Index(rank, a) {
		return b
	}
	return a
}

// tellingCase returns the case with the largest primary cost among those whose verdict stands, stand-ins last, or else the
// first.
func tellingCase(e *result.Experiment) string {
	best, id := math.Inf(-1), ""
	for _, c := range primaries(e) {
		if isStandIn(c) && !e.AllStandIns() {
			continue
		}
		if c.Verdict != stats.Invalid && c.Cost != nil && finite(*c.Cost) && *c.Cost > best {
			best, id = *c.Cost, c.Case
		}
	}
	if ids := CaseIDs(e); math.IsInf(best, -1) && len(ids) > 0 {
		return ids[0]
	}
	return id
}

// A sweep is a numeric parameter that changes from case to case while all other parameters stay.
type sweep struct {
	param string
	other string // the values of the other swept parameters, "" when there are none
	at    []float64
	cases []string
}

// sweeps returns the parameter sweeps of an experiment: one for each combination of the other parameters. Of several
// numeric parameters, the one with the most values is the axis.
func sweeps(e *result.Experiment) []sweep {
	seen := map[string][]string{}
	for i := range e.Cases {
		for k, v := range e.Cases[i].Params {
			if !slices.Contains(seen[k], v) {
				seen[k] = append(seen[k], v)
			}
		}
	}
	axis, varying := "", []string{}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[k]) < 2 {
			continue
		}
		varying = append(varying, k)
		numeric := !slices.ContainsFunc(seen[k], func(v string) bool { _, ok := quantity(v); return !ok })
		if numeric && (axis == "" || len(seen[k]) > len(seen[axis])) {
			axis = k
		}
	}
	if axis == "" {
		return nil
	}
	var out []sweep
	for i := range e.Cases {
		c := &e.Cases[i]
		x, ok := quantity(c.Params[axis])
		if !ok {
			continue
		}
		var rest []string
		for _, k := range varying {
			if k != axis {
				rest = append(rest, k+"="+c.Params[k])
			}
		}
		other := strings.Join(rest, ", ")
		at := slices.IndexFunc(out, func(s sweep) bool { return s.other == other })
		if at < 0 {
			out = append(out, sweep{param: axis, other: other})
			at = len(out) - 1
		}
		out[at].at, out[at].cases = append(out[at].at, x), append(out[at].cases, c.ID)
	}
	for i := range out {
		out[i].sort()
	}
	return slices.DeleteFunc(out, func(s sweep) bool { return len(s.at) < 2 })
}

func (s *sweep) sort() {
	by := make([]int, len(s.at))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(s.at[a], s.at[b]) })
	at, cases := make([]float64, len(by)), make([]string, len(by))
	for i, k := range by {
		at[i], cases[i] = s.at[k], s.cases[k]
	}
	s.at, s.cases = at, cases
}

// parallel reports whether a speed-up over the parameter has a meaning.
func (s *sweep) parallel() bool {
	return slices.Contains([]string{"threads", "workers", "processes", "cpus", "cores", "jobs", "numjobs", "clients"}, s.param)
}

// quantity reads "8", "0.5", "4k" and "16MiB".
func quantity(s string) (float64, bool) {
	digits := strings.TrimRight(s, "kKmMgGtTiB")
	v, err := metric.ParseNumber(digits)
	if err != nil {
		return 0, false
	}
	suffix := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(s[len(digits):], "B"), "i"))
	power, ok := map[string]float64{"": 0, "k": 1, "m": 2, "g": 3, "t": 4}[suffix]
	return v * math.Pow(1024, power), ok
}
