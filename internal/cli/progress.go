package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// progress prints an experiment's progress: on a terminal one line that is overwritten,
// otherwise a line for every tenth of the runs.
type progress struct {
	w        io.Writer
	terminal bool
	said     int             // tenths of the runs already printed
	waits    map[string]bool // already printed
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), said: -1, waits: map[string]bool{}}
}

func (p *progress) show(s bench.Progress) {
	if r := s.Last; r != nil && r.Status != result.OK {
		p.clear()
		fmt.Fprintf(p.w, "run %s %s: %s\n", r.ID, r.Status, r.Reason)
	}
	if s.Waits != "" {
		if p.waits[s.Waits] {
			return
		}
		p.waits[s.Waits] = true
		p.clear()
		fmt.Fprintf(p.w, "%s waits for %s\n", s.Doing, s.Waits)
		if !p.terminal {
			return
		}
	}
	left := ""
	if s.Left > 0 {
		left = ", about " + round(s.Left) + " left"
	}
	switch {
	case p.terminal && s.Last == nil:
		p.unfinished("%d of %d: %s%s", s.Done, s.Total, s.Doing, left)
	case p.terminal && s.Done == s.Total:
		p.clear()
	case p.terminal:
	case s.Last == nil && s.Left == 0:
		fmt.Fprintf(p.w, "%d of %d: %s\n", s.Done, s.Total, s.Doing)
	case s.Last == nil && s.Done*10/s.Total > p.said:
		p.said = s.Done * 10 / s.Total
		fmt.Fprintf(p.w, "%d of %d runs done%s\n", s.Done, s.Total, left)
	}
}

// clear clears the line of a terminal.
func (p *progress) clear() {
	if w, ok := p.w.(*printable.Writer); ok && p.terminal {
		_ = w.ClearLine() // as other errors of the progress
	}
}

// unfinished writes a line of a terminal that the next one overwrites.
func (p *progress) unfinished(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format, args...)
	if w, ok := p.w.(*printable.Writer); ok {
		_ = w.Flush()
	}
}

// unwrapped returns the stream to which a printable.Writer writes; any other stream is one itself.
func unwrapped(stream any) any {
	for {
		w, ok := stream.(*printable.Writer)
		if !ok {
			return stream
		}
		stream = w.Unwrap()
	}
}

// round rounds a duration for a reader: to 10 s above a minute, otherwise to 1 s.
func round(d time.Duration) string {
	if d > time.Minute {
		d = d.Round(10 * time.Second)
	}
	return metric.Length(d.Seconds())
}
