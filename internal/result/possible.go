package result

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// Impossible says why a value cannot be one of the metric, "" if it can.
func (d *MetricDesc) Impossible(v float64) string {
	why := d.impossibility(v)
	if why == "" && d.counts() && !strings.HasSuffix(d.Unit, "seconds") && v != math.Trunc(v) {
		why = "which is not a whole number"
	}
	if why != "" {
		why = fmt.Sprintf("it is %v, %s", v, why)
	}
	return why
}

// counts reports whether the metric is a counter.
func (d *MetricDesc) counts() bool { return strings.HasSuffix(d.Name, "_total") }

// impossibility says why a value cannot be one, or a median of several.
func (d *MetricDesc) impossibility(v float64) string {
	m := metric.Desc{Name: d.Name, Kind: metric.Gauge, Least: d.Least, Most: d.Most}
	if d.Unlimited {
		m.Most = metric.Unlimited
	}
	if d.counts() {
		m.Kind = metric.Counter
	}
	return m.Impossible(v)
}

// Impossible says of each of a run's metrics whose values cannot be, by name, why: outside of what the metric declares,
// there twice, or percentiles that fall. Nothing that made such a number can be trusted with it, so nobody shows it as
// measured: a run leaves it out, and a document that has it is refused.
func Impossible(descs []MetricDesc, metrics []Metric) map[string]string {
	out := map[string]string{}
	seen := map[string]bool{}
	for i := range metrics {
		m := &metrics[i]
		at := slices.IndexFunc(descs, func(d MetricDesc) bool { return d.Name == m.Name })
		switch {
		case seen[m.Name]:
			out[m.Name] = "it is there twice"
		case at < 0:
		default:
			if why := m.impossible(&descs[at]); why != "" {
				out[m.Name] = why
			}
		}
		seen[m.Name] = true
	}
	for _, f := range falling(metrics) {
		for _, name := range f.names {
			if out[name] == "" {
				out[name] = f.why
			}
		}
	}
	return out
}

func (m *Metric) impossible(d *MetricDesc) string {
	if m.Value != nil {
		if why := d.Impossible(*m.Value); why != "" {
			return why
		}
	}
	if m.N < 0 {
		return fmt.Sprintf("it is of %d values", m.N)
	}
	h := m.Histogram
	if h == nil {
		return ""
	}
	if math.IsNaN(h.Sum) || math.IsInf(h.Sum, 0) || len(h.Counts) != len(h.Bounds)+1 || !slices.IsSorted(h.Bounds) || slices.ContainsFunc(h.Bounds, math.IsNaN) {
		return "its histogram is not whole"
	}
	return ""
}

// percentileName finds p50 in "read_latency_p50_seconds"; max is the last of all.
var percentileName = regexp.MustCompile(`^(.*_)(p\d+|max)(_.*)$`)

// fall is a family of percentiles in which a higher one has a lower value.
type fall struct {
	why   string
	names []string
}

// falling returns the families of percentiles that fall. It is not known which member is wrong.
func falling(metrics []Metric) []fall {
	type member struct {
		name, rank string
		v          float64
	}
	families := map[string][]member{}
	for i := range metrics {
		m := &metrics[i]
		if parts := percentileName.FindStringSubmatch(m.Name); parts != nil && m.Value != nil {
			rank := strings.TrimPrefix(parts[2], "p") // 50 < 99 < 999 < max as texts
			families[parts[1]+parts[3]] = append(families[parts[1]+parts[3]], member{m.Name, rank, *m.Value})
		}
	}
	var out []fall
	for _, key := range slices.Sorted(maps.Keys(families)) {
		f := families[key]
		slices.SortStableFunc(f, func(a, b member) int { return strings.Compare(a.rank, b.rank) })
		for i := 1; i < len(f); i++ {
			if !(f[i].v < f[i-1].v) {
				continue
			}
			fallen := fall{why: fmt.Sprintf("%s is %v, and %s only %v", f[i-1].name, f[i-1].v, f[i].name, f[i].v)}
			for _, m := range f {
				fallen.names = append(fallen.names, m.name)
			}
			out = append(out, fallen)
			break
		}
	}
	return out
}

// LeaveOut takes impossible values and counts out of a run, each with its reason.
func (r *Run) LeaveOut(descs []MetricDesc) {
	why := Impossible(descs, r.Metrics)
	seen := map[string]bool{}
	r.Metrics = slices.DeleteFunc(r.Metrics, func(m Metric) bool {
		twice := seen[m.Name]
		seen[m.Name] = true
		return twice
	})
	for i := range r.Metrics {
		if m := &r.Metrics[i]; why[m.Name] != "" {
			m.Value, m.Histogram, m.N, m.Reason = nil, nil, 0, "impossible: "+why[m.Name]
		}
	}
	for _, list := range [][]Counter{r.Counters, r.HostCounters} {
		for i := range list {
			if c := &list[i]; c.odd() != "" {
				c.Note = "impossible: " + c.odd()
				c.Value, c.PerOperation, c.Trust = nil, nil, None
			}
		}
	}
}

// odd says why the counts of events cannot be; "" if they can.
func (c *Counter) odd() string {
	count := metric.Desc{Name: "events_total", Kind: metric.Counter}
	for _, v := range []*float64{c.Value, c.PerOperation} {
		if v == nil {
			continue
		}
		if why := count.Impossible(*v); why != "" {
			return fmt.Sprintf("it is %v, %s", *v, why)
		}
	}
	return ""
}

// possible refuses a run with values that cannot be.
func (r *Run) possible(descs []MetricDesc) error {
	why := Impossible(descs, r.Metrics)
	for _, name := range slices.Sorted(maps.Keys(why)) {
		return fmt.Errorf("%s: %s", name, why[name])
	}
	for _, list := range [][]Counter{r.Counters, r.HostCounters, {{Name: "of seconds", Value: &r.Seconds}}} {
		for i := range list {
			if why := list[i].odd(); why != "" {
				return fmt.Errorf("counter %s: %s", list[i].Name, why)
			}
		}
	}
	return nil
}
