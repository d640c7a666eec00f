package load

import (
	"context"
	"fmt"
	"time"
)

// slow is how long a server may take to start before the load says that it waits.
const slow = 2 * time.Second

// awaited is a server that may not be ready yet.
type awaited struct {
	began   time.Time
	most    time.Duration
	waiting func(what string) // nil: nobody is told, or all has been said
	last    error             // of the try before
}

func (o *Options) awaited() *awaited {
	w := &awaited{began: time.Now(), most: o.Wait, waiting: o.Waiting}
	if o.Start > 0 {
		w.most = o.Start
	}
	return w
}

// again returns nil if a try that failed is worth another, or else why not.
func (w *awaited) again(ctx context.Context, err error) error {
	waited := time.Since(w.began)
	switch {
	case ctx.Err() != nil && w.last != nil: // that of this try is about the context
		return fmt.Errorf("the server was not ready after %v: %w: %w", waited.Round(time.Millisecond), w.last, ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case hopeless(err):
		return err
	case waited > w.most:
		return fmt.Errorf("the server did not become ready within %v: %w", w.most, err)
	case waited > slow && w.waiting != nil:
		w.waiting("the server: " + err.Error())
		w.waiting = nil
	}
	w.last = err
	return nil
}
