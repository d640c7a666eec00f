//go:build linux

package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/internal/web"
)

// This file answers about machines elsewhere from their stored series, in the form in which the monitor answers about
// its own.

// own is the machine that the monitor runs on.
func (m *monitor) own() query.Machine {
	return query.Machine{Job: store.DefaultOptions().Job, Instance: m.Platform.Hostname}
}

// machines returns the list of the machines in the store.
func (m *monitor) machines() *fleet.Fleet {
	return fleet.New(m.series, fleet.Options{
		Own: m.own(), Version: build.Version(), TEEs: observe.DetectedTEEs(m.Found), Unsure: observe.Unsure(m.Found), Now: m.Host.Now, Meter: m.Host.Pages.Run,
		Interval: func() time.Duration { return time.Duration(m.slowest.Load()) }, Rules: m.analysis.Rules,
		Open: func() []findings.Record {
			return slices.DeleteFunc(m.analysis.Records(), func(r findings.Record) bool { return r.State != findings.Open })
		}})
}

// shared returns what pages ask through.
func (m *monitor) shared() *feed.Feed {
	return feed.New(feed.Options{Evaluate: m.served.Steps, Notes: m.served.Notes, Meter: m.Host.Pages.Run, Reserve: quota.Own().Answers.Reserve, Now: m.Host.Now})
}

func (m *monitor) isRemote(on query.Machine) bool {
	return on != (query.Machine{}) && on != m.own()
}

// machineRow returns a machine's row; the error for an unknown one is web's.
func (m *monitor) machineRow(ctx context.Context, on query.Machine) (fleet.Row, error) {
	r, err := m.fleet.Row(ctx, on)
	if errors.Is(err, fleet.ErrNoMachine) {
		err = fmt.Errorf("%w: %w", web.ErrNotFound, err)
	}
	return r, err
}

// lastOf is the time at which a machine's series have their last values.
func lastOf(r fleet.Row, now time.Time) time.Time {
	if r.Health == fleet.Gone && !r.LastSeen.IsZero() {
		return r.LastSeen
	}
	return now
}

// platformOf describes a machine.
func (m *monitor) platformOf(ctx context.Context, on query.Machine) (web.Platform, error) {
	if !m.isRemote(on) {
		p := m.PlatformNow()
		p.Machine = m.own()
		return p, nil
	}
	r, err := m.machineRow(ctx, on)
	if err != nil {
		return web.Platform{}, err
	}
	at := lastOf(r, m.Host.Now())
	points, err := m.series.Query(ctx, fmt.Sprintf(`{__name__=~"teescope_info|node_memory_MemTotal_bytes",%s}`, on.Matchers()), at)
	if err != nil {
		return web.Platform{}, err
	}
	cpus, err := m.series.Query(ctx, fmt.Sprintf(`count(count by (cpu) (node_cpu_seconds_total{%s}))`, on.Matchers()), at)
	if err != nil {
		return web.Platform{}, err
	}
	p := web.Platform{Machine: on, Elsewhere: true, Gone: r.Health == fleet.Gone, LastSeen: r.LastSeen, Hostname: r.Name, Version: r.Version, Lacks: lacks(r), TEEs: teesOf(r)}
	for _, pt := range points {
		if l := pt.Labels; l["__name__"] == observe.InfoDesc.Name {
			p.Kernel, p.Arch, p.OS, p.CPUModel, p.Lockdown, p.Privileged = l["kernel"], l["arch"], l["os"], l["cpu_model"], l["lockdown"], l["privileged"] == "true"
		} else {
			p.MemoryBytes = uint64(pt.Value)
		}
	}
	for _, pt := range cpus {
		p.CPUs = int(pt.Value)
	}
	p.Interval, err = m.readingInterval(ctx, on, at)
	return p, err
}

// readingInterval returns the time between two readings of a machine in seconds, in the last 5 minutes; without any, that of
// the slowest target.
func (m *monitor) readingInterval(ctx context.Context, on query.Machine, at time.Time) (float64, error) {
	points, err := m.series.Query(ctx, fmt.Sprintf(`max(count_over_time(teescope_source_up{%s}[5m]))`, on.Matchers()), at)
	if err != nil {
		return 0, err
	}
	slowest := time.Duration(m.slowest.Load()).Seconds()
	for _, p := range points {
		return min(slowest, 300/p.Value), nil // a young one has fewer
	}
	return slowest, nil
}

// unseen is why nothing is known of a machine now.
func unseen(r fleet.Row) string {
	if r.LastSeen.IsZero() {
		return "this machine's agent has never answered"
	}
	return "no reading of this machine since " + r.LastSeen.UTC().Format(time.RFC3339)
}

// lacks says in sentences what is not known of a machine elsewhere.
func lacks(r fleet.Row) []string {
	out := []string{"These values are stored series from this machine's agent. Reasons why sources are off, process ids and TEE evidence are available only on the machine: run `teescope doctor` there."}
	if r.Agents > 1 {
		out = append(out, fmt.Sprintf("%d agents have the same labels job=%q and instance=%q, so their numbers are added up. Give each target its own instance label (relabel_configs).", r.Agents, r.Job, r.Instance))
	}
	switch {
	case r.LastSeen.IsZero():
		out = append(out, "This machine's agent has not answered yet, so there are no readings.")
	case r.Health == fleet.Gone:
		out = append(out, "This machine's agent does not answer: all values are from the agent's last reading or older.")
	}
	return out
}

// teesOf is what a machine elsewhere says of each kind of TEE.
func teesOf(r fleet.Row) []web.TEE {
	var out []web.TEE
	there := map[string]bool{}
	for _, t := range r.TEEs {
		doc := ""
		if i := slices.IndexFunc(kinds.All, func(k *tee.Kind) bool { return k.Name == t.Kind }); i >= 0 {
			doc = kinds.All[i].Doc
		}
		there[t.Kind] = true
		out = append(out, web.TEE{Kind: t.Kind, Doc: doc, State: string(tee.Here), Facts: &tee.Facts{
			Kind: t.Kind, Variant: t.Variant, Role: tee.Role(t.Role), Active: t.Active, Debug: t.Debug, Evidence: []tee.Evidence{},
			Why: "Detected by the agent of this machine, which has the evidence"}})
	}
	for _, k := range kinds.All {
		if there[k.Name] {
			continue
		}
		t := web.TEE{Kind: k.Name, Doc: k.Doc, State: string(tee.NotHere), Reason: "this machine's agent found no TEE of this kind"}
		switch {
		case !r.TEEsKnown():
			t.State, t.Reason = string(tee.Unknown), "this machine's agent sent no reading of the source tee"
		case slices.Contains(r.Unsure(), k.Name):
			t.State, t.Reason = string(tee.Unknown), "this machine's agent could not check this; teescope doctor on that machine says why"
		}
		out = append(out, t)
	}
	return out
}

// sourcesOf lists the sources of a machine.
func (m *monitor) sourcesOf(ctx context.Context, on query.Machine) ([]web.Source, error) {
	if !m.isRemote(on) {
		return observe.ListSources(m.Engine), nil
	}
	r, err := m.machineRow(ctx, on)
	if err != nil {
		return nil, err
	}
	at := lastOf(r, m.Host.Now())
	var out []web.Source
	index := map[string]int{}
	for _, s := range m.Sources {
		w := observe.DescribeSource(s)
		w.State, w.Reason = string(probe.Absent), "this machine's agent sent no such reading: the source is off there, or the machine lacks what the source reads"
		index[s.Name] = len(out)
		out = append(out, w)
	}
	points, err := m.series.Query(ctx, fmt.Sprintf(`{__name__=~"teescope_source_.+|teescope_series_folded_total",source!="",%s}`, on.Matchers()), at)
	if err != nil {
		return nil, err
	}
	// Up comes first: it adds the sources that this monitor does not know.
	slices.SortStableFunc(points, func(a, b metric.Point) int {
		return cmp.Compare(first(b), first(a))
	})
	for _, p := range points {
		i, ok := index[p.Labels["source"]]
		if !ok {
			i = len(out)
			index[p.Labels["source"]], out = i, append(out, web.Source{Name: p.Labels["source"], Doc: "A source that this monitor's version does not know", Metrics: []string{}})
		}
		describeSource(&out[i], p)
	}
	if r.Health == fleet.Gone {
		for i := range out {
			if out[i].State == string(probe.Available) {
				out[i].State, out[i].Reason = string(probe.Unavailable), unseen(r)
			}
		}
	}
	present, err := m.present(ctx, on, at)
	if err != nil {
		return nil, err
	}
	names := probe.SourceNames(m.Sources)
	for name, n := range present {
		if i, ok := index[names[name]]; ok {
			out[i].Series += n
		}
	}
	return out, nil
}

func first(p metric.Point) int {
	if p.Labels["__name__"] == probe.Up.Name {
		return 1
	}
	return 0
}

// describeSource adds what one of its series says of a source.
func describeSource(s *web.Source, p metric.Point) {
	v := p.Value
	switch p.Labels["__name__"] {
	case probe.Up.Name:
		s.State, s.Reason = string(probe.Available), ""
		if v != 1 {
			s.State, s.Reason = string(probe.Unavailable), "the source delivered nothing in its last reading; teescope doctor on that machine says why"
		}
	case probe.BlindDesc.Name:
		if v == 1 {
			s.Blind, s.Reason = true, p.Labels["reason"]
		}
	case probe.Coverage.Name:
		s.Coverage = &v
		observe.JudgeCoverage(s)
	case probe.StandardError.Name:
		if p.Labels["of"] == probe.OfRest {
			s.RestError = &v
		} else {
			s.Error = &v
		}
	case probe.Missed.Name:
		s.Missed = &v
	case probe.Folded.Name:
		s.Folded = &v
	case probe.LevelDesc.Name:
		if v == 1 {
			s.Level = p.Labels["level"]
		}
	}
}

// presence is how long pages share the number of a machine's series, which takes a reading of each of them.
const presence = 15 * time.Second

// present returns the number of a machine's series by metric, at most presence before a time.
func (m *monitor) present(ctx context.Context, on query.Machine, at time.Time) (map[string]int, error) {
	q := feed.Query{Expr: fmt.Sprintf("count by (__name__) ({%s})", on.Matchers()), To: at.Truncate(presence)}
	q.From = q.To
	out := map[string]int{}
	var failed error
	err := m.pages.AnswerQueries(ctx, []feed.Query{q}, func(_ int, a feed.Answer, err error) {
		failed = err
		for _, l := range a.Lines {
			out[l.Labels["__name__"]] = int(l.Values[0])
		}
	}, func() {})
	return out, errors.Join(failed, err)
}

// findingsOf returns the findings and answers of one machine, or of all.
func (m *monitor) findingsOf(ctx context.Context, on query.Machine) (web.Findings, error) {
	out := web.Findings{Findings: m.analysis.Records(), Rules: m.analysis.Rules(), At: m.Host.Now()}
	if on == (query.Machine{}) {
		return out.WithSummary(m.PlatformNow().Started), nil
	}
	rows, err := m.fleet.Rows(ctx)
	if err != nil {
		return out, err
	}
	owner, err := m.fleet.Owner(ctx)
	if err != nil {
		return out, err
	}
	out.Findings = slices.DeleteFunc(out.Findings, func(r findings.Record) bool { return owner(r.Machine) != on })
	gone := ""
	if m.isRemote(on) {
		r, err := m.machineRow(ctx, on)
		if err != nil {
			return out, err
		}
		if r.Health == fleet.Gone {
			gone = unseen(r)
		}
	}
	// A rule is checked where some machine has what it needs; of several, this one may lack it.
	lacks := func(string) bool { return false }
	if len(rows) > 1 {
		present, err := m.present(ctx, on, out.At)
		if err != nil {
			return out, err
		}
		lacks = func(name string) bool { return present[name] == 0 }
	}
	fires := map[string]bool{}
	for _, r := range out.Findings {
		fires[r.Rule] = fires[r.Rule] || r.State == findings.Open
	}
	for i := range out.Rules {
		s := &out.Rules[i]
		s.Near = slices.DeleteFunc(slices.Clone(s.Near), func(n findings.Near) bool { return owner(n.Machine) != on })
		if gone != "" {
			s.Answer, s.Reason = findings.CannotTell, gone
		}
		if s.Answer == findings.CannotTell {
			continue
		}
		if s.Answer = findings.Silent; fires[s.Name] {
			s.Answer = findings.Fires
		}
		if j := slices.IndexFunc(s.Needs, lacks); j >= 0 && s.Answer == findings.Silent {
			s.Answer, s.Reason = findings.CannotTell, fmt.Sprintf("the metric %s has no reading from this machine", s.Needs[j])
		}
	}
	started := m.Platform.Started
	if m.isRemote(on) {
		started = time.Time{} // when its agent started is not known
	}
	return out.WithSummary(started), nil
}
