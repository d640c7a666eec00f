package sources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

// load opens the object and returns its Reader. The budget governs it if the probe says how
// often its programs run.
func (p *userProbe) load(h *host.Host, o *bpf.UserObject, where map[string]bpf.Function) (probe.Reader, error) {
	var hit float64
	if len(where) > 0 {
		// A uprobe costs far more than other events; how much depends on the machine.
		u, err := bpf.OpenUprobes(h)
		if err != nil {
			return nil, err
		}
		hit = u.HitSeconds()
		if err := u.Close(); err != nil {
			return nil, err
		}
	}
	u, err := o.Open(h, where)
	if err != nil {
		return nil, err
	}
	r := &userReader{user: u, probe: p, series: make([]map[string]*userSeries, len(p.Metrics))}
	for i := range r.series {
		r.series[i] = map[string]*userSeries{}
	}
	if hit > 0 {
		u.Calibrate(hit)
	}
	for _, m := range p.Metrics {
		if m.Name == p.Events {
			u.CountRuns(m.Map, m.Value.Offset, m.Value.Size)
			return &governedUser{r, u}, nil
		}
	}
	return r, nil
}

// governedUser is a userReader that the budget may detach for some time.
type governedUser struct {
	*userReader
	user *bpf.User
}

func (g *governedUser) Attach() error               { return g.user.Attach() }
func (g *governedUser) Detach() error               { return g.user.Detach() }
func (g *governedUser) Spent() (float64, []float64) { return g.user.Spent() }

// Limit implements probe.Governed: a user's programs compare nothing.
func (g *governedUser) Limit([]float64, func()) bool { return false }

// userReader is the Reader of a user's probe.
type userReader struct {
	user  *bpf.User
	probe *userProbe
	// series holds the series of each metric by their labels.
	series []map[string]*userSeries
}

// userSeries is the sum of all keys that have the same labels.
type userSeries struct {
	labels []string
	seen   bool // in this round
	value  float64
	hist   *metric.Hist
}

// Read implements probe.Reader.
func (r *userReader) Read(_ context.Context, emit func(metric.Sample)) error {
	out := emitter(emit)
	missed, err := r.user.Missed()
	if err != nil {
		return err
	}
	errs := []error{r.user.Lost}
	var folded, dropped float64
	for i := range r.probe.Metrics {
		m := &r.probe.Metrics[i]
		t := userTable{metric: m, series: r.series[i]}
		errs = append(errs, r.user.Each(m.Map, t.add))
		for _, key := range sortedSeries(t.series) {
			s := t.series[key]
			if s.seen {
				emit(metric.Sample{Desc: m.desc, Labels: s.labels, Value: s.value, Hist: s.hist})
			}
			s.seen = false
		}
		folded += t.folded
		dropped += t.dropped
		if t.full() {
			errs = append(errs, &probe.Problem{
				Err:    fmt.Errorf("metric %s has more than its %d series: %s", m.Name, m.Series, t.lossText()),
				Remedy: "raise series in the probe's YAML file, or use fewer labels",
			})
		}
	}
	out.send(probe.Missed, float64(missed)+dropped)
	out.send(probe.Folded, folded)
	return errors.Join(errs...)
}

// Close implements probe.Reader.
func (r *userReader) Close() error { return r.user.Close() }

func sortedSeries(m map[string]*userSeries) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// userTable adds up the keys of a map into series.
type userTable struct {
	metric          *userMetric
	series          map[string]*userSeries
	folded, dropped float64
}

func (t *userTable) full() bool { return t.folded > 0 || t.dropped > 0 }

func (t *userTable) lossText() string {
	if t.dropped > 0 {
		return fmt.Sprintf("%g of the others are left out", t.dropped)
	}
	return fmt.Sprintf("%g of the others are counted as %s; sums stay exact", t.folded, bpf.Other)
}

// add adds one key with its values on each CPU. An array has a value for every index, so zero
// values are left out.
func (t *userTable) add(key []byte, values [][]byte) {
	m := t.metric
	value, hist := m.number(values)
	if value == 0 && (hist == nil || hist.Sum == 0) {
		return
	}
	labels := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		labels[i] = l.decode(key)
	}
	s := t.seriesOf(labels, value)
	if s == nil {
		return
	}
	if !s.seen {
		s.seen, s.value, s.hist = true, 0, nil
	}
	switch {
	case hist == nil:
		s.value += value
	case s.hist == nil:
		s.hist = hist
	default:
		s.hist.Sum += hist.Sum
		for i, n := range hist.Counts {
			s.hist.Counts[i] += n
		}
	}
}

// seriesOf returns the series with these labels. Beyond the limit, series share one or are dropped,
// and their values are recorded as folded or dropped.
func (t *userTable) seriesOf(labels []string, value float64) *userSeries {
	key := strings.Join(labels, "\x00")
	if s, ok := t.series[key]; ok {
		return s
	}
	if len(labels) > 0 && len(t.series) >= t.metric.Series {
		if t.metric.Overflow == "drop" {
			t.dropped += value
			return nil
		}
		t.folded += value
		for i := range labels {
			labels[i] = bpf.Other
		}
		key = strings.Join(labels, "\x00")
	}
	s := t.series[key]
	if s == nil {
		s = &userSeries{labels: labels}
		t.series[key] = s
	}
	return s
}

// number returns the sum of a metric over the CPUs; for a histogram, the number of observations,
// and the histogram.
func (m *userMetric) number(values [][]byte) (n float64, hist *metric.Hist) {
	if m.desc.Kind != metric.Histogram {
		for _, v := range values {
			n += float64(bpf.Number(v, m.Value.Offset, m.Value.Size)) * m.Value.Scale
		}
		return n, nil
	}
	hist = &metric.Hist{Bounds: m.Bounds, Counts: make([]uint64, len(m.Bounds)+1)}
	for _, v := range values {
		for i := range hist.Counts {
			c := bpf.Number(v, m.Value.Offset+i*m.Value.Size, m.Value.Size)
			hist.Counts[i] += c
			n += float64(c)
		}
		hist.Sum += float64(bpf.Number(v, m.Sum.Offset, m.Sum.Size)) * m.Sum.Scale
	}
	return n, hist
}

// decode returns the label's value in a key.
func (l *userLabel) decode(key []byte) string {
	if l.Offset < 0 || l.Size < 0 || l.Offset > len(key)-l.Size {
		return ""
	}
	b := key[l.Offset : l.Offset+l.Size]
	switch l.Type {
	case "string", "comm":
		text, _, _ := bytes.Cut(b, []byte{0})
		s := string(text)
		if l.Type == "comm" {
			return cmp.Or(s, bpf.Unnamed)
		}
		return s
	case "hex":
		return hex.EncodeToString(b)
	case "ipv4":
		if a, ok := netip.AddrFromSlice(b); ok {
			return a.String()
		}
		return ""
	}
	n := bpf.Number(b, 0, l.Size)
	switch {
	case l.Type == "syscall" && n < 512:
		return bpf.SyscallName(int(n))
	case l.Type == "syscall":
		return bpf.SyscallName(-1)
	case n < uint64(len(l.Names)):
		return l.Names[n]
	}
	return strconv.FormatUint(n, 10)
}
