package bpf

// The user-space side of guestspan.h: number, failures and time of the calls of a kernel function. The programs of
// conversions and reports share it.

// Cells of a function in guestspan.h.
const (
	spanCalls = iota
	spanUnits
	spanDone
	spanFailed
	spanHist
	spanCells = spanHist + histCells
)

// Span holds the counts of a kernel function since the program was attached.
type Span struct {
	// Calls and the amount that they requested, in the function's own unit; Begun says
	// that they are counted.
	Calls, Units uint64
	Begun        bool
	// Failed are the calls that returned an error, Time is how long calls took; Ended
	// says that they are counted.
	Failed uint64
	Time   Latency
	Ended  bool
}

// span reads the i-th function of an object, whose entry and return are the hooks with
// those names.
func (c *Counters) span(i int, function string) (s Span) {
	cells := c.counts()
	if s.Begun = c.has(entryOf(function)); s.Begun {
		s.Calls, s.Units = cells.sum(i*spanCells+spanCalls), cells.sum(i*spanCells+spanUnits)
	}
	if s.Ended = s.Begun && c.has(exitOf(function)); s.Ended {
		s.Failed = cells.sum(i*spanCells + spanFailed)
		cells.addTo(&s.Time, i*spanCells+spanHist)
	}
	return s
}

func entryOf(function string) string { return function + " entry" }
func exitOf(function string) string  { return function + " return" }

// spanHooks are the hooks of a function's two ends, whose programs begin with name;
// kprobes says that the object has such programs too. The return comes first, because a
// call that begins before it is attached would never end.
func spanHooks(name, function string, kprobes bool) []hook {
	entry, exit := []variant{{name + "_fentry", typed}}, []variant{{name + "_fexit", typed}}
	if kprobes {
		entry = append(entry, variant{name + "_kprobe", kprobe(function)})
		exit = append(exit, variant{name + "_kretprobe", returnOf(function)})
	}
	return []hook{{name: exitOf(function), variants: exit}, {name: entryOf(function), variants: entry}}
}
