package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
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
	base, err := serverURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b, err := monitorBeside(t.Context(), base)
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
		t.Run(name, func(t *testing.T) {
			s := web.Source{Name: name, State: "available"}
			if got := b.differences(s); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			d.Sources = append(d.Sources, s)
		})
	}
	var out strings.Builder
	if err := d.print(&out); err != nil || !strings.Contains(out.String(), server.URL+" runs") || !strings.Contains(out.String(), "in the monitor: off (switched off)") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	var none *besides
	if got := none.differences(web.Source{Name: "cpu"}); got != "" {
		t.Errorf("without a monitor: %q", got)
	}
}

// TestThingsToDo: the most useful first, from the rows, each with a command; at most three, and none is said.
func TestThingsToDo(t *testing.T) {
	bad := func(name, remedy string) web.Source {
		return web.Source{Name: name, State: "unavailable", Reason: "why", Remedy: remedy}
	}
	root := web.Platform{Privileged: true}
	hidden := bad("llc", "ask the provider")
	hidden.Blind = true
	const url = "http://127.0.0.1:9780"
	for name, tt := range map[string]struct {
		d       diagnosis
		monitor string
		failed  error
		want    []string // commands
		words   []string
	}{
		"nobody": {diagnosis{Sources: []web.Source{bad("tls", "run as root"), bad("syscalls", "run as root"), bad("waits", "run as root"), bad("faults", "run as root")}}, url, syscall.ECONNREFUSED,
			[]string{"sudo teescope doctor", "sudo teescope monitor"}, []string{"Two things", "not root: 4 sources", "tls, syscalls, waits and 1 more"}},
		"root": {diagnosis{Platform: root, Sources: []web.Source{bad("kvm", "modprobe kvm_amd, then restart teescope"), bad("disk", "wait"), bad("syscalls", "boot another kernel."), hidden}}, url, syscall.ECONNREFUSED,
			[]string{"teescope doctor", "teescope monitor", "modprobe kvm_amd"}, []string{"Three things", "1. The source syscalls is unavailable: boot another kernel. Then", "3. The source kvm is unavailable: run the command, then restart teescope."}},
		"a monitor runs": {diagnosis{Platform: root, Sources: []web.Source{bad("cgroups", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")}}, "", nil,
			[]string{"mount -t cgroup2 cgroup2 /sys/fs/cgroup"}, []string{"One thing"}},
		"nothing": {diagnosis{Platform: root, Sources: []web.Source{hidden, {Name: "cpu", State: "available"}}}, "", nil, nil, []string{"Nothing to do"}},
		"a monitor that refuses": {diagnosis{Platform: root}, url, errors.New("ask the monitor: it asks for a user name and a password."),
			[]string{"teescope doctor --server " + url}, []string{"One thing", "could not ask the monitor about its sources: ask the monitor: it asks for a user name and a password."}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.d.ThingsToDo = tt.d.thingsToDo(tt.monitor, tt.failed)
			var got []string
			for _, x := range tt.d.ThingsToDo {
				got = append(got, x.Command)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("commands %q, want %q", got, tt.want)
			}
			var out strings.Builder
			if err := tt.d.print(&out); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, w := range slices.Concat(tt.words, got) {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, out.String())
				}
			}
		})
	}
}
