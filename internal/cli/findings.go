package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/web"
)

// findingsKept is how many closed findings are kept on disk.
const findingsKept = 5000

// What the monitor says of findings.
var (
	findingDesc = &metric.Desc{Name: "teescope_finding_open", Kind: metric.Gauge, Labels: []string{"rule", "subject", "severity"},
		Help: "1 for each finding that is open, silenced or not."}
	unsavedDesc = &metric.Desc{Name: "teescope_findings_unsaved", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Lines of the history of findings that are not on disk yet."}
)

// findingMetrics lists them.
var findingMetrics = []*metric.Desc{findingDesc, unsavedDesc}

// acting is what becomes of findings beside being shown: they are remembered,
// silenced and told.
type acting struct {
	past     *findings.History
	silences *findings.Silences
	notifier *notify.Notifier
}

// act opens what findings are kept in, below the data folder, and ties it to the
// options of the engine.
func (m *monitor) act(ao *findings.Options) error {
	past, list, err := findings.OpenHistory(findings.HistoryOptions{Path: filepath.Join(m.data, "findings.jsonl"),
		Max: findingsKept, Retention: time.Duration(m.retention), Now: m.host.Now, Log: m.log})
	if err != nil {
		return err
	}
	silences, err := openSilences(filepath.Join(m.data, "silences.json"), m.config.Analysis.rules(), m.host.Now)
	if err != nil {
		m.log.Warn("some silences cannot be loaded", "error", oneLine(err))
	}
	no := notify.DefaultOptions()
	no.Dir, no.Now, no.Log, no.Instance = filepath.Join(m.data, "queue"), m.host.Now, m.log, m.platform.Hostname
	m.acting = acting{past, silences, notify.New(no)}
	ao.Past, ao.Silences, ao.Observe = list, silences, m.logFinding
	ao.Evaluated = func(changed, open []findings.Record) {
		m.notifier.Tell(changed, open) // first: what the history lacks after a crash is told of as closed, not forgotten
		m.past.Keep(changed, open)
	}
	return nil
}

func (a acting) close() error { return errors.Join(a.notifier.Close(), a.past.Close()) }

// openSilences reads the silences that are kept in a file. What is wrong with some
// is in the error; known are the rules that there are.
func openSilences(path string, known []*findings.Rule, now func() time.Time) (*findings.Silences, error) {
	var kept web.Silences
	err := load(path, &kept)
	s, bad := findings.NewSilences(kept.Silences, known, now, func(list []findings.Silence) error {
		return save(path, web.Silences{Silences: list})
	})
	return s, errors.Join(err, bad)
}

// settingsLimit is the most that a file of settings made on the page may hold.
const settingsLimit = 4 << 20

// load reads a file of settings made on the page; one that is not there is empty.
// One that cannot be understood is moved aside, so that the next change does not
// write over it.
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
		err = errors.Join(fmt.Errorf("read %s: %w; it is now %s", path, err, aside), os.Rename(path, aside))
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

// history selects from all findings that are kept, as they are now. What charts ask
// for again and again is in memory.
func (m *monitor) history(f findings.Filter) ([]findings.Record, error) {
	if m.analysis.Complete(f.From) {
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
	return f.Select(list), nil
}

// collectFindings emits the metrics of findings.
func (m *monitor) collectFindings(emit func(metric.Sample)) {
	for _, r := range m.analysis.Records() {
		if r.State == findings.Open {
			emit(metric.Sample{Desc: findingDesc, Labels: []string{r.Rule, r.Subject, string(r.Severity)}, Value: 1})
		}
	}
	emit(metric.Sample{Desc: unsavedDesc, Value: float64(m.past.Unsaved())})
	m.notifier.Collect(emit)
}

// logFinding says what opened and closed, unless a silence covers it.
func (m *monitor) logFinding(r findings.Record) {
	if r.Silenced != "" {
		return
	}
	word := "finding"
	if r.State == findings.Closed {
		word = "finding closed"
	}
	m.log.Warn(word, "id", r.ID, "rule", r.Rule, "severity", r.Severity, "title", r.Title)
}
