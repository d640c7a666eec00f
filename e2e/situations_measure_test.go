//go:build measure

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/measured"
	"github.com/teescope/teescope/internal/rivals"
)

// liveSituation is what this test reads of a file of situations/truth.
type liveSituation struct {
	Situation  string
	Neighbours int
	Programs   []struct {
		Name      string
		Processes int
		CPUs      []int `yaml:"cpus"`
	}
	FirstTwoLines struct {
		Culprits, Victims []string
		Never             []string `yaml:"never_culprit"`
	} `yaml:"first_two_lines"`
}

// roles are what the programs of the situations do, as programs.c has it.
var roles = map[string]string{"lockfight": "locks", "paylog": "syncs", "paysvc": "serves", "batch-report": "computes", "nightly-etl": "computes", "compile": "computes", "clockhog": "asks"}

// mostWait is how long a situation is given to show; one that does not counts as this.
const mostWait = 90 * time.Second

// TestSituationsLive runs the twelve situations one after the other, on a monitor that has watched the machine before.
// The first two lines are the titles of the first two problems, as the page and explain show them.
func TestSituationsLive(t *testing.T) {
	needRoot(t)
	redis := tool(t, "redis-server", "redis-server")
	files, err := filepath.Glob("situations/truth/*.yaml")
	if err != nil || len(files) != 12 {
		t.Fatalf("%d truth files, %v", len(files), err)
	}
	compiled := cc(t, "situations/programs.c")
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("analysis: {close_after: 10s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "monitor", "--config", config, "--budget", "1%")
	time.Sleep(findings.DefaultOptions().Windows.Long + 30*time.Second) // a younger monitor's windows are shorter
	var seconds []float64
	for _, file := range files {
		var s liveSituation
		b, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(b, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%s-%d", s.Situation, s.Neighbours), func(t *testing.T) {
			m.settles(t)
			earlier := map[string]bool{}
			for _, r := range m.problems(t).Findings {
				earlier[r.ID] = true
			}
			began := time.Now()
			s.begin(t, compiled, redis)
			lines, missing := m.firstTwo(t, s, earlier)
			for len(missing) > 0 && time.Since(began) < mostWait {
				time.Sleep(time.Second)
				lines, missing = m.firstTwo(t, s, earlier)
			}
			took := min(time.Since(began), mostWait)
			t.Logf("after %.0f s, missing %q:\n%s", took.Seconds(), missing, strings.Join(lines, "\n"))
			seconds = append(seconds, took.Seconds())
		})
	}
	measured.EachAtMost(t, "culprit and victim of each situation are on the first two lines, and nobody else is blamed, of twelve situations with 0, 2 and 6 busy neighbours, on a monitor that watched before", "s", 30, seconds)
}

// begin starts the programs of a situation, for as long as the test runs.
func (s liveSituation) begin(t *testing.T, compiled, redis string) {
	t.Helper()
	dir := t.TempDir()
	for _, p := range s.Programs {
		if p.Name == "redis-server" {
			askRedis(t, redis)
			continue
		}
		path := filepath.Join(dir, p.Name)
		b, err := os.ReadFile(compiled)
		if err == nil {
			err = os.WriteFile(path, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		args := []string{roles[p.Name], filepath.Join(dir, "log")}
		for _, cpu := range p.CPUs {
			args = append(args, fmt.Sprint(cpu))
		}
		for range p.Processes {
			start(t, path, args...)
		}
	}
}

// askRedis runs a redis-server that answers 2,000 requests a second.
func askRedis(t *testing.T, redis string) {
	t.Helper()
	port := freePort(t)
	start(t, redis, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	var c net.Conn
	await.Event(t, "redis-server listens", func() (err error) {
		c, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	})
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := bufio.NewReader(c)
		for due := time.Now(); !stop.Load(); due = due.Add(10 * time.Millisecond) {
			time.Sleep(time.Until(due))
			for range 20 {
				if _, err := c.Write([]byte("INCR n\r\n")); err != nil {
					return
				}
				if _, err := r.ReadString('\n'); err != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		stop.Store(true)
		_ = c.Close()
		<-ended
	})
}

// answer is what this test reads of the monitor's findings.
type answer struct {
	Findings []findings.Record
	Problems []findings.Problem
}

func (m *monitor) problems(t *testing.T) (a answer) {
	t.Helper()
	text, err := fetch(m.url + "/api/teescope/v1/findings?state=open")
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// settles waits until no program of a situation is part of a finding, and the machine is short of nothing: the next
// situation would continue that finding instead of opening its own.
func (m *monitor) settles(t *testing.T) {
	t.Helper()
	await.Event(t, "the situation before is over", func() error {
		for _, r := range m.problems(t).Findings {
			names := []string{r.Subject}
			for _, p := range slices.Concat(r.Takers, r.Waiters) {
				names = append(names, p.Name)
			}
			short := r.Rule == "pressure" || r.Rule == "io_saturation"
			for name := range roles {
				short = short || slices.Contains(names, name)
			}
			if short && r.State == findings.Open {
				return fmt.Errorf("%s", r.Sentence)
			}
		}
		return nil
	})
}

// firstTwo returns the first two lines, and who of the truth is missing in them, or wrongly blamed. A line whose
// finding was open before the situation names nobody.
func (m *monitor) firstTwo(t *testing.T, s liveSituation, earlier map[string]bool) (lines, missing []string) {
	t.Helper()
	a := m.problems(t)
	var takers, waiters []string
	for _, p := range a.Problems[:min(2, len(a.Problems))] {
		lines = append(lines, p.Title)
		i := slices.IndexFunc(a.Findings, func(r findings.Record) bool { return r.ID == p.Lead })
		if i < 0 || earlier[p.Lead] {
			continue
		}
		for _, name := range s.FirstTwoLines.Never {
			if slices.Contains(namesOf(a.Findings[i].Takers, ""), name) {
				missing = append(missing, name+" does not take")
			}
		}
		takers, waiters = append(takers, namesOf(a.Findings[i].Takers, a.Findings[i].Subject)...), append(waiters, namesOf(a.Findings[i].Waiters, a.Findings[i].Subject)...)
	}
	all := strings.Join(lines, "\n")
	for _, name := range s.FirstTwoLines.Culprits {
		if !slices.Contains(takers, name) || !strings.Contains(all, name) {
			missing = append(missing, name+" takes")
		}
	}
	for _, name := range s.FirstTwoLines.Victims {
		if !slices.Contains(waiters, name) || !strings.Contains(all, name) {
			missing = append(missing, name+" waits")
		}
	}
	return lines, missing
}

// namesOf are the names of parts, or the subject where there are none.
func namesOf(parts []rivals.Part, subject string) (out []string) {
	for _, p := range parts {
		out = append(out, p.Name)
	}
	if out == nil {
		out = []string{subject}
	}
	return out
}
