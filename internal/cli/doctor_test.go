package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/web"
)

// TestDoctorBesideMonitor: a running monitor's settings are in the table, as the ones that its series come from.
func TestDoctorBesideMonitor(t *testing.T) {
	whole, part := 1.0, 0.25
	list := []web.Source{
		{Name: "cpu", State: "available"},
		{Name: "syscalls", State: "off", Reason: "switched off"},
		{Name: "waits", State: "available", Level: "deep", Coverage: &part},
		{Name: "faults", State: "available", Process: "redis", Cgroup: "a.slice", Container: "web", PIDs: []int{4, 5}, Coverage: &whole},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/teescope/v1/sources" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	defer server.Close()
	b, err := monitorBeside(t.Context(), server.URL, true)
	if err != nil || b == nil || len(b.Sources) != len(list) {
		t.Fatalf("%+v, %v", b, err)
	}
	d := diagnosis{Monitor: b}
	for name, want := range map[string]string{
		"cpu":      "",
		"syscalls": "in the monitor: off (switched off)",
		"waits":    "in the monitor: at level deep, counting 25 % of the time",
		"faults":   `in the monitor: only processes that match "redis", only control groups that match "a.slice", only containers that match "web", only processes 4 5`,
		"sgx":      "not in the monitor",
	} {
		s := web.Source{Name: name, State: "available"}
		if got := b.of(s); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		d.Sources = append(d.Sources, s)
	}
	var out strings.Builder
	if err := d.print(&out); err != nil || !strings.Contains(out.String(), server.URL+" runs") || !strings.Contains(out.String(), "in the monitor: off (switched off)") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	var none *besides
	if got := none.of(web.Source{Name: "cpu"}); got != "" {
		t.Errorf("without a monitor: %q", got)
	}
}

// TestDoctorWithoutMonitor: only a monitor that the user named must answer.
func TestDoctorWithoutMonitor(t *testing.T) {
	agent := httptest.NewServer(http.NotFoundHandler())
	url := agent.URL
	if b, err := monitorBeside(t.Context(), url, false); b != nil || err != nil {
		t.Errorf("an agent: %+v, %v", b, err)
	}
	if _, err := monitorBeside(t.Context(), url, true); err == nil || !strings.Contains(err.Error(), "no teescope monitor answers there") {
		t.Errorf("an agent that was named: %v", err)
	}
	agent.Close()
	if b, err := monitorBeside(t.Context(), url, false); b != nil || err != nil {
		t.Errorf("nobody: %+v, %v", b, err)
	}
	if _, err := monitorBeside(t.Context(), url, true); err == nil || !strings.Contains(err.Error(), "--server") {
		t.Errorf("nobody where one was named: %v", err)
	}
	if _, err := monitorBeside(t.Context(), "ftp://127.0.0.1:9780", false); err == nil {
		t.Error("a bad URL is no error")
	}
}
