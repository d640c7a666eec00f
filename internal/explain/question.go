package explain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// Question is the input of an explanation.
type Question struct {
	Process string
	// Job and Instance are the machine; they may be left out where only one has such a process.
	Job, Instance string
	From, To      time.Time
	// Least is the shortest window, which holds two readings whatever their phase; 0 is that of the default interval.
	Least time.Duration
	// PerRequest divides by the process's own requests instead of seconds.
	PerRequest bool
	// Places returns where a machine's processes may run now, by name; nil when unknown. May be nil.
	Places func(query.Machine) map[string]rivals.Place
}

// places returns where the processes of the question's machine may run, by name; nil when unknown.
func (q Question) places() map[string]rivals.Place {
	if q.Places == nil {
		return nil
	}
	return q.Places(query.Machine{Job: q.Job, Instance: q.Instance})
}

// Longest is the longest window of a question: every reading in it is read once.
const Longest = 24 * time.Hour

// shortest is the shortest window at the default interval of 5 s.
const shortest = 10 * time.Second

func (q Question) least() time.Duration { return cmp.Or(q.Least, shortest) }

// Refusal is the error of a question that cannot be answered as asked.
type Refusal struct {
	// NotFound: the process or machine in the question does not exist.
	NotFound bool
	Reason   string
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{Reason: fmt.Sprintf(format, args...)} }

func (q Question) check() error {
	switch window := q.To.Sub(q.From); {
	case q.Process == "":
		return refuse("name a process")
	case window < q.least():
		return refuse("from %s to %s: want a window of at least %v", q.From.Format(time.RFC3339), q.To.Format(time.RFC3339), q.least())
	case window > Longest:
		return refuse("a window of %v is too long; want at most %v", window.Round(time.Second), Longest)
	}
	return nil
}

// processSeries have the label process and exist for every active process.
const processSeries = `__name__=~"tee_sampled_cpu_seconds_total|tee_process_cpu_seconds_total|tee_syscalls_total"`

// located returns the question with its machine, and with the name that the kernel keeps of a longer one.
func (q Question) located(ctx context.Context, db query.Querier) (Question, error) {
	// The query does not select by name, so a wrong name can be answered with similar ones.
	points, err := db.Query(ctx, fmt.Sprintf("count by (job, instance, process) (last_over_time({%s}[%s]))",
		processSeries, query.PromDuration(q.To.Sub(q.From))), q.To)
	if err != nil {
		return q, err
	}
	if called := func(p metric.Point) bool { return p.Labels["process"] == q.Process }; !slices.ContainsFunc(points, called) && len(q.Process) > metric.NameBytes {
		asked := q.Process
		q.Process = metric.Label(metric.CutName(asked))
		if !slices.ContainsFunc(points, called) {
			q.Process = asked
		}
	}
	var names, machines []string
	for _, p := range points {
		name, instance := p.Labels["process"], p.Labels["instance"]
		switch {
		case name != q.Process:
			names = append(names, name)
		case (q.Instance == "" || q.Instance == instance) && (q.Job == "" || q.Job == p.Labels["job"]):
			machines = append(machines, instance)
		default:
			names = append(names, name+" on "+instance)
		}
	}
	slices.Sort(machines)
	if q.Job == "" && len(machines) > 1 && len(slices.Compact(slices.Clone(machines))) < len(machines) {
		return q, refuse("there is a process %q on several machines called %s; name the job, too", q.Process, machines[0])
	}
	switch len(machines) {
	case 1:
		q.Instance = machines[0]
		return q, nil
	case 0:
		return q, &Refusal{NotFound: true, Reason: q.unknown(names)}
	}
	return q, refuse("there is a process %q on several machines; name one of %s as instance", q.Process, strings.Join(machines, ", "))
}

// series returns the matchers of the machine's series, and those in more.
func (q Question) series(more ...string) string {
	if q.Job != "" {
		more = append(more, "job", q.Job)
	}
	return query.MatchersFor(append(more, "instance", q.Instance)...)
}

// mostRestarts is how many restarts in a window are those of a service. A name with more is that of many short processes,
// which are explained together.
const mostRestarts = 2

// sinceFirstSeen narrows the window to start when the process was first seen, so rates do not average over a time in which it,
// or the monitor, did not run. Of a service that was restarted in the window the last life counts.
func (q Question) sinceFirstSeen(ctx context.Context, db query.Querier) (Question, error) {
	window := q.To.Sub(q.From)
	step := max(5*time.Second, (window / 720).Truncate(time.Second))
	points, err := db.Query(ctx, fmt.Sprintf("min_over_time(timestamp(count({%s,%s}))[%s:%s])",
		processSeries, q.series("process", q.Process), query.PromDuration(window), query.PromDuration(step)), q.To)
	if err != nil {
		return q, err
	}
	if len(points) == 1 {
		first := time.UnixMilli(int64(points[0].Value * 1000)).In(q.To.Location())
		if latest := q.To.Add(-q.least()); first.After(latest) {
			first = latest
		}
		if first.Sub(q.From) > 2*step {
			q.From = first
		}
	}
	starts := fmt.Sprintf("%s{%s}[%s]", query.StartTime, q.series("process", q.Process), query.PromDuration(window))
	points, err = db.Query(ctx, fmt.Sprintf("max(max_over_time(%s)) and max(changes(%[1]s)) <= %d", starts, mostRestarts), q.To)
	if err != nil {
		return q, err
	}
	if len(points) == 1 {
		started := time.Unix(int64(math.Ceil(points[0].Value)), 0).In(q.To.Location())
		if started.After(q.From) && q.To.Sub(started) >= q.least() {
			q.From = started
		}
	}
	return q, nil
}

// unknown returns the error for a process that does not exist, which lists those that do.
func (q Question) unknown(names []string) string {
	why := fmt.Sprintf("no process %q was seen between %s and %s", q.Process, q.From.Format(time.RFC3339), q.To.Format(time.RFC3339))
	if q.Instance != "" {
		why += fmt.Sprintf(" on %q", q.Instance)
	}
	if len(names) == 0 {
		return why + ", nor any other: was the monitor running then?"
	}
	names = metric.Nearest(q.Process, names)
	var quoted []string
	for _, n := range names[:min(5, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return why + "; there were " + strings.Join(quoted, ", ")
}
