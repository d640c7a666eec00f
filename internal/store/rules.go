package store

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// Rule is a recording rule: the series Record holds the result of Expr at each
// evaluation.
type Rule struct{ Record, Expr, Doc string }

// Rules are recorded every Options.RuleInterval. A view of a day reads these instead of
// the series of every process and system call.
var Rules = []Rule{
	{"process:tee_syscalls:rate1m", `sum by (process, job, instance) (rate(tee_syscalls_total[1m]))`,
		"System calls per second by process."},
	{"process:tee_context_switches:rate1m", `sum by (process, job, instance) (rate(tee_context_switches_total[1m]))`,
		"Context switches per second by process."},
	{"process:tee_page_faults:rate1m", `sum by (process, job, instance) (rate(tee_page_faults_total[1m]))`,
		"Page faults per second by process."},
	{"process:tee_process_cpu_seconds:rate1m", `sum by (process, job, instance) (rate(tee_process_cpu_seconds_total[1m]))`,
		"CPU time per second by process, in cores."},
	{"syscall:tee_syscalls:rate1m", `sum by (syscall, job, instance) (rate(tee_syscalls_total[1m]))`,
		"System calls per second by call, over all processes."},
}

// recorder evaluates the rules.
type recorder struct {
	*rules.Manager
	done chan struct{}
}

func newRecorder(ctx context.Context, s *Store) (*recorder, error) {
	m := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{},
		QueryFunc:   rules.EngineQueryFunc(s.engine, door{s}),
		NotifyFunc:  func(context.Context, string, ...*rules.Alert) {},
		Context:     ctx,
		Appendable:  door{s},
		Queryable:   door{s},
		Logger:      slog.New(seldom{s.log.Handler(), &said{at: map[string]time.Time{}}}),
		Registerer:  s.reg,
		GroupLoader: builtIn{parser.NewParser(parser.Options{})},
	})
	if err := m.Update(s.opts.RuleInterval, []string{"teescope"}, labels.EmptyLabels(), "", evaluate); err != nil {
		return nil, fmt.Errorf("load recording rules: %w", err)
	}
	r := &recorder{Manager: m, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		m.Run()
	}()
	return r, nil
}

func (r *recorder) close() {
	r.Stop()
	<-r.done
}

// builtIn loads Rules where Prometheus would read a file.
type builtIn struct{ parser.Parser }

func (builtIn) Load(string, bool, model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	g := rulefmt.RuleGroup{Name: "recorded"}
	for _, r := range Rules {
		g.Rules = append(g.Rules, rulefmt.Rule{Record: r.Record, Expr: r.Expr})
	}
	return &rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{g}}, nil
}

func (b builtIn) Parse(query string) (parser.Expr, error) { return b.ParseExpr(query) }

// seldom passes one record in seldomEvery of each message: when the disk is full, Prometheus logs each series of each
// rule.
type seldom struct {
	slog.Handler
	said *said
}

const seldomEvery = 10 * time.Minute

type said struct {
	mu sync.Mutex
	at map[string]time.Time // by message; a library only has a limited number
}

// Handle passes a record on, or drops it.
func (h seldom) Handle(ctx context.Context, r slog.Record) error {
	h.said.mu.Lock()
	last, before := h.said.at[r.Message]
	since := r.Time.Sub(last)
	again := before && 0 <= since && since < seldomEvery
	if !again {
		h.said.at[r.Message] = r.Time
	}
	h.said.mu.Unlock()
	if again {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs shares the count with the handler that it derives from.
func (h seldom) WithAttrs(a []slog.Attr) slog.Handler {
	return seldom{h.Handler.WithAttrs(a), h.said}
}

// WithGroup shares the count with the handler that it derives from.
func (h seldom) WithGroup(name string) slog.Handler {
	return seldom{h.Handler.WithGroup(name), h.said}
}
