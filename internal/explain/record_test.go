// clock: this file records runs of programs, which take their time.
package explain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
)

// program is the name of the process. That of its TLS server, which adds to it, differs (comm has 15 characters).
const program = "causes"

// record runs the program beside a monitor and writes the fixture. It fails, and writes nothing,
// where the machine left the program too little CPU time to sample its shares, or a scenario that
// is about waiting for a CPU too much.
func (s scenario) record(t *testing.T, file string) {
	exe := filepath.Join(t.TempDir(), "causes")
	if out, err := exec.Command("cc", "-O2", "-pthread", "-o", exe, "../../workloads/causes/causes.c", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		t.Fatalf("compile causes.c: %v\n%s", err, out)
	}
	m := monitor(t)
	c := exec.Command(exe, "--name", program, "--seconds", fmt.Sprint(s.seconds), "--shares", s.shares, "--seed", "13", "--wait")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := await.Converse(t, c)
	if !s.busy {
		// Its own session with priority, so other programs do not become a cause (sched(7), autogroups).
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", p.Process.Pid), []byte("-19"), 0o644)
	}
	p.Line(t)                   // ready
	time.Sleep(8 * time.Second) // libraries of new processes are found at a reading
	if s.busy {
		for range runtime.NumCPU() + 1 {
			other := exec.Command("sh", "-c", "while :; do :; done")
			other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			await.Start(t, other)
		}
	}
	fmt.Fprintln(p.In)
	printed := p.Line(t) + "\n"
	time.Sleep(6 * time.Second) // one more reading
	to := time.Now().Truncate(time.Millisecond)

	var own account
	if err := json.Unmarshal([]byte(printed), &own); err != nil {
		t.Fatal(err)
	}
	queued := own.truth()[explain.Queueing]
	t.Logf("%.1f s of work, and %.1f %% of the time it waited for a CPU", own.ActiveSeconds, 100*queued)
	if own.ActiveSeconds < float64(s.seconds)/3 || s.busy && queued < leastQueueing {
		t.Fatal("the machine is not as the scenario wants it")
	}
	q := explain.Question{Process: program, From: to.Add(-time.Duration(s.seconds+8) * time.Second), To: to}
	tree, err := known.Window(t.Context(), m, q)
	if err != nil {
		t.Fatal(err)
	}
	// Queries align to multiples of their step, so times keep their place in the hour.
	hour := to.Truncate(time.Hour)
	ask := fmt.Sprintf("process=%s from=%s to=%s\n", program, q.From.Sub(hour), q.To.Sub(hour))
	comment := fmt.Sprintf("Recorded in a run of workloads/causes/causes.c --shares %s; see TestRecorded.\n", s.shares)
	if err := os.WriteFile(file, txtar.Format(&txtar.Archive{Comment: []byte(comment), Files: []txtar.File{
		{Name: "readings", Data: []byte(m.readings(t, q, tree.Instance, hour))},
		{Name: "ask", Data: []byte(ask)},
		{Name: "account", Data: []byte(printed)},
		{Name: "said", Data: []byte(said(tree))},
	}}), 0o644); err != nil {
		t.Fatal(err)
	}
}

// live answers queries from a running monitor, and keeps them.
type live struct {
	url   string
	asked *[]string
}

// monitor starts bin/teescope.
func monitor(t *testing.T) live {
	t.Helper()
	p := await.Start(t, exec.Command("../../bin/teescope", "monitor", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--interval", "5s", "--budget", "100%"))
	m := live{asked: new([]string)}
	await.Event(t, "the monitor has opened its sources", func() error {
		if m.url = regexp.MustCompile(`https?://[^/\s]+`).FindString(p.Out.String()); m.url == "" {
			return errors.New("it has not printed its URL")
		}
		list, err := m.get("/api/teescope/v1/sources")
		if err == nil && strings.Contains(string(list), `"opening"`) { // while it calibrates, too
			err = errors.New("a source is not open yet")
		}
		return err
	})
	return m
}

func (m live) get(path string) ([]byte, error) {
	r, err := http.Get(m.url + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, r.Status, body)
	}
	return body, err
}

// sample is a time in seconds and a value in text.
type sample [2]any

func (s sample) value() string { return s[1].(string) }
func (s sample) at() float64   { return s[0].(float64) }

// element is an element of a query's result.
type element struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

func (m live) query(expr string, at time.Time) ([]element, error) {
	body, err := m.get("/api/v1/query?" + url.Values{"query": {expr}, "time": {fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000)}}.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct{ Data struct{ Result []element } }
	err = json.Unmarshal(body, &answer)
	return answer.Data.Result, err
}

func (m live) Query(_ context.Context, expr string, at time.Time) ([]metric.Point, error) {
	*m.asked = append(*m.asked, expr)
	list, err := m.query(expr, at)
	var out []metric.Point
	for _, e := range list {
		v, err := strconv.ParseFloat(e.Value.value(), 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			out = append(out, metric.Point{Labels: e.Metric, Value: v})
		}
	}
	return out, err
}

// before is how far the queries of an explanation reach back before its window.
const before = time.Minute

// readings returns the samples of all series that the queries so far select, of the process and
// its machine, in the text of playBack.
func (m live) readings(t *testing.T, q explain.Question, instance string, hour time.Time) string {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	series := map[string]map[int64]string{} // values by series and time
	var at []int64
	for _, expr := range *m.asked {
		parsed, err := p.ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, matchers := range parser.ExtractSelectors(parsed) {
			// One query looks at all processes, for those of similar names.
			if !slices.ContainsFunc(matchers, func(l *labels.Matcher) bool { return l.Name == "process" || l.Name == "instance" }) {
				continue
			}
			var words []string
			for _, l := range matchers {
				words = append(words, l.String())
			}
			list, err := m.query(fmt.Sprintf("{%s}[%s]", strings.Join(words, ","), q.To.Sub(q.From)+before), q.To)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.Metric["instance"] != instance {
					t.Fatalf("%v is of another machine than %s", e.Metric, instance)
				}
				e.Metric["instance"] = "vm1"
				name := labels.FromMap(e.Metric).String()
				if series[name] == nil {
					series[name] = map[int64]string{}
				}
				for _, v := range e.Values {
					ms := int64(math.Round(v.at()*1000)) - hour.UnixMilli()
					series[name][ms] = v.value()
					at = append(at, ms)
				}
			}
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var b strings.Builder
	b.WriteString("at")
	for _, ms := range at {
		fmt.Fprintf(&b, " %.3f", float64(ms)/1000)
	}
	b.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(series)) {
		b.WriteString(name)
		for i, n := 0, 0; i < len(at); i += n {
			value := cmp.Or(series[name][at[i]], "_")
			for n = 1; i+n < len(at) && cmp.Or(series[name][at[i+n]], "_") == value; n++ {
			}
			b.WriteString(" " + value)
			if n > 1 {
				fmt.Fprintf(&b, "x%d", n)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
