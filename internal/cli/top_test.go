package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/monitor"
)

// TestTopOnce: without a terminal the table of the chosen processes is printed once.
func TestTopOnce(t *testing.T) {
	const points = `{"data":{"result":[{"metric":{"process":"redis-server","column":"cpu"},"value":[1,"50"]},{"metric":{"process":"nginx","column":"cpu"},"value":[1,"25"]}]}}`
	server := monitorSaying(t, map[string]string{"answer": `{"at":"2026-01-01T00:00:00Z"}`, "platform": "{}", "overhead": "{}", "query": points})
	out, errs, code := run(t, "top", "--once", "--process", "^redis", "--server", server)
	if code != exitOK || errs != "" || !strings.Contains(out, "redis-server") || !strings.Contains(out, "50.0") || strings.Contains(out, "nginx") || !strings.Contains(out, "1 match /^redis/") {
		t.Errorf("exit status %d, %s\n%s", code, errs, out)
	}
}

// TestTopFails: who cannot answer, and what cannot be asked, is said.
func TestTopFails(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"error":"GET %s: no such call"}`, r.URL.Path)
	}))
	defer agent.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query" {
			fmt.Fprint(w, `{"data":{"result":[{"metric":{"column":"cpu"},"value":[1,"much"]}]}}`)
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer broken.Close()
	gone := nobody(t)
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"nobody there":  {[]string{"--server", gone}, []string{gone, "connection refused", "`teescope monitor`"}},
		"an agent":      {[]string{"--server", agent.URL}, []string{"no monitor", "an agent"}},
		"broken answer": {[]string{"--server", broken.URL}, []string{"much", "teescope monitor"}},
		"no URL":        {[]string{"--server", "ftp://localhost:9780"}, []string{"--server", "127.0.0.1:9780"}},
		"bad regex":     {[]string{"--process", "("}, []string{"--process", "missing closing )"}},
		"too often":     {[]string{"--interval", "1ms"}, []string{"--interval 1ms", "100ms"}},
		"an argument":   {[]string{"redis"}, []string{"redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := topCommand(Env{Stdout: &strings.Builder{}})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append(tt.args, "--once"))
			err := cmd.ExecuteContext(t.Context())
			for _, w := range tt.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("error %v, want %q in it", err, w)
				}
			}
		})
	}
}

// TestTopReading: readings are never further apart than the rates can do with.
func TestTopReading(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: monitor.EagerInterval, time.Second: time.Second, 3 * time.Second: 3 * time.Second, time.Minute: monitor.UsualInterval,
	} {
		if got := (topper{interval: interval, paced: true}).reading(); got != want {
			t.Errorf("--interval %v reads each %v, want %v", interval, got, want)
		}
	}
	if got := (topper{interval: 2 * time.Second}).reading(); got != monitor.UsualInterval {
		t.Errorf("without --interval it reads each %v", got)
	}
}
