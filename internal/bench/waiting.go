package bench

import (
	"strings"
	"sync"
	"time"
)

// slow is how long a server may take to start before progress says that the run waits for it.
var slow = 2 * time.Second

// waiting reports to Options.Progress what a run waits for.
type waiting struct {
	mu    sync.Mutex // held during calls of Progress, so they come one at a time, and none after the run
	step  Progress
	tell  func(Progress)
	what  string
	timer *time.Timer
	over  bool
}

// waited returns a job whose waits are reported, and a function to call after its run.
func (s *session) waited(job Job) (Job, func()) {
	if s.o.Progress == nil || job.Outside == nil {
		return job, func() {}
	}
	w := &waiting{step: s.doing, tell: s.o.Progress}
	job.Waiting = w.begin
	if job.Waits != "" && job.Window[0] != "" {
		outside := *job.Outside
		hears := outside.Heard
		outside.Heard = func(line string) (answer string) {
			if what, ok := strings.CutPrefix(line, job.Waits); ok {
				w.now(what)
			}
			if hears != nil {
				answer = hears(line)
			}
			return answer
		}
		job.Outside = &outside
	}
	return job, w.finish
}

// begin starts to wait for something, or for nothing.
func (w *waiting) begin(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.what = what; what != "" && !w.over {
		w.timer = time.AfterFunc(slow, func() { w.late(what) })
	}
}

// late says what is still waited for.
func (w *waiting) late(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what == what && !w.over {
		w.reportWait(what)
	}
}

// now says what has been waited for.
func (w *waiting) now(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.reportWait(what)
	}
}

func (w *waiting) reportWait(what string) {
	p := w.step
	p.Waits = what
	w.tell(p)
}

// finish waits for a report that is under way, and allows no more.
func (w *waiting) finish() {
	w.begin("")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}
