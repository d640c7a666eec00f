package bench

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// The numbers of pairs (reference: exact signed-rank levels; 5 pairs can never
// reach 5 %). A hundred show the shape of a distribution, as Constellation's study of
// Vault does, with variance and box plots.
const (
	QuickPairs = 6
	// QuickSpare are the most pairs that replace lost ones of a quick run.
	QuickSpare    = 2
	StandardPairs = 10
	PublishPairs  = 100
)

// Plan is an experiment that is ready to run: everything that can be checked without
// starting anything has been checked.
type Plan struct {
	Name     string
	Workload *Workload
	Cases    []Case
	Arms     []Arm
	Pairs    int
	// Spare are the most pairs that follow, as long as fewer than Pairs are valid.
	Spare   int
	Seed    uint64
	Primary string
	Margin  float64
	// Calibration: the arms are equal on purpose.
	Calibration bool
	Origin      *result.Origin
	References  []result.Reference
	Ceilings    []result.Ceiling
	// Then are the passes that follow.
	Then []Pass
	// NoCounters: the experiment wants the monitor's sources off.
	NoCounters bool
	// Install says how to get the files that a job does not explain itself.
	Install string
	// LoadElsewhere: loads run on another machine than the harness (Options.Client).
	LoadElsewhere bool
	// LeftOut are the arms that DropLacking left out.
	LeftOut []result.LeftOut
}

// Case is one set of parameters of the plan's workload.
type Case struct {
	ID     string
	Params Params
}

// Choice is a user's request; NewPlans turns it into plans.
type Choice struct {
	Experiment *Experiment // from a file, or made from a workload's name
	// Params override those of the experiment; a given parameter leaves the sweep. A
	// value with "|" between alternatives is itself a sweep.
	Params map[string]string
	Envs   []string // override the experiment's environments
	Pairs  int      // 0: the experiment's, or StandardPairs
	// Quick measures one short case in QuickPairs pairs, with spare ones, and no pass that follows.
	Quick     bool
	Seed      uint64
	Margin    float64
	Primary   string
	Calibrate bool
	// Ceilings are added to those of the experiment.
	Ceilings []result.Ceiling
}

// NewPlans checks a choice against the lists. It reads nothing except the file of a command
// template. Cases with primary metrics of their own make separate plans.
func NewPlans(c Choice, l Lists) ([]*Plan, error) {
	e := c.Experiment
	w, err := l.Workload(e.Workload)
	if err != nil {
		return nil, err
	}
	all, err := planCases(w, e, c.Params, c.Quick)
	if err != nil {
		return nil, err
	}
	primary := func(x Case) string { return cmp.Or(c.Primary, e.Primary, w.Primary(x.Params).Name) }
	var plans []*Plan
	for len(all) > 0 {
		metric := primary(all[0])
		group := slices.DeleteFunc(slices.Clone(all), func(x Case) bool { return primary(x) != metric })
		all = slices.DeleteFunc(all, func(x Case) bool { return primary(x) == metric })
		p, err := newPlan(c, l, w, group, metric)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	for i, p := range plans {
		if len(plans) > 1 {
			p.Name += "-" + distinct(plans, i)
		}
	}
	return plans, nil
}

// distinct is what distinguishes a plan from others of one workload: the value of a parameter
// that all its cases have and none of the others', or its metric.
func distinct(plans []*Plan, i int) string {
	first := plans[i].Cases[0].Params
	for _, name := range slices.Sorted(maps.Keys(first)) {
		all := true
		for j, p := range plans {
			for _, x := range p.Cases {
				all = all && (x.Params[name] == first[name]) == (i == j)
			}
		}
		if all {
			return first[name]
		}
	}
	return plans[i].Primary
}

// newPlan makes the plan of some cases of a choice.
func newPlan(c Choice, l Lists, w *Workload, cases []Case, primary string) (*Plan, error) {
	e := c.Experiment
	var err error
	p := &Plan{Name: e.Name, Workload: w, Cases: cases, Primary: primary, Seed: c.Seed, Calibration: c.Calibrate,
		Pairs: cmp.Or(c.Pairs, e.Pairs, StandardPairs), Margin: cmp.Or(c.Margin, float64(e.Margin), verdict.DefaultMargin)}
	if c.Quick {
		p.Pairs, p.Spare = QuickPairs, QuickSpare
	}
	if p.Pairs < 1 {
		return nil, fmt.Errorf("%d pairs: want at least 1, and at least %d for a verdict", p.Pairs, QuickPairs)
	}
	var known []string
	for _, d := range p.metrics() {
		known = append(known, d.Name)
	}
	if !slices.Contains(known, p.Primary) {
		return nil, fmt.Errorf("workload %s has no metric %q; the metrics are %s", w.Name, p.Primary, strings.Join(known, ", "))
	}
	envs := e.Environments
	if len(c.Envs) > 0 {
		envs = c.Envs
	}
	if len(envs) == 0 {
		envs = w.Environments
	}
	if len(envs) == 0 {
		envs = []string{"native"}
	}
	if c.Calibrate {
		if len(c.Envs) > 1 {
			return nil, errors.New("calibrate compares one environment with itself: give only one --env")
		}
		envs = []string{"a=" + unlabelled(envs[0]), "b=" + unlabelled(envs[0])}
	}
	if p.Arms, err = arms(envs, w, l); err != nil {
		return nil, err
	}
	if err := p.checkNamesWithoutSecrets(); err != nil {
		return nil, err
	}
	if err := p.declare(e.StandsFor, len(c.Envs) == 0); err != nil {
		return nil, err
	}
	for i := range p.Arms {
		a := &p.Arms[i]
		var jobs []Job
		for j := range p.Cases {
			job, err := w.Job(p.params(&p.Cases[j], a))
			if err != nil {
				return nil, fmt.Errorf("workload %s: %w", w.Name, err)
			}
			jobs = append(jobs, job)
		}
		if a.Launcher.Settle != nil {
			a.Params = a.Launcher.Settle(a.Params, jobs)
		}
	}
	if e.Source != "" || e.Corrects != "" {
		p.Origin = &result.Origin{Source: e.Source, Corrects: e.Corrects}
	}
	p.References, p.Then, p.NoCounters, p.Install = e.References, e.Then, e.NoCounters, e.Install
	if c.Quick {
		p.Then = nil
	}
	for i := range p.Then {
		if err := p.Then[i].possible(p); err != nil {
			return nil, err
		}
	}
	p.Ceilings = append(slices.Clone(e.Ceilings), c.Ceilings...)
	for _, x := range p.Ceilings {
		switch {
		case !slices.Contains(known, x.Metric):
			return nil, fmt.Errorf("ceiling of %q: workload %s has no such metric; the metrics are %s", x.Metric, w.Name, strings.Join(known, ", "))
		case !(x.Value > 0) || x.Source == "":
			return nil, fmt.Errorf("ceiling of %s: want a value above 0 and its source", x.Metric)
		case x.Env != "" && !slices.ContainsFunc(p.Arms, func(a Arm) bool { return a.Label == x.Env }):
			return nil, fmt.Errorf("ceiling of %s: no environment %q", x.Metric, x.Env)
		}
	}
	return p, nil
}

// checkNamesWithoutSecrets fails if a result, which records no secrets, could not tell two cases or environments apart.
func (p *Plan) checkNamesWithoutSecrets() error {
	var caseIDs, labels []string
	for _, c := range p.Cases {
		caseIDs = append(caseIDs, printable.Redact(c.ID))
	}
	for _, a := range p.Arms {
		labels = append(labels, printable.Redact(a.Label))
	}
	if i := duplicate(caseIDs); i >= 0 {
		return fmt.Errorf("two cases differ only in a secret, and results do not record secrets: both would be %q. Keep the secrets in files, and vary the name of the file", caseIDs[i])
	}
	if i := duplicate(labels); i >= 0 {
		return fmt.Errorf("two environments differ only in a secret, and results do not record secrets: both would be %q. Give each environment a label, like a=%s", labels[i], labels[i])
	}
	return nil
}

// declare sets what arms stand in for, by label. All labels must be there if the arms are the experiment's own.
func (p *Plan) declare(standsFor map[string]string, own bool) error {
	for _, label := range slices.Sorted(maps.Keys(standsFor)) {
		i := slices.IndexFunc(p.Arms, func(a Arm) bool { return a.Label == label })
		switch {
		case i < 0 && own:
			return fmt.Errorf("stands_for: no environment %q", label)
		case i >= 0:
			p.Arms[i].StandsFor = cmp.Or(p.Arms[i].StandsFor, standsFor[label])
		}
	}
	return nil
}

// oneCase replaces sweeps by one value each, the workload's quick one or the first, and sets the workload's quick
// parameters that nobody else sets.
func oneCase(w *Workload, params Params, sweep map[string][]string) {
	for k, vs := range sweep {
		params[k] = vs[0]
		if v := w.Quick[k]; slices.Contains(vs, v) {
			params[k] = v
		}
		delete(sweep, k)
	}
	for k, v := range w.Quick {
		if _, given := params[k]; !given {
			params[k] = v
		}
	}
}

func planCases(w *Workload, e *Experiment, over map[string]string, quick bool) ([]Case, error) {
	params, sweep := Params{}, map[string][]string{}
	if e.Sweep == nil && len(e.Params) == 0 {
		for k, v := range w.Sweep {
			sweep[k] = v
		}
	}
	for k, v := range e.Sweep {
		sweep[k] = v
	}
	for k, v := range e.Params {
		params[k] = v
	}
	if quick {
		oneCase(w, params, sweep)
	}
	for k, v := range over {
		delete(sweep, k)
		if vs := strings.Split(v, "|"); len(vs) > 1 && !opaque(w, k) {
			if i := duplicate(vs); i >= 0 {
				return nil, fmt.Errorf("parameter %s: %q is given twice", k, vs[i])
			}
			sweep[k] = vs
			continue
		}
		params[k] = v
	}
	what := "workload " + w.Name
	ids, all := cases(params, sweep)
	out := make([]Case, len(all))
	for i, given := range all {
		full, err := Complete(what, w.Params, given)
		if err != nil {
			return nil, err
		}
		out[i] = Case{ids[i], full}
	}
	return out, nil
}

// opaque parameters are free texts (a command line, say), in which "|" is just a
// character.
func opaque(w *Workload, name string) bool {
	i := slices.IndexFunc(w.Params, func(p Param) bool { return p.Name == name })
	return i >= 0 && (w.Params[i].Text || w.Params[i].Path)
}

func unlabelled(env string) string {
	first, rest, more := strings.Cut(env, ",")
	if _, after, ok := strings.Cut(first, "="); ok {
		first = after
	}
	if more {
		return first + "," + rest
	}
	return first
}

// arms reads environments in the notation [LABEL=]LAUNCHER[:VALUE][,K=V]...
func arms(envs []string, w *Workload, l Lists) ([]Arm, error) {
	out := make([]Arm, 0, len(envs))
	for _, env := range envs {
		a, err := arm(env, w, l)
		if err != nil {
			return nil, fmt.Errorf("environment %q: %w", env, err)
		}
		for _, b := range out {
			if a.Label == b.Label {
				a.Label = env // two of one launcher are distinguished by their parameters
			}
		}
		for _, b := range out {
			if a.Label == b.Label {
				return nil, fmt.Errorf("environment %q is given twice: give each environment a label (A=%s), or use `teescope bench calibrate` for an A/A run", env, unlabelled(env))
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func arm(env string, w *Workload, l Lists) (Arm, error) {
	first, _, _ := strings.Cut(env, ",")
	label, _, labelled := strings.Cut(first, "=")
	name, all, err := parseNotation(unlabelled(env))
	if err != nil {
		return Arm{}, err
	}
	if !labelled {
		label = name
	}
	if label == "" || name == "" {
		return Arm{}, errors.New("want [LABEL=]LAUNCHER, followed by ,K=V for each parameter")
	}
	launcher, preset, err := l.find(name)
	if err != nil {
		return Arm{}, err
	}
	if err := all.named(launcher.Short); err != nil {
		return Arm{}, fmt.Errorf("launcher %s: %w", name, err)
	}
	a := Arm{Label: label, Launcher: launcher, Subject: Params{}, StandsFor: all[standsFor]}
	if v, declared := all[standsFor]; declared && v == "" {
		return Arm{}, errors.New("stands_for: want the environment that this one stands in for, like stands_for=tdx")
	}
	delete(all, standsFor)
	given := Params{}
	for k, v := range preset {
		if x, twice := all[k]; twice && x != v {
			return Arm{}, fmt.Errorf("%s means %s with %s=%s, so %s=%s cannot be set", name, launcher.Name, k, v, k, x)
		}
		given[k] = v
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		v := all[k]
		if i := slices.IndexFunc(w.Params, func(p Param) bool { return p.Name == k }); i >= 0 &&
			!slices.ContainsFunc(launcher.Params, func(p Param) bool { return p.Name == k }) {
			if !w.Params[i].Subject {
				return Arm{}, fmt.Errorf("%s is a parameter of the job, which must be the same in all environments; set it with --param", k)
			}
			full, err := Complete("workload "+w.Name, w.Params[i:i+1], Params{k: v})
			if err != nil {
				return Arm{}, err
			}
			a.Subject[k] = full[k]
			continue
		}
		given[k] = v
	}
	a.Params, err = Complete("launcher "+launcher.Name, launcher.Params, given)
	return a, err
}

// standsFor is the word of an environment that declares what it stands in for.
const standsFor = "stands_for"

// Schedule is the order of all runs: pair by pair, in each pair the cases in random
// order, and in each case the arms in random order, one right after the other, so a
// slow drift of the machine affects all arms alike (randomised multiple interleaved
// trials; Abedi and Brecht, ICPE 2017).
func (p *Plan) Schedule() []result.Slot { return p.schedule(p.Pairs) }

// schedule is the order of a number of pairs; that of fewer is its beginning.
func (p *Plan) schedule(pairs int) []result.Slot {
	r := rand.New(rand.NewPCG(p.Seed, 0x7ee5c09e))
	var out []result.Slot
	for pair := range pairs {
		for _, c := range r.Perm(len(p.Cases)) {
			for _, a := range r.Perm(len(p.Arms)) {
				out = append(out, result.Slot{Pair: pair, Case: p.Cases[c].ID, Env: p.Arms[a].Label})
			}
		}
	}
	return out
}

// params are those of a case in an arm.
func (p *Plan) params(c *Case, a *Arm) Params {
	out := Params{}
	for k, v := range c.Params {
		out[k] = v
	}
	for k, v := range a.Subject {
		out[k] = v
	}
	return out
}

// Estimate is the time and the disk space that the plan needs, as far as the workload
// knows, with the first run of each arm, which is not counted; launching is not included.
func (p *Plan) Estimate() (time.Duration, int64) {
	var disk int64
	for i := range p.Cases {
		_, b := p.Workload.Estimate(p.Cases[i].Params)
		disk = max(disk, b)
	}
	first, _ := p.Workload.Estimate(p.Cases[0].Params)
	arms := len(p.Arms)
	return p.Runs(arms*p.Pairs*len(p.Cases)) + first*time.Duration(arms), disk * int64(arms)
}

// Spared is the time of the spare pairs, which are only run to replace lost ones.
func (p *Plan) Spared() time.Duration { return p.Runs(len(p.Arms) * p.Spare * len(p.Cases)) }

// Runs is the time of n runs, as many of each case, by the workload's estimate.
func (p *Plan) Runs(n int) time.Duration {
	var all time.Duration
	for i := range p.Cases {
		d, _ := p.Workload.Estimate(p.Cases[i].Params)
		all += d
	}
	return all * time.Duration(n) / time.Duration(len(p.Cases))
}

// metrics are all metrics that the plan's runs may hold, each once.
func (p *Plan) metrics() []*metric.Desc {
	var out []*metric.Desc
	add := func(params Params) {
		for _, d := range p.Workload.Metrics(params) {
			if !slices.ContainsFunc(out, func(o *metric.Desc) bool { return o.Name == d.Name }) {
				out = append(out, d)
			}
		}
	}
	for i := range p.Cases {
		add(p.Cases[i].Params)
		for j := range p.Arms { // a subject may add metrics
			add(p.params(&p.Cases[i], &p.Arms[j]))
		}
	}
	return out
}

// Commands are the commands started by opening an arm and by one run of a case in it.
func (p *Plan) Commands(a *Arm, c *Case) ([]host.Cmd, error) {
	job, err := p.Workload.Job(p.params(c, a))
	if err != nil {
		return nil, err
	}
	return a.Launcher.Commands(a.Params, job)
}
