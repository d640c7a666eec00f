package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/web"
)

func TestChangesCommand(t *testing.T) {
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	since := now.Add(-9 * time.Minute)
	before, after, ratio := 40., 4100., 102.5
	answer := anomaly.Changes{
		Before: anomaly.Window{From: now.Add(-70 * time.Minute), To: now.Add(-10 * time.Minute)}, After: anomaly.Window{From: now.Add(-10 * time.Minute), To: now},
		Changes: []anomaly.Change{
			{Metric: "tee_syscalls_total", Text: "redis-server: futex syscalls 40 -> 4,100/s", Score: 38, Before: &before, After: &after, Ratio: &ratio, Since: &since, Alike: 12},
			{Metric: "tee_page_faults_total", Text: "\x1b[31m<b>: write user page faults: none -> 900/s", Score: 20, After: &after},
		},
		Compared: 4321, Unable: []string{"7 series with fewer than 5 readings in a window"},
	}
	var asked url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		switch {
		case r.URL.Path != "/api/teescope/v1/changes":
			http.NotFound(w, r)
		case asked.Get("process") == "(":
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(web.Error{Error: "process: missing closing )"})
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	defer s.Close()
	f := changesFlags{server: s.URL, process: "redis", last: duration(10 * time.Minute), before: duration(time.Hour), top: 20}
	var out strings.Builder
	if err := f.run(t.Context(), &out, now); err != nil {
		t.Fatal(err)
	}
	const want = `14:50:00 UTC to 15:00:00 UTC, compared with 13:50:00 UTC to 14:50:00 UTC: 4321 series

1. redis-server: futex syscalls 40 -> 4,100/s (103 times), since about 14:51:00 UTC; 12 more of
  tee_syscalls_total
2. ` + "\uFFFD" + `[31m<b>: write user page faults: none -> 900/s

Not compared:
  7 series with fewer than 5 readings in a window
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	for name, v := range map[string]string{"from": "1772463000.000", "to": "1772463600.000", "beforeFrom": "1772459400.000", "beforeTo": "1772463000.000", "process": "redis", "top": "20"} {
		t.Run(name, func(t *testing.T) {
			if asked.Get(name) != v {
				t.Errorf("%s is %q, want %q", name, asked.Get(name), v)
			}
		})
	}

	t.Setenv(client.ServerVariable, "ftp://set:9780")
	f.json = true
	out.Reset()
	var got anomaly.Changes
	if err := f.run(t.Context(), &out, now); err != nil || json.Unmarshal([]byte(out.String()), &got) != nil || len(got.Changes) != 2 || got.Compared != 4321 {
		t.Errorf("as data: %v, %s", err, out.String())
	}
	answer.Changes, answer.Unable, f.json = nil, nil, false
	out.Reset()
	if err := f.run(t.Context(), &out, now); err != nil || !strings.Contains(out.String(), "No change exceeds 3 times the spread") {
		t.Errorf("nothing: %v, %s", err, out.String())
	}
	answer.Compared = 0
	out.Reset()
	if err := f.run(t.Context(), &out, now); err != nil || strings.Contains(out.String(), "No change") || !strings.Contains(out.String(), "No series has enough readings") {
		t.Errorf("nothing compared: %v, %s", err, out.String())
	}
	for name, tt := range map[string]struct {
		change func(*changesFlags)
		want   string
	}{
		"bad regex": {func(f *changesFlags) { f.process = "(" }, "missing closing )"},
		"no URL":    {func(f *changesFlags) { f.server = "ftp://localhost:9780" }, "--server"},
		"variable":  {func(f *changesFlags) { f.server = "ftp://set:9780" }, client.ServerVariable},
		"none":      {func(f *changesFlags) { f.top = 0 }, "--top 0"},
		"elsewhere": {func(f *changesFlags) { f.server = s.URL + "/other" }, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			g := f
			tt.change(&g)
			if err := g.run(t.Context(), &out, now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
		})
	}
}
