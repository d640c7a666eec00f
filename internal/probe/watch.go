package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// Waits is what a source waits for that is too expensive to be always on: a process
// that maps a certain file, such as the device of enclaves or the library of a
// runtime. Unless a setting says on or off, the source is on while one runs.
type Waits struct {
	// For completes "off until": "a process has an enclave".
	For string
	// Maps returns the file that shows it, of those that a process maps, or "". It is
	// called for each process, so it must be cheap.
	Maps func(files []string) string
}

const (
	// lookEvery is the time between two looks at the processes.
	lookEvery = 10 * time.Second
	// linger is how long a source stays on after a look last saw what it waits for, so
	// that a server which restarts does not end its series.
	linger = time.Minute
)

// watch looks for the processes that sources wait for.
type watch struct {
	patient
	processes Processes
	waits     []*Waits
	// found holds, by process id, the file that each source waits for or "". Processes
	// without such a file are not in it.
	found map[int][]string
	// hidden are the processes whose mappings may not be read.
	hidden map[int]bool
}

// sight is a process that a source waits for; the zero sight is none.
type sight struct {
	pid           int
	process, file string
}

// scan updates found. It reads the mappings of new processes and of those found.
func (w *watch) scan() error {
	if w.processes.Begin() {
		clear(w.hidden)
	}
	for _, pid := range slices.Collect(maps.Keys(w.found)) { // it may have ended
		w.examine(pid)
	}
	_, err := w.processes.Each(w.examine)
	return err
}

// examine reads the mappings of a process.
func (w *watch) examine(pid int) {
	delete(w.found, pid)
	mapped, err := Mapped(w.processes.Host, pid)
	if errors.Is(err, fs.ErrPermission) {
		w.hidden[pid] = true
	}
	if len(mapped) == 0 { // it has ended, may not be read, or is a thread of the kernel
		return
	}
	paths := make([]string, len(mapped))
	for i, m := range mapped {
		paths[i] = m.Path
	}
	files := make([]string, len(w.waits))
	for i, s := range w.waits {
		files[i] = s.Maps(paths)
	}
	if slices.ContainsFunc(files, func(f string) bool { return f != "" }) {
		w.found[pid] = files
	}
}

// sights returns the first process that each source waits for.
func (w *watch) sights() []sight {
	out := make([]sight, len(w.waits))
	for _, pid := range slices.Sorted(maps.Keys(w.found)) {
		for i, file := range w.found[pid] {
			if file == "" || out[i].file != "" {
				continue
			}
			name, _ := w.processes.Host.ReadString(fmt.Sprintf("/proc/%d/comm", pid)) // it may have ended since
			out[i] = sight{pid, metric.Label(cmp.Or(name, strconv.Itoa(pid))), metric.Label(host.PublicName(file, "such a file"))}
		}
	}
	return out
}

// Watch looks for what sources wait for, and switches them, until ctx ends.
func (e *Engine) Watch(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.FollowProcesses()
		}
	}
}

// FollowProcesses looks once: it opens sources whose process runs, and closes those whose process
// has been gone for a minute. A source that a setting has on or off stays as it is.
func (e *Engine) FollowProcesses() {
	w := e.watch.Lock()
	defer e.watch.Unlock()
	if len(w.waits) == 0 {
		return
	}
	seen, err := e.lookInTime(w)
	defer e.sources.Unlock()
	i := 0
	for _, l := range *e.sources.Lock() {
		if l.Source.Waits == nil {
			continue
		}
		switch {
		case err != nil:
			l.unseen(host.PublicText(err))
		default:
			e.follow(l, seen[i])
			if n := len(w.hidden); n > 0 {
				l.unseen(fmt.Sprintf("without CAP_SYS_PTRACE %d of the processes cannot be inspected", n))
			}
		}
		i++
	}
}

// lookInTime looks and returns the process that each waiting source waits for.
func (e *Engine) lookInTime(w *watch) ([]sight, error) {
	if w.waiting() {
		return nil, e.late("an earlier look at the processes", patience)
	}
	result := make(chan error, 1)
	if !w.inTime(patience, func() { result <- contain.Call("looking at the processes", w.scan) }) {
		return nil, e.late("looking at the processes", patience)
	}
	if err := <-result; err != nil {
		return nil, err
	}
	return w.sights(), nil
}

// follow switches a source by what was seen.
func (e *Engine) follow(l *live, s sight) {
	now := e.host.Now()
	if s.file != "" {
		l.sight, l.seen = s, now
		l.Seen = fmt.Sprintf("process %s (%d) maps %s", s.process, s.pid, s.file)
		if l.Auto && l.off {
			l.off = false
			if err := e.open(l); err != nil {
				e.note(l, err)
			}
		}
		return
	}
	if now.Sub(l.seen) < linger {
		l.Seen = fmt.Sprintf("process %s (%d) no longer maps %s", l.sight.process, l.sight.pid, l.sight.file)
		return
	}
	l.Seen = ""
	if !l.Auto {
		return
	}
	if !l.off {
		l.off = true
		_ = e.close(l) // there is no caller to tell, and nothing to do about it
	}
	l.rest()
}

// rest sets the state of a source that is off.
func (l *live) rest() {
	l.State, l.Reason, l.Remedy, l.Blind, l.Series = Off, "switched off", switchOn(l.Source.Name), false, 0
	if l.Auto {
		l.Reason, l.Remedy = "off until "+l.Source.Waits.For, "it then switches on automatically; sources."+l.Source.Name+".on overrides this"
	}
}

// unseen adds why what a source waits for may run unseen.
func (l *live) unseen(why string) {
	if l.Auto && l.off {
		l.rest()
		l.Reason += " (" + why + ")"
	}
}
