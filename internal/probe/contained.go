package probe

import "github.com/teescope/teescope/internal/contain"

// The engine calls sources and their readers here only: a panic in one is its error, and ends nothing else.

// call calls a function of the source.
func (l *live) call(doing string, do func() error) (err error) {
	defer contain.Recover(&err, doing, "source", l.Source.Name)
	return do()
}

// adjust sets the level and the scope of a reader that has them.
func (l *live) adjust(r Reader, level string, scope Scope) error {
	a, ok := r.(Adjustable)
	if !ok {
		return nil
	}
	return l.call("adjusting", func() error { return a.Adjust(level, scope) })
}

// useFiles names the user's files to a reader that reads such.
func (l *live) useFiles() error {
	f, ok := l.reader.(Follower)
	if !ok {
		return nil
	}
	return l.call("setting the files of", func() error { return f.Follow(l.Files) })
}

// contained is the reader of a source that the governor switches.
type contained struct {
	*live
	governed Governed
}

// Attach implements Governed.
func (c contained) Attach() error { return c.call("attaching", c.governed.Attach) }

// Detach implements Governed.
func (c contained) Detach() error { return c.call("detaching", c.governed.Detach) }

// Spent implements Governed.
func (c contained) Spent() (events float64, seconds []float64) {
	_ = c.call("asking for the cost of", func() error { events, seconds = c.governed.Spent(); return nil }) // it was logged
	return events, seconds
}

// Limit implements Governed.
func (c contained) Limit(most []float64, reached func()) (can bool) {
	_ = c.call("limiting", func() error { can = c.governed.Limit(most, reached); return nil }) // it was logged
	return can
}
