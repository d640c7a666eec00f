package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/query"
)

// server is a receiver whose answers the test sets.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(n int, w http.ResponseWriter, r *http.Request) // nil is 200
	bodies []string                                            // of the accepted requests
	asked  []*http.Request
}

func newServer(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, r)
		n, answer := len(s.asked), s.answer
		s.mu.Unlock()
		rec := httptest.NewRecorder()
		if answer != nil {
			answer(n, rec, r)
		}
		if rec.Code/100 == 2 {
			s.mu.Lock()
			s.bodies = append(s.bodies, string(b))
			s.mu.Unlock()
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

// got returns the findings that a webhook received, as "ID state".
func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, b := range s.bodies {
		var r findings.Record
		if err := json.Unmarshal([]byte(b), &r); err != nil {
			return []string{err.Error()}
		}
		out = append(out, r.ID+" "+string(r.State))
	}
	return out
}

func (s *server) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// safe is a buffer that several goroutines write to.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// teller is a notifier with short retry waits, with its log.
type teller struct {
	*Notifier
	dir string
	log safe
}

func newTeller(t *testing.T, dir string, set Settings, change func(*Options)) *teller {
	t.Helper()
	n := &teller{dir: dir}
	o := DefaultOptions()
	o.Dir, o.Now, o.Instance = dir, func() time.Time { return time.Unix(10_000, 0) }, "vm"
	o.Log = slog.New(slog.NewTextHandler(&n.log, nil))
	o.Wait, o.WaitMost, o.Timeout, o.Repeat = time.Millisecond, 4*time.Millisecond, time.Hour, time.Hour
	if change != nil {
		change(&o)
	}
	n.Notifier = New(o)
	if err := n.ApplySettings(set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", &n.log)
		}
	})
	return n
}

// count returns a metric's value for the receiver "r".
func (n *teller) count(outcome string) float64 {
	got := -1.0
	n.Collect(func(s metric.Sample) {
		if s.Labels[0] == "r" && (len(s.Labels) == 1 && outcome == "" || len(s.Labels) == 2 && s.Labels[1] == outcome) {
			got = s.Value
		}
	})
	return got
}

// hookAt returns the settings of a webhook called "r".
func hookAt(url string) Settings {
	return Settings{Receivers: []Receiver{{Name: "r", Format: Webhook, URL: url}}, Least: findings.Warning}
}

func opened(id string) findings.Record {
	return findings.Record{ID: id, State: findings.Open, Since: time.Unix(100, 0).UTC(), LastSeen: time.Unix(200, 0).UTC(),
		Finding: findings.Finding{Rule: "heat", Subject: "redis", Severity: findings.Warning, Title: "Hot."}}
}

func closed(id string) findings.Record {
	r, until := opened(id), time.Unix(300, 0).UTC()
	r.State, r.Until = findings.Closed, &until
	return r
}

func list(r ...findings.Record) []findings.Record { return r }

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Event(t, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestTell(t *testing.T) {
	silenced, info, worse := opened("silenced"), opened("info"), opened("a")
	silenced.Silenced, info.Severity, worse.Severity = "s", findings.Info, findings.Critical
	late := silenced
	late.Silenced = ""
	for _, tt := range []struct {
		name  string
		steps [][2][]findings.Record // what changed, and what is open
		want  []string
	}{
		{"opens, goes on, closes", [][2][]findings.Record{{list(opened("a")), list(opened("a"))}, {nil, list(opened("a"))}, {list(closed("a")), nil}},
			[]string{"a open", "a closed"}},
		{"goes on from before a restart", [][2][]findings.Record{{nil, list(opened("a"))}}, []string{"a open"}},
		{"too small", [][2][]findings.Record{{list(info), list(info)}, {list(closed("info")), nil}}, nil},
		{"grows", [][2][]findings.Record{{nil, list(opened("a"))}, {nil, list(worse)}, {nil, list(worse)}}, []string{"a open", "a open"}},
		{"silenced all the time", [][2][]findings.Record{{list(silenced), list(silenced)}, {list(closed("silenced")), nil}}, nil},
		{"silenced at first", [][2][]findings.Record{{list(silenced), list(silenced)}, {nil, list(late)}}, []string{"silenced open"}},
		{"silenced later", [][2][]findings.Record{{nil, list(late)}, {nil, list(silenced)}, {list(closed("silenced")), nil}},
			[]string{"silenced open", "silenced closed"}},
		{"gone without a word", [][2][]findings.Record{{nil, list(opened("a"), opened("b"))}, {nil, list(opened("b"))}},
			[]string{"a open", "b open", "a closed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			n := newTeller(t, t.TempDir(), hookAt(s.URL), nil)
			for _, step := range tt.steps {
				n.QueueChanges(step[0], step[1])
			}
			last := opened("last")
			n.QueueChanges(nil, list(last)) // order is kept: once this arrives, all have
			eventually(t, "the last message", func() bool { return slices.Contains(s.got(), "last open") })
			got := s.got()
			if i := slices.Index(got, "last open"); !slices.Equal(got[:i], tt.want) {
				t.Errorf("told %q, want %q", got[:i], tt.want)
			}
		})
	}
}

// TestRetries: failed messages are retried until they arrive, in order; refused ones are given up, and the rest
// continues.
func TestRetries(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  func(n int, w http.ResponseWriter, r *http.Request)
		want    []string
		failed  float64
		refused float64
		log     string
	}{
		{"broken for a while", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 3 {
				http.Error(w, "out of <order>\x1b[31m", http.StatusInternalServerError)
			}
		}, []string{"a open", "b open", "a closed"}, 3, 0, `500 Internal Server Error: out of <order>\x1b[31m`},
		{"busy", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 2 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}, []string{"a open", "b open", "a closed"}, 1, 0, "429"},
		{"redirects elsewhere", func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				http.Redirect(w, r, "http://127.0.0.1:1/stolen", http.StatusTemporaryRedirect)
			}
		}, []string{"a open", "b open", "a closed"}, 1, 0, "a redirect to another server"},
		{"redirects to a page", func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				http.Redirect(w, r, "/login", http.StatusFound)
			}
		}, []string{"a open", "b open", "a closed"}, 1, 0, "a redirect to another server"},
		{"redirects within itself", func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/moved", http.StatusPermanentRedirect)
			}
		}, []string{"a open", "b open", "a closed"}, 0, 0, ""},
		{"refuses one", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 2 {
				http.Error(w, "no such thing", http.StatusUnprocessableEntity)
			}
		}, []string{"a open", "a closed"}, 0, 1, "422 Unprocessable Entity: no such thing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.answer)
			n := newTeller(t, t.TempDir(), hookAt(s.URL+"/"), nil)
			n.QueueChanges(nil, list(opened("a"), opened("b")))
			n.QueueChanges(list(closed("a")), list(opened("b")))
			eventually(t, "an empty queue", func() bool { return n.count("") == 0 })
			if got := s.got(); !slices.Equal(got, tt.want) {
				t.Errorf("told %q, want %q", got, tt.want)
			}
			if got := [3]float64{n.count("sent"), n.count("failed"), n.count("refused")}; got != [3]float64{float64(len(tt.want)), tt.failed, tt.refused} {
				t.Errorf("sent, failed, refused: %v", got)
			}
			log := n.log.String()
			if !strings.Contains(log, tt.log) || strings.Contains(log, s.URL) || tt.failed > 0 && strings.Count(log, "does not take notifications") != 1 {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// TestSlow: an answer that does not come in time is a failure like any other.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver := &flaky{ids: map[string]bool{}, slow: 1}
		set := hookAt("http://receiver")
		set.Receivers[0].Client = &http.Client{Transport: receiver}
		n := newTeller(t, t.TempDir(), set, func(o *Options) { o.Timeout = 3 * time.Second })
		n.QueueChanges(nil, list(opened("a")))
		eventually(t, "an empty queue", func() bool { return n.count("") == 0 })
		if got := [3]float64{n.count("sent"), n.count("failed"), n.count("refused")}; got != [3]float64{1, 1, 0} || !slices.Equal(receiver.told, []string{"redis open"}) {
			t.Errorf("sent, failed, refused: %v, told %q", got, receiver.told)
		}
		if !strings.Contains(n.log.String(), "deadline exceeded") {
			t.Errorf("log:\n%s", &n.log)
		}
	})
}

// TestDown: while the receiver is down everything waits, also over restarts and after a kill in the middle of a line,
// and arrives in order once it is up.
func TestDown(t *testing.T) {
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[0]) // nothing listens there
	dir := t.TempDir()
	var want []string
	n := newTeller(t, dir, hookAt(url), nil)
	for i := range 20 {
		id := fmt.Sprintf("f%02d", i)
		n.QueueChanges(nil, list(opened(id)))
		n.QueueChanges(list(closed(id)), nil)
		want = append(want, id+" open", id+" closed")
	}
	eventually(t, "a second failure", func() bool { return n.count("failed") > 1 })
	if n.count("") != 40 || n.count("sent") != 0 {
		t.Errorf("%v wait, %v are sent", n.count(""), n.count("sent"))
	}

	// The state after a kill: the current file and half a line more.
	crashed := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, "r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(crashed, "r.jsonl"), append(b, `{"put":{"rule":"he`...), 0o600); err != nil {
		t.Fatal(err)
	}
	up := newServer(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 7 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	m := newTeller(t, crashed, hookAt(up.URL), nil)
	eventually(t, "all that waited", func() bool { return m.count("") == 0 })
	if got := up.got(); !slices.Equal(got, want) {
		t.Errorf("told %q", got)
	}

	// A second restart has nothing to send, but knows which findings the receiver considers open.
	m.QueueChanges(nil, list(opened("x")))
	eventually(t, "x", func() bool { return m.count("") == 0 })
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	again := newTeller(t, crashed, hookAt(up.URL), nil)
	again.QueueChanges(nil, list(opened("x")))
	again.QueueChanges(nil, nil)
	eventually(t, "the end of x", func() bool { got := up.got(); return got[len(got)-1] == "x closed" })
	if got := up.got(); !slices.Equal(got[len(want):], []string{"x open", "x closed"}) {
		t.Errorf("told after the restart: %q", got[len(want):])
	}
}

// TestKilledAnywhere: whichever line a kill cuts off, messages may be repeated but none is lost.
func TestKilledAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := newServer(t, nil)
	n := newTeller(t, dir, hookAt(s.URL), nil)
	for _, id := range []string{"a", "b", "c"} {
		n.QueueChanges(nil, list(opened(id)))
		eventually(t, id, func() bool { return n.count("") == 0 })
		n.QueueChanges(list(closed(id)), nil)
	}
	eventually(t, "all", func() bool { return n.count("") == 0 })
	whole, err := os.ReadFile(filepath.Join(dir, "r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"a open", "a closed", "b open", "b closed", "c open", "c closed"}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for cut := range lines {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, bytes.Join(lines[:cut], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := openQueue(path, 100)
		if err != nil {
			t.Fatal(err)
		}
		var waiting []string
		for _, m := range backlogOf(q).waiting {
			waiting = append(waiting, m.ID+" "+string(m.State))
		}
		puts, dones := bytes.Count(bytes.Join(lines[:cut], nil), []byte(`{"put"`)), bytes.Count(bytes.Join(lines[:cut], nil), []byte(`{"done"`))
		if !slices.Equal(waiting, append([]string(nil), all[dones:puts]...)) {
			t.Errorf("cut after line %d: %q wait", cut, waiting)
		}
		if err := q.close(); err != nil {
			t.Error(err)
		}
	}
}

func backlogOf(q *queue) backlog {
	held := q.backlog.Lock()
	defer q.backlog.Unlock()
	return *held
}

// TestFull: the oldest messages are dropped, counted, and logged once.
func TestFull(t *testing.T) {
	gate := make(chan struct{})
	s := newServer(t, func(int, http.ResponseWriter, *http.Request) { <-gate })
	dir := t.TempDir()
	n := newTeller(t, dir, hookAt(s.URL), func(o *Options) { o.Max = 3 })
	for i := range 6 {
		n.QueueChanges(nil, list(opened(fmt.Sprint(i))))
		if i == 0 {
			eventually(t, "the first request", func() bool { return s.requests() == 1 })
		}
	}
	// Each opening closed the one before: 11 messages, of which 3 wait.
	if n.count("dropped") != 8 || n.count("") != 3 || strings.Count(n.log.String(), "oldest are dropped") != 1 {
		t.Errorf("%v dropped, %v wait", n.count("dropped"), n.count(""))
	}
	close(gate)
	eventually(t, "the rest", func() bool { return n.count("") == 0 })
	// The first was being sent when it was dropped.
	if got, want := s.got(), []string{"0 open", "3 closed", "5 open", "4 closed"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	q, err := openQueue(filepath.Join(dir, "r.jsonl"), 3)
	if left := backlogOf(q).waiting; err != nil || len(left) != 0 {
		t.Errorf("on disk %+v, %v", left, err)
	}
}

// TestQueueIsKeptShort: the file does not grow with delivered messages.
func TestQueueIsKeptShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	q, err := openQueue(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		for _, r := range list(opened(fmt.Sprint(i)), closed(fmt.Sprint(i))) {
			if _, err := q.enqueue(r); err != nil {
				t.Fatal(err)
			}
			m, _ := q.head()
			if err := q.done(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := q.enqueue(opened("last")); err != nil {
		t.Fatal(err)
	}
	if n := backlogOf(q).lines; n > 2*spare {
		t.Errorf("%d lines for one message", n)
	}
	q, err = openQueue(path, 10)
	if again := backlogOf(q); err != nil || len(again.waiting) != 1 || again.waiting[0].ID != "last" || len(again.told) != 1 {
		t.Errorf("read again: %+v, told %+v, %v", again.waiting, again.told, err)
	}
}

// TestAlertmanager: alerts follow its API, are repeated while open, and are resolved with an end.
func TestAlertmanager(t *testing.T) {
	s := newServer(t, nil)
	set := Settings{Receivers: []Receiver{{Name: "r", Format: Alertmanager, URL: s.URL + "/prefix/"}}, Least: findings.Info, Page: "https://vm:9780/"}
	n := newTeller(t, t.TempDir(), set, func(o *Options) { o.Repeat = 20 * time.Millisecond })
	r := opened("a")
	r.Subject, r.Remedy, r.Evidence = "<b>\x1b[31m\n\xff", "Open the window.", []query.Evidence{{Text: "mean", Value: 95.25, Unit: "ratio", Expr: "temperature"}}
	quiet := opened("quiet")
	quiet.Silenced = "s"
	n.QueueChanges(list(r), list(r, quiet))
	eventually(t, "repetitions", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.bodies) > 3 })
	end := closed("a")
	end.Subject = r.Subject
	n.QueueChanges(list(end), list(quiet))
	eventually(t, "an empty queue", func() bool { return n.count("") == 0 })

	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.asked[0].URL.Path; p != "/prefix/api/v2/alerts" {
		t.Errorf("asked for %s", p)
	}
	var ends []string
	for i, body := range s.bodies {
		var got []alert
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got) != 1 {
			t.Fatalf("%v in %s", err, body)
		}
		a := got[0]
		if a.Labels["alertname"] != "heat" || a.Labels["subject"] != "<b>\x1b[31m\n\uFFFD" || a.Labels["severity"] != "warning" || a.Labels["instance"] != "vm" || len(a.Labels) != 4 {
			t.Errorf("labels %q", a.Labels)
		}
		if i == 0 && (a.Annotations["summary"] != "Hot." || a.Annotations["advice"] != "Open the window." || a.Annotations["evidence"] != "mean: 95.3 times (temperature)") {
			t.Errorf("annotations %q", a.Annotations)
		}
		if _, empty := a.Annotations["cost"]; empty || !a.StartsAt.Equal(r.Since) || a.GeneratorURL != "https://vm:9780/?page=findings&subject=a" {
			t.Errorf("%s", body)
		}
		ends = append(ends, a.EndsAt.UTC().Format(time.TimeOnly))
	}
	for _, e := range ends[:len(ends)-1] {
		if e != "02:46:40" { // the clock's 10,000 seconds and four repetitions
			t.Errorf("an open alert ends at %s", e)
		}
	}
	if e := ends[len(ends)-1]; e != "00:05:00" {
		t.Errorf("the closed alert ends at %s", e)
	}
}

// TestWorse: for Alertmanager another severity is another alert, and the previous one has ended.
func TestWorse(t *testing.T) {
	s := newServer(t, nil)
	n := newTeller(t, t.TempDir(), Settings{Receivers: []Receiver{{Name: "r", Format: Alertmanager, URL: s.URL}}, Least: findings.Info}, nil)
	r := opened("a")
	n.QueueChanges(list(r), list(r))
	r.Severity, r.LastSeen = findings.Critical, r.LastSeen.Add(time.Minute)
	n.QueueChanges(nil, list(r))
	eventually(t, "three messages", func() bool { return s.requests() == 3 })

	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, body := range s.bodies {
		var a []alert
		if err := json.Unmarshal([]byte(body), &a); err != nil || len(a) != 1 {
			t.Fatalf("%v in %s", err, body)
		}
		got = append(got, fmt.Sprintf("%s ended %v", a[0].Labels["severity"], a[0].EndsAt.Equal(r.LastSeen)))
	}
	if want := []string{"warning ended false", "warning ended true", "critical ended false"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestUse: a change of settings keeps waiting messages and the counts.
func TestUse(t *testing.T) {
	down, up := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), newServer(t, nil)
	n := newTeller(t, t.TempDir(), hookAt(down.URL), nil)
	n.QueueChanges(nil, list(opened("a")))
	eventually(t, "a failure", func() bool { return n.count("failed") > 0 })
	if err := n.ApplySettings(hookAt(up.URL)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an empty queue", func() bool { return n.count("") == 0 })
	if got := up.got(); !slices.Equal(got, []string{"a open"}) || n.count("failed") == 0 {
		t.Errorf("told %q, %v failed", got, n.count("failed"))
	}
	bad := hookAt(up.URL)
	bad.Receivers = append(bad.Receivers, Receiver{Name: "no\x00file", Format: Webhook, URL: up.URL})
	if err := n.ApplySettings(bad); err == nil || !strings.Contains(err.Error(), "queue of receiver") {
		t.Errorf("a queue that cannot be opened: %v", err)
	}
	n.QueueChanges(nil, list(opened("a"), opened("b")))
	eventually(t, "b", func() bool { return slices.Contains(up.got(), "b open") })
}

// TestDiskRefuses: messages that cannot be written to disk are sent all the same, and the problem is logged once.
func TestDiskRefuses(t *testing.T) {
	s := newServer(t, nil)
	dir := t.TempDir()
	n := newTeller(t, dir, hookAt(s.URL), nil)
	if err := os.Mkdir(filepath.Join(dir, "r.jsonl.new"), 0o700); err != nil { // the file cannot be rewritten
		t.Fatal(err)
	}
	q := n.receiving.Lock().senders[0].queue
	n.receiving.Unlock()
	q.backlog.Lock().behind = true // as after a failed write
	q.backlog.Unlock()
	n.QueueChanges(nil, list(opened("a"), opened("b")))
	eventually(t, "both", func() bool { return len(s.got()) == 2 && n.count("") == 0 })
	if log := n.log.String(); strings.Count(log, "a restart would lose them") != 1 {
		t.Errorf("log:\n%s", log)
	}
	if err := os.Remove(filepath.Join(dir, "r.jsonl.new")); err != nil {
		t.Fatal(err)
	}
	n.QueueChanges(list(closed("b")), list(opened("a")))
	eventually(t, "the end of b", func() bool { return len(s.got()) == 3 && n.count("") == 0 })
	if log := n.log.String(); !strings.Contains(log, "kept on disk again") {
		t.Errorf("log:\n%s", log)
	}
	q, err := openQueue(filepath.Join(dir, "r.jsonl"), 10)
	if again := backlogOf(q); err != nil || len(again.told) != 1 || again.told["a"].ID != "a" {
		t.Errorf("on disk: told %+v, %v", again.told, err)
	}
}

func TestPause(t *testing.T) {
	s := &sender{opts: Options{Wait: time.Second, WaitMost: time.Minute}}
	for failures, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 100: time.Minute} {
		s.failures = failures
		for range 50 {
			if got := s.pause(io.EOF); got < most/2 || got > most {
				t.Errorf("after %d failures: %v, want %v to %v", failures, got, most/2, most)
			}
		}
	}
	for after, want := range map[time.Duration]time.Duration{3 * time.Second: 3 * time.Second, 48 * time.Hour: time.Hour} {
		if got := s.pause(busy{io.EOF, after}); got != want {
			t.Errorf("asked to wait %v: %v", after, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-1": 0, "soon": 0, "1e9": 0, "99999999999999999999": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:03:05 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte(`{"put":{"id":"a","state":"open"}}`), []byte(`{"done":true}`))
	f.Add([]byte(`{"told":{"id":"a"}}`), []byte(`{"put":{"id":"a","state":"closed"}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		q := &backlog{max: 1, told: map[string]findings.Record{}}
		q.replay(a)
		q.replay(b)
		if q.lines != 2 || len(q.waiting) > 2 {
			t.Errorf("%+v", q)
		}
	})
}

// TestClockWasSetBack: a receiver with the right time would wait for an end in the future.
func TestClockWasSetBack(t *testing.T) {
	now := time.Unix(10_000, 0).UTC()
	r := opened("a")
	until := now.Add(48 * time.Hour)
	r.State, r.Since, r.LastSeen, r.Until = findings.Closed, now.Add(47*time.Hour), until, &until
	o := DefaultOptions()
	o.Now = func() time.Time { return now }
	b, err := alerts(&sender{opts: o}, list(r))
	if err != nil {
		t.Fatal(err)
	}
	var sent []alert
	if err := json.Unmarshal(b, &sent); err != nil || len(sent) != 1 || !sent[0].StartsAt.Equal(now) || !sent[0].EndsAt.Equal(now) {
		t.Errorf("an alert from the future is %s, %v", b, err)
	}
	b, err = hook(&sender{opts: o}, list(r))
	if err != nil {
		t.Fatal(err)
	}
	var got findings.Record
	if err := json.Unmarshal(b, &got); err != nil || got.Since.After(now) || got.LastSeen.After(now) || got.Until.After(now) {
		t.Errorf("a finding from the future is %s, %v", b, err)
	}
}

// TestDamagedQueue: a damaged line costs its message, and it is counted; the others wait, in order.
func TestDamagedQueue(t *testing.T) {
	sound := filepath.Join(t.TempDir(), "r.jsonl")
	q, err := openQueue(sound, 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		if _, err := q.enqueue(opened(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	for m := range mutate.Lines(data, `{}[]:,"`) {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, m.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := openQueue(path, 100)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		var waiting []string
		for _, w := range backlogOf(q).waiting {
			waiting = append(waiting, w.ID)
		}
		if m.Line >= 0 {
			if q.damaged == 0 && q.cut == 0 && len(waiting) != len(ids) {
				t.Errorf("%s: %q wait, and no line is said to be damaged", m.Name, waiting)
			}
			for i, id := range ids {
				if i != m.Line && slices.Index(waiting, id) < 0 {
					t.Errorf("%s: message %s is gone; %q wait", m.Name, id, waiting)
				}
			}
		}
		if err := q.close(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// TestDamagedPut: a damaged line of a message that was sent takes no other message with it. The next write leaves it out, and a later
// damage is kept beside the earlier one.
func TestDamagedPut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	open := func(kept string, ids ...string) *queue {
		t.Helper()
		q, err := openQueue(path, 100)
		if err != nil {
			t.Fatal(err)
		}
		var waiting []string
		for _, w := range backlogOf(q).waiting {
			waiting = append(waiting, w.ID)
		}
		if !slices.Equal(waiting, ids) || q.kept != kept || q.damaged > 0 != (kept != "") {
			t.Fatalf("%q wait, %d damaged lines, kept as %q; want %q and %q", waiting, q.damaged, q.kept, ids, kept)
		}
		return q
	}
	put := func(q *queue, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := q.enqueue(opened(id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn := func(at int) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err == nil {
			data[at] ^= 2
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	q := open("")
	put(q, "a", "b")
	m, _ := q.head()
	if err := errors.Join(q.done(m), backlogOf(q).file.Close()); err != nil { // a is sent; then it crashes
		t.Fatal(err)
	}
	turn(3) // in the line of a
	for range 2 {
		q = open(path+".damaged", "b")
		if err := backlogOf(q).file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	q = open(path+".damaged", "b")
	put(q, "c")
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	q = open("", "b", "c")
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	turn(3)
	if q, err := openQueue(path, 100); err != nil || q.kept != path+".damaged.2" {
		t.Errorf("kept as %q, %v", q.kept, err)
	}
}
