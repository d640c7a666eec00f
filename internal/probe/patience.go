package probe

// Reads that can hang, such as of a network file system, must not stop a round. A call runs in a goroutine of its own;
// after its patience the round goes on without it, and the source is not called again until the call has ended.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// A kernel file or a network file system can block forever.
var (
	// patience limits a reading of a source.
	patience = host.Patience(2 * time.Second)
	// openPatience limits opening: a slow machine needs seconds to read the kernel's
	// types and to verify programs, for several sources in parallel.
	openPatience = host.Patience(20 * time.Second)
)

// parts is the number of timers that a patience is divided into. A timer runs longer
// while the process has no CPU, as when a hypervisor stops the machine, and the
// awaited call cannot proceed in that time either.
const parts = 20

// WithPatience is context.WithTimeout for calls that may hang: a time in which this
// process cannot run counts as one part at most.
func WithPatience(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		waitFor(ctx.Done(), patience)
	}()
	return ctx, cancel
}

// waitFor waits until done is closed, and reports whether that happened before the patience ended.
func waitFor(done <-chan struct{}, patience time.Duration) bool {
	part := time.NewTimer(patience / parts)
	defer part.Stop()
	for range parts {
		select {
		case <-done:
			return true
		case <-part.C:
			part.Reset(patience / parts)
		}
	}
	select {
	case <-done: // both happened while this waited for a CPU
		return true
	default:
		return false
	}
}

// patient makes calls that may hang, one at a time.
type patient struct {
	// stuck is closed when a call that did not end in time has ended; nil where
	// none is under way.
	stuck chan struct{}
}

// inTime runs f and reports whether it ended in time. If not, f continues, and p
// stays unused until f has ended.
func (p *patient) inTime(patience time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	if waitFor(done, patience) {
		return true
	}
	p.stuck = done
	return false
}

// waiting reports whether a late call is still running.
func (p *patient) waiting() bool {
	select {
	case <-p.stuck: // a nil channel blocks
		p.stuck = nil
	default:
	}
	return p.stuck != nil
}

// late is the error of a source that did not answer in time.
func (e *Engine) late(what string, patience time.Duration) error {
	err := fmt.Errorf("%s has not ended after %v", what, patience)
	if files := e.host.Blocked(patience / 2); len(files) > 0 {
		waits := func(files []string) string {
			return fmt.Sprintf("%s has not ended after %v: it waits for %s", what, patience, strings.Join(files, ", "))
		}
		var shown []string
		for _, f := range files {
			shown = append(shown, host.PublicName(f, "a file of a user"))
		}
		err = &host.Private{Text: waits(files), Shown: waits(slices.Compact(shown))}
	}
	return &Problem{Err: err, Remedy: "check the driver, or the server of the file system, that blocks; the source waits until the call ends"}
}

// openInTime opens a source. It closes a reader that arrives too late.
func (e *Engine) openInTime(l *live) (Reader, error) {
	var out struct {
		Reader
		error
	}
	open := func() (err error) { out.Reader, err = l.Source.Open(e.host, e.facts); return err }
	if l.inTime(openPatience, func() { out.error = l.call("opening", open) }) {
		return out.Reader, out.error
	}
	go func(done <-chan struct{}) {
		<-done
		if out.Reader != nil {
			_ = l.call("closing", out.Reader.Close)
		}
	}(l.stuck)
	return nil, e.late("opening it", openPatience)
}

// readInTime reads a source into a buffer that is valid until the next reading.
func (e *Engine) readInTime(ctx context.Context, l *live) ([]metric.Sample, error) {
	if l.waiting() {
		return nil, e.late("an earlier reading", patience)
	}
	out := struct {
		samples []metric.Sample
		err     error
	}{samples: l.samples[:0]}
	r := l.reader
	l.samples = nil
	if !l.inTime(patience, func() {
		// What it emitted before a panic is as good as before an error.
		out.err = l.call("reading", func() error {
			return r.Read(ctx, func(s metric.Sample) { out.samples = append(out.samples, s) })
		})
	}) {
		return nil, e.late("reading it", patience)
	}
	l.samples = out.samples
	return out.samples, out.err
}
