//go:build linux

package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/web"
)

// findingsKept is how many closed findings are kept on disk.
const findingsKept = 5000

var (
	findingDesc = &metric.Desc{Name: "teescope_finding_open", Kind: metric.Gauge, Labels: []string{"rule", "subject", "severity", "machine"},
		Help: "1 for each open finding, silenced or not, except early findings. subject is \"SUBJECT of UNIT\" if the finding is about one unit; machine is the instance that the finding is about."}
	unsavedDesc = &metric.Desc{Name: "teescope_findings_unsaved", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Lines of the findings history that are not on disk yet."}
	evaluationDesc = &metric.Desc{Name: "teescope_findings_evaluation_seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of the last evaluation of all rules in seconds; the next evaluation starts only after the last one ended."}
)

// FindingMetrics are the monitor's own metrics of findings.
var FindingMetrics = []*metric.Desc{findingDesc, unsavedDesc, evaluationDesc}

// acting is what happens to findings besides being shown: history, silences and
// notifications.
type acting struct {
	past     *findings.History
	silences *findings.Silences
	notifier *notify.Notifier
}

// act opens the files of findings below the data folder, and connects them to the
// engine's options.
func (m *monitor) act(ao *findings.Options) error {
	past, list, err := findings.OpenHistory(findings.HistoryOptions{Path: filepath.Join(m.Data, "findings.jsonl"),
		Max: findingsKept, Retention: m.Retention, Now: m.Host.Now, Log: m.Log})
	if err != nil {
		return err
	}
	silences, err := openSilences(filepath.Join(m.Data, "silences.json"), m.config.Analysis.Enabled(), m.Host.Now)
	if err != nil {
		m.Log.Warn("some silences cannot be loaded", "error", contain.OneLine(err))
	}
	no := notify.DefaultOptions()
	no.Dir, no.Now, no.Log, no.Instance = filepath.Join(m.Data, "queue"), m.Host.Now, m.Log, m.Platform.Hostname
	no.Fresh = 2 * ao.Interval
	m.acting = acting{past, silences, notify.New(no)}
	ao.Past, ao.Silences, ao.Observe = list, silences, m.logFinding
	ao.Evaluated = func(changed, open []findings.Record) {
		m.notifier.QueueChanges(changed, open) // first: after a crash, findings missing from the history are reported as closed, not forgotten
		m.past.WriteChanges(changed, open)
	}
	return nil
}

func (a acting) close() error { return errors.Join(a.notifier.Close(), a.past.Close()) }

// openSilences reads the silences kept in a file. The error lists invalid ones; known
// are the existing rules.
func openSilences(path string, known []*findings.Rule, now func() time.Time) (*findings.Silences, error) {
	var kept web.Silences
	err := load(path, &kept)
	s, bad := findings.NewSilences(kept.Silences, known, now, func(list []findings.Silence) error {
		return save(path, web.Silences{Silences: list})
	})
	return s, errors.Join(err, bad)
}

// settingsLimit is the maximum size of a file of settings made on the page.
const settingsLimit = 4 << 20

// load reads a file of settings made on the page; a missing file is empty. A damaged
// file is moved aside, so the next change does not overwrite it.
func load(path string, v any) error {
	b, err := findings.ReadFile(path, settingsLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		aside := path + ".damaged"
		err = errors.Join(fmt.Errorf("read %s: %w; the file is now %s", path, err, aside), os.Rename(path, aside))
	}
	return err
}

func save(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = findings.WriteFile(path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", web.ErrNotKept, err)
	}
	return nil
}

// history selects from all stored findings, in their current state. Findings that
// charts request often are in memory.
func (m *monitor) history(ctx context.Context, f findings.Filter) ([]findings.Record, error) {
	if f.Machine != (query.Machine{}) && f.On == nil {
		owner, err := m.fleet.Owner(ctx)
		if err != nil {
			return nil, err
		}
		f.On = func(of query.Machine) bool { return owner(of) == f.Machine }
	}
	if m.past == nil || m.analysis.Complete(f.From) {
		return f.Select(m.analysis.Records()), nil
	}
	list, err := m.past.All()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, r := range list {
		at[r.ID] = i
	}
	for _, r := range m.analysis.Records() {
		if i, ok := at[r.ID]; ok {
			list[i] = r
		} else {
			list = append(list, r)
		}
	}
	for i, r := range list {
		list[i] = r.WithSentence(m.Host.Now(), 2*time.Duration(m.slowest.Load()))
	}
	return f.Select(list), nil
}

// collectFindings emits the metrics of findings.
func (m *monitor) collectFindings(emit func(metric.Sample)) {
	told := map[string]bool{} // two jobs may call a machine the same
	for _, r := range m.analysis.Records() {
		labels := []string{r.Rule, r.Whom(), string(r.Severity), r.Instance}
		if key := strings.Join(labels, "\x00"); r.State == findings.Open && !r.Early && !told[key] {
			told[key] = true
			emit(metric.Sample{Desc: findingDesc, Labels: labels, Value: 1})
		}
	}
	if took, ok := m.analysis.EvaluationTime(); ok {
		emit(metric.Sample{Desc: evaluationDesc, Value: took.Seconds()})
	}
	if m.past == nil { // nothing is kept, and nobody is notified
		return
	}
	emit(metric.Sample{Desc: unsavedDesc, Value: float64(m.past.Unsaved())})
	m.notifier.Collect(emit)
}

// logFinding logs findings that open and close, unless a silence covers them or they are early, with the problem that they are part of
// and the number of open ones.
func (m *monitor) logFinding(r findings.Record) {
	if r.Silenced != "" || r.Early {
		return
	}
	word := "finding"
	if r.State == findings.Closed {
		word = "finding closed"
	}
	words := []any{"id", r.ID, "rule", r.Rule, "severity", r.Severity, "title", cmp.Or(r.Sentence, r.Title)}
	problems := findings.Problems(m.analysis.Records())
	if i := slices.IndexFunc(problems, func(p findings.Problem) bool { return p.Has(r.ID) }); i >= 0 {
		words = append(words, "problem", problems[i].Title)
	}
	m.Log.Warn(word, append(words, "problems", len(problems))...)
}
