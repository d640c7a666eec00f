package store_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/store"
)

// TestSecretsOfConfiguration: what a configuration has of secrets in URLs, their parameters and variables reaches the servers, but neither
// the API nor labels nor the log.
func TestSecretsOfConfiguration(t *testing.T) {
	const marker = "s3cretMarker"
	t.Setenv("TEESCOPE_TEST_SECRET", marker+"6")
	got := make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, password, _ := r.BasicAuth()
		select {
		case got <- r.URL.Path + " " + r.URL.Query().Get("key") + " " + password:
		default:
		}
		http.Error(w, "http://u:"+marker+"0@host/ refused", http.StatusInternalServerError)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	c, err := store.ParseScrape([]byte(strings.NewReplacer("HOST", address, "MARKER", marker).Replace(`
global: {external_labels: {cluster_token: "${TEESCOPE_TEST_SECRET}"}}
scrape_configs:
- job_name: a
  scrape_interval: 1s
  params: {key: [MARKER1], sig: [MARKER1], signature: [MARKER1], code: [MARKER1], auth: [MARKER1], sid: [MARKER1], session: [MARKER1], jwt: [MARKER1], hmac: [MARKER1]}
  static_configs: [{targets: ["HOST"]}]
- job_name: b
  http_sd_configs: [{url: "http://user:MARKER2@HOST/sd?token=MARKER3"}]
remote_write:
- {url: "http://user:MARKER4@HOST/write?key=MARKER5", queue_config: {batch_send_deadline: 10ms}}
`)), "")
	must(t, err)
	var log bytes.Buffer
	printed := printable.NewWriter(&log)
	o := options(t)
	o.Logger = slog.New(slog.NewTextHandler(printed, nil))
	s, err := store.Open(t.Context(), o)
	must(t, err)
	must(t, s.ApplyConfig(c))
	rounds(t, s, time.Now().Add(ahead), 3)
	seen := map[string]bool{}
	await.Event(t, "each server is asked with its secrets", func() error {
		s.Poke()
		for len(got) > 0 {
			seen[<-got] = true
		}
		for _, want := range []string{"/metrics " + marker + "1 ", "/sd  " + marker + "2", "/write " + marker + "5 " + marker + "4"} {
			if !seen[want] {
				return fmt.Errorf("no request %q", want)
			}
		}
		return nil
	})
	api := httptest.NewServer(s.Handler())
	defer api.Close()
	var shown strings.Builder
	for _, path := range []string{"status/config", "targets", "targets/relabel_steps?scrapePool=a&labels={}", "scrape_pools", "status/runtimeinfo", "status/self_metrics", "metadata", "rules"} {
		t.Run(path, func(t *testing.T) {
			resp, err := http.Get(api.URL + "/api/v1/" + path)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if path == "status/config" && !strings.Contains(string(body), "remote_write:") || path == "targets" && !strings.Contains(string(body), `"scrapePool":"a"`) {
				t.Errorf("%s: %s", path, body)
			}
			shown.Write(body)
		})
	}
	urls := 0
	s.Collect(func(m metric.Sample) {
		for _, l := range m.Labels {
			shown.WriteString("\n" + m.Desc.Name + " " + l)
			if strings.Contains(l, "/write?key=xxxxx") {
				urls++
			}
		}
	})
	if urls == 0 {
		t.Errorf("no label has the receiver's URL:\n%s", &shown)
	}
	must(t, s.Close())
	must(t, printed.Flush())
	shown.WriteString("\n" + log.String())
	for _, line := range strings.Split(shown.String(), "\n") {
		if strings.Contains(line, marker) {
			t.Errorf("a secret is shown: %s", line)
		}
	}
	if !strings.Contains(log.String(), "refused") && !strings.Contains(log.String(), "500") {
		t.Errorf("the log says nothing about the answers:\n%s", &log)
	}
}
