package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

// HistoryOptions say where and how long findings are kept.
type HistoryOptions struct {
	Path string
	// Max is the number of closed findings to keep, newest first, and Retention how long they are kept after their
	// end. Open ones are always kept. Only Max removes findings from the file: by a clock that is ahead all are old.
	Max       int
	Retention time.Duration
	// Now is the clock; Log receives errors.
	Now func() time.Time
	Log *slog.Logger
}

// History is the history of findings on disk. Each line is a finding as it opened, changed its severity or silence,
// or closed; the last line counts. Once a minute a short line records when the open ones were last seen. Its methods
// may be called from several goroutines.
type History struct {
	opts   HistoryOptions
	writer locked.Value[historyWriter]
}

// historyWriter writes the file.
type historyWriter struct {
	opts    HistoryOptions
	file    *Journal
	pending [][]byte             // lines not written yet
	written map[string]marked    // open findings, as in their last line
	open    map[string]time.Time // open findings, and when each was last seen
	seen    time.Time            // time of the last line about open findings
	short   int64                // size of the file when it was last shortened
	failing bool
}

// marked holds the fields of an open finding whose change is worth a new line.
type marked struct {
	severity Severity
	silenced string
	since    time.Time
	ended    bool
}

func markedOf(r Record) marked {
	return marked{r.Severity, r.Silenced, r.Since.Round(0).UTC(), r.Ended != nil}
}

// line is one line of the file; one field is set.
type line struct {
	Record *Record `json:"record,omitempty"`
	// Seen is when each open finding was last seen, by id.
	Seen map[string]time.Time `json:"seen,omitempty"`
}

// seenEvery bounds the age of the last-seen times in the file, and so their error after a crash.
const seenEvery = time.Minute

// OpenHistory opens or creates the history and returns its findings.
func OpenHistory(o HistoryOptions) (*History, []Record, error) {
	past := newFold()
	file, err := OpenJournal(o.Path, past.line)
	if err != nil {
		return nil, nil, fmt.Errorf("open the history of findings: %w", err)
	}
	if past.damaged > 0 {
		file.KeepDamaged()
	}
	if past.damaged > 0 || file.Kept != "" || len(past.lost) > 0 {
		o.Log.Error("the history of findings was damaged: lines that cannot be read are left out", "file", o.Path, "kept", file.Kept,
			"lines", past.damaged, "cut_bytes", file.Cut, "forgotten_findings", len(past.lost))
	} else if file.Cut > 0 {
		o.Log.Warn("the last line of the history of findings is incomplete and is left out: its write was interrupted, or the file was cut",
			"file", o.Path, "cut_bytes", file.Cut)
	}
	w := historyWriter{opts: o, file: file, written: map[string]marked{}}
	if past.damaged > 0 { // else each start would find it again
		if err := w.shorten(); err != nil {
			o.Log.Error("write the history of findings without its damaged lines", "error", err)
		}
	}
	list := o.retainedFindings(past, o.Retention)
	for i, r := range list {
		if now := r.NoLater(o.Now()); !sameTimes(now, r) { // the clock was ahead
			r, list[i] = now, now
			w.add(r)
		}
		if r.State == Open {
			w.written[r.ID] = markedOf(r)
		}
	}
	return &History{opts: o, writer: locked.New(w)}, list, nil
}

// WriteChanges writes the changes of an evaluation and the open findings. Lines that cannot be written are retried with the
// next call.
func (h *History) WriteChanges(changed, open []Record) {
	w := h.writer.Lock()
	defer h.writer.Unlock()
	for _, r := range changed {
		w.add(r)
	}
	w.open = make(map[string]time.Time, len(open))
	for _, r := range open {
		if m, ok := w.written[r.ID]; !ok || m != markedOf(r) {
			w.add(r)
		}
		w.open[r.ID] = r.LastSeen
	}
	now := h.opts.Now()
	if since := now.Sub(w.seen); len(w.open) > 0 && (since >= seenEvery || since < 0) {
		w.seen = now
		w.queueLine(line{Seen: w.open})
	}
	w.flush()
}

// add puts a finding into line.
func (w *historyWriter) add(r Record) {
	if r.State == Open {
		w.written[r.ID] = markedOf(r)
	} else {
		delete(w.written, r.ID)
	}
	r.Sentence, r.Age = "", 0 // of now
	w.queueLine(line{Record: &r})
}

func (w *historyWriter) queueLine(l line) {
	b, err := json.Marshal(l)
	if err != nil {
		w.opts.Log.Error("a finding has no form on disk", "error", err)
		return
	}
	w.pending = append(w.pending, b)
	if n := len(w.pending) - w.opts.Max; n > 0 { // the disk was full for days
		w.pending = slices.Delete(w.pending, 0, n)
	}
}

func (w *historyWriter) flush() {
	var err error
	if len(w.pending) > 0 {
		if err = w.file.Append(w.pending...); err == nil {
			w.pending = nil
		}
	}
	if err == nil && w.file.Size() > 2*w.short+1<<20 {
		err = w.shorten()
	}
	switch {
	case err != nil && !w.failing:
		w.opts.Log.Error("keep findings on disk; they are kept in memory and tried again", "error", err)
	case err == nil && w.failing && len(w.pending) == 0:
		w.opts.Log.Warn("findings are kept on disk again")
	}
	w.failing = err != nil
}

// shorten rewrites the file with one line for each finding that is kept.
func (w *historyWriter) shorten() error {
	past := newFold()
	if err := w.file.Read(past.line); err != nil {
		return err
	}
	if past.damaged > 0 {
		w.file.KeepDamaged()
	}
	var lines [][]byte
	for _, r := range w.opts.retainedFindings(past, math.MaxInt64) {
		b, err := json.Marshal(line{Record: &r})
		if err != nil {
			return err
		}
		lines = append(lines, b)
	}
	if err := w.file.Replace(lines...); err != nil {
		return err
	}
	w.short = w.file.Size()
	return nil
}

// retainedFindings returns the findings of a fold within Max that ended at most so long ago, oldest first.
func (o HistoryOptions) retainedFindings(past *fold, retention time.Duration) []Record {
	oldest := o.Now().Add(-retention)
	var open, closed []Record
	for _, r := range past.byID {
		switch {
		case r.State == Open:
			open = append(open, *r)
		case r.Until.After(oldest):
			closed = append(closed, *r)
		}
	}
	slices.SortFunc(closed, func(a, b Record) int { return b.Until.Compare(*a.Until) })
	out := append(open, closed[:min(len(closed), o.Max)]...)
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// All returns the last known state of each finding, oldest first.
func (h *History) All() ([]Record, error) {
	w := h.writer.Lock()
	file, pending := w.file, slices.Clone(w.pending)
	h.writer.Unlock()
	past := newFold()
	if err := file.Read(past.line); err != nil {
		return nil, fmt.Errorf("read the history of findings: %w", err)
	}
	for _, b := range pending {
		past.line(b)
	}
	out := h.opts.retainedFindings(past, h.opts.Retention)
	for i := range out {
		out[i] = out[i].NoLater(h.opts.Now())
	}
	return out, nil
}

// Unsaved returns the number of lines not yet written to disk.
func (h *History) Unsaved() int {
	held := h.writer.Lock()
	defer h.writer.Unlock()
	return len(held.pending)
}

// Close records when the open findings were last seen, and closes the file.
func (h *History) Close() error {
	w := h.writer.Lock()
	defer h.writer.Unlock()
	if len(w.open) > 0 {
		w.queueLine(line{Seen: w.open})
	}
	w.flush()
	return w.file.Close()
}

// fold reduces lines to the last state of each finding.
type fold struct {
	byID    map[string]*Record
	open    map[key]*Record // the last that opened
	lost    map[string]bool // ids of open ones without a line
	damaged int
}

func sameTimes(a, b Record) bool {
	return a.Since.Equal(b.Since) && a.LastSeen.Equal(b.LastSeen) && (a.Until == nil || a.Until.Equal(*b.Until))
}

func newFold() *fold {
	return &fold{byID: map[string]*Record{}, open: map[key]*Record{}, lost: map[string]bool{}}
}

// line takes one line of the file.
func (f *fold) line(b []byte) {
	var l line
	if json.Unmarshal(b, &l) != nil || (l.Record == nil) == (l.Seen == nil) {
		f.damaged++
		return
	}
	if l.Seen != nil {
		for id, at := range l.Seen {
			r := f.byID[id]
			switch {
			case r == nil:
				f.lost[id] = true
			case r.State == Open:
				r.LastSeen = at
			}
		}
		return
	}
	r := l.Record
	switch {
	case r.ID == "" || r.State != Open && r.State != Closed:
		f.damaged++
		return
	case r.State == Open:
		r.Until = nil
		k := keyOf(r.Finding)
		if old := f.open[k]; old != nil && old.ID != r.ID && old.State == Open {
			closeAtLastSeen(old) // the line that closed it is lost
		}
		f.open[k] = r
	case r.Until == nil:
		closeAtLastSeen(r)
	}
	f.byID[r.ID] = r
}

// closeAtLastSeen closes a finding at the time it was last seen.
func closeAtLastSeen(r *Record) {
	until := r.LastSeen
	r.State, r.Until = Closed, &until
}
