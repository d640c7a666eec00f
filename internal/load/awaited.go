//go:build linux

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// slow is how long a server may take to start before the load says that it waits.
const slow = 2 * time.Second

// awaited is a server that may not be ready yet.
type awaited struct {
	began       time.Time
	answered    time.Time         // when the first answer came, a wrong one; zero before
	start, wait time.Duration     // the longest wait for an answer, and for a right one from then on
	waiting     func(what string) // nil: nobody is told, or all has been said
	last        error             // of the try before
}

func (o *Options) awaited() *awaited {
	return &awaited{began: time.Now(), start: cmp.Or(o.Start, o.Wait), wait: o.Wait, waiting: o.Waiting}
}

// whyNotAgain returns nil if a try that failed is worth another, or else why not.
func (w *awaited) whyNotAgain(ctx context.Context, err error) error {
	since, most := w.began, w.start
	if w.answered.IsZero() && !silent(err) && ctx.Err() == nil {
		w.answered = time.Now()
	}
	if !w.answered.IsZero() {
		since, most = w.answered, w.wait
	}
	waited := time.Since(since)
	switch {
	case ctx.Err() != nil && w.last != nil: // that of this try is about the context
		return fmt.Errorf("the server was not ready after %v: %w: %w", time.Since(w.began).Round(time.Millisecond), w.last, ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case hopeless(err):
		return err
	case waited > most:
		return fmt.Errorf("the server did not become ready within %v: %w", most, err)
	case waited > slow && w.waiting != nil:
		w.waiting("the server: " + err.Error())
		w.waiting = nil
	}
	w.last = err
	return nil
}

// silent reports whether an error is that of a server, or of a forwarder before it, that has not started.
func silent(err error) bool {
	switch kindOf(err) {
	case "refused", "reset", "closed", timedOut:
		return true
	}
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial" // no route yet, say
}
