//go:build measure

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
)

// TestChanges: if a program of a random name begins to make a hundred times as many calls of one kind, the change is listed first for
// its process, with both rates and the time, although no rule is about it. Box plots show both levels.
func TestChanges(t *testing.T) {
	t.Parallel()
	m := startMonitor(t, "monitor", "--interval", "1s")
	exe := cc(t, "../workloads/storm/storm.c")
	name := fmt.Sprintf("storm-%08x", rand.Uint32())
	storm := func(rate, seconds int) *await.Program {
		return start(t, exe, "--syscall", "getppid", "--name", name, "--rate", fmt.Sprint(rate), "--seconds", fmt.Sprint(seconds)).MayEnd()
	}
	const calm, loud = 40, 4000
	began := time.Now()
	storm(calm, 75).ExitStatus(t)
	turn := time.Now()
	storm(loud, 300)
	time.Sleep(70 * time.Second)

	ask := []string{"changes", "--server", m.url, "--last", fmt.Sprint(time.Since(turn).Round(time.Second)), "--before", "70s", "--process", name}
	out, stderr, code := run(t, append(ask, "--json")...)
	var got struct {
		Changes []struct {
			Labels        map[string]string
			Before, After float64
			Since         time.Time
			Text          string
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Changes) == 0 {
		t.Fatalf("changes: exit status %d, %v\n%s%s", code, err, out, stderr)
	}
	c := got.Changes[0]
	t.Log(c.Text, c.Since)
	if c.Labels["syscall"] != "getppid" || c.Labels["process"] != name || math.Abs(c.Before/calm-1) > 0.3 || math.Abs(c.After/loud-1) > 0.3 {
		t.Errorf("first is %+v, want getppid of %s, %d to %d a second", c, name, calm, loud)
	}
	if c.Since.Sub(turn).Abs() > 20*time.Second {
		t.Errorf("since %s, want about %s", c.Since, turn)
	}
	if out, _, _ := run(t, ask...); !strings.Contains(out, "1. "+name+": getppid syscalls ") {
		t.Errorf("as text:\n%s", out)
	}

	answer, err := fetch(m.url + "/api/teescope/v1/distributions?" + url.Values{
		"query": {fmt.Sprintf(`sum(rate(tee_syscalls_total{process=%q}[10s]))`, name)}, "windows": {"2"},
		"from": {began.Add(15 * time.Second).Format(time.RFC3339)}, "to": {turn.Add(60 * time.Second).Format(time.RFC3339)},
	}.Encode())
	var boxes struct{ Boxes []struct{ Median float64 } }
	if err == nil {
		err = json.Unmarshal([]byte(answer), &boxes)
	}
	if err != nil || len(boxes.Boxes) != 2 || boxes.Boxes[0].Median > 10*calm || boxes.Boxes[1].Median < loud/2 {
		t.Errorf("distributions: %v, %s", err, answer)
	}
}
