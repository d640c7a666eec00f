package store_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// apiServer lists pods as a Kubernetes API server does. While it is away it refuses everything.
type apiServer struct {
	pods    atomic.Value // JSON
	away    atomic.Bool
	refused atomic.Int64
	ended   chan struct{}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a.away.Load():
		a.refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select { // nothing changes
		case <-r.Context().Done():
		case <-a.ended:
		}
	default:
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, a.pods.Load())
	}
}

func podAt(name, port string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":%[1]q},"status":{"podIP":"127.0.0.1","phase":"Running"},
		"spec":{"nodeName":"n","containers":[{"name":"agent","ports":[{"containerPort":%s,"protocol":"TCP"}]}]}}`, name, port)
}

// TestAPIServerAway: while the API server does not answer, the targets that it named are scraped on. What changed in the
// meantime is taken over when it is back.
func TestAPIServerAway(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintln(w, "app_requests_total 7")
	}))
	defer target.Close()
	port := target.URL[strings.LastIndexByte(target.URL, ':')+1:]
	api := &apiServer{ended: make(chan struct{})}
	api.pods.Store(podAt("first", port))
	srv := httptest.NewServer(api)
	defer srv.Close()
	defer close(api.ended)
	s := open(t, options(t))
	must(t, s.ApplyConfig(parsed(t, `
scrape_configs:
  - job_name: pods
    scrape_interval: 500ms
    scrape_timeout: 500ms
    kubernetes_sd_configs: [{role: pod, api_server: '`+srv.URL+`'}]
    relabel_configs: [{source_labels: [__meta_kubernetes_pod_name], target_label: pod}]
`)))
	scrapes := func(pod string) float64 {
		p := query(t, s, `count_over_time(app_requests_total{pod="`+pod+`"}[1h])`, time.Now())
		if len(p) == 0 {
			return 0
		}
		return p[0].Value
	}
	eventually(t, "the pod is scraped", func() bool { return scrapes("first") > 0 })

	api.away.Store(true)
	srv.CloseClientConnections()
	eventually(t, "discovery asks in vain", func() bool { return api.refused.Load() >= 2 })
	before := scrapes("first")
	eventually(t, "the pod is still scraped", func() bool { return scrapes("first") >= before+3 })

	api.pods.Store(podAt("second", port))
	api.away.Store(false)
	eventually(t, "the other pod is scraped", func() bool { return scrapes("second") > 0 })
	eventually(t, "the series of the first end", func() bool { return len(query(t, s, `{pod="first"}`, time.Now())) == 0 })
}
