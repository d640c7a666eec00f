// Package contain keeps a panic in one member of a list (a source, a rule, a detector) from ending the process. The
// engines that run members use it, each in one place.
package contain

import (
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Panic is the error of a member that panicked.
type Panic struct {
	// What was being done, such as "reading source network".
	What  string
	Value any
	// At is the line of code.
	At string
}

// Error says what broke, and what to do.
func (p *Panic) Error() string {
	return fmt.Sprintf("%s crashed: %v (%s); this is a bug in teescope: please report it with the trace in the log", p.What, p.Value, p.At)
}

// Call returns the error of do. A panic of do is the error of type *Panic; its trace is logged when it happens at that
// line for the first time.
func Call(what string, do func() error) (err error) {
	defer Recover(&err, what)
	return do()
}

// Recover is deferred by a function that calls a member: it makes a panic the function's error, as Call does. What was being
// done is joined from words only then, for who calls members a hundred times a second.
func Recover(err *error, what ...string) {
	if v := recover(); v != nil {
		*err = Recovered(strings.Join(what, " "), v)
	}
}

// Recovered returns the error of a panic, and logs it as Call does, for a deferred function that has recovered v itself.
func Recovered(what string, v any) error {
	p := &Panic{what, v, line()}
	if _, known := logged.LoadOrStore(what+" "+p.At, true); !known {
		slog.Error(p.Error(), "trace", string(debug.Stack()))
	}
	return p
}

// Panicking reports whether the caller runs in a deferred function because of a panic, which it does not end.
func Panicking() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		f, more := frames.Next()
		if f.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// logged has what was logged. It holds no more than there are members and lines of code.
var logged sync.Map

// line is the line that panicked: the first of the stack above the panic that is not of the runtime.
func line() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		of := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !of {
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return "an unknown line"
		}
	}
}
