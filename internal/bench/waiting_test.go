package bench

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// slowServer is an environment whose server starts when progress has said that it is waited for.
type slowServer struct {
	*scripted
	told chan string
	line string // that the load prints; "": the launcher waits for a line of the server
}

func (s slowServer) Run(ctx context.Context, j Job) (Outcome, error) {
	if j.Inside.Argv[0] == "job" {
		if s.line != "" {
			if answer := j.Outside.Heard(s.line); answer != "" {
				s.t.Errorf("the load is answered %q", answer)
			}
		} else {
			j.Waiting(`the line "up" of job`)
		}
		<-s.told
		j.Waiting("")
	}
	return s.scripted.Run(ctx, j)
}

// TestWaitsAreTold: progress says what each run waits for, the first one, which is not counted, too, and nothing of a server
// that is there.
func TestWaitsAreTold(t *testing.T) {
	defer func(was time.Duration) { slow = was }(slow)
	slow = time.Millisecond
	for line, want := range map[string]string{"": `the line "up" of job`, "note: it waits for the server: refused": "the server: refused"} {
		t.Run(line, func(t *testing.T) {
			told := make(chan string, 1)
			p, o, _ := bed(t, 2, map[string]*scripted{"native": {factor: 1}, "tee": {factor: 1.5}})
			p.Workload.Job = func(Params) (Job, error) {
				return Job{Inside: host.Cmd{Argv: []string{"job"}}, Outside: &host.Cmd{Argv: []string{"load"}}, Window: [2]string{"from here", "to here"}, Waits: "note: it waits for "}, nil
			}
			plain := p.Arms[1].Launcher.Open
			p.Arms[1].Launcher.Open = func(ctx context.Context, h *host.Host, ps Params) (Environment, error) {
				e, err := plain(ctx, h, ps)
				return slowServer{e.(*scripted), told, line}, err
			}
			var waits []string
			o.Progress = func(p Progress) {
				if p.Waits != "" {
					waits = append(waits, p.Doing+" waits for "+p.Waits)
					told <- p.Waits
				}
			}
			e, err := Run(t.Context(), p, o, filepath.Join(t.TempDir(), "r.json"))
			if err != nil {
				t.Fatal(err)
			}
			expected := []string{"first run in tee (not part of the result) waits for " + want}
			for i := range e.Runs {
				if r := &e.Runs[i]; r.Env == "tee" {
					expected = append(expected, r.ID+" waits for "+want)
				}
			}
			if !slices.Equal(waits, expected) {
				t.Errorf("it was told\n%s\nwant\n%s", strings.Join(waits, "\n"), strings.Join(expected, "\n"))
			}
			if len(o.Counters.(*counting).windows) != 2*len(e.Runs) {
				t.Errorf("windows %v of %d runs", o.Counters.(*counting).windows, len(e.Runs))
			}
		})
	}
}

// TestWaitsAreOver: nothing is reported after the end of a run, nor a wait that has ended.
func TestWaitsAreOver(t *testing.T) {
	defer func(was time.Duration) { slow = was }(slow)
	slow = time.Hour
	s := &session{doing: Progress{Doing: "p00-c1-tee"}}
	s.o.Progress = func(p Progress) { t.Errorf("told of %q", p.Waits) }
	job, end := s.waited(Job{Outside: &host.Cmd{}, Window: [2]string{"from", "to"}, Waits: "waits "})
	job.Waiting("a")
	job.Waiting("")
	w := &waiting{tell: s.o.Progress}
	w.late("a")
	end()
	job.Waiting("b")
	job.Outside.Heard("waits b")
}
