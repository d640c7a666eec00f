package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// farEnv is an environment with a network of its own.
type farEnv struct {
	Environment
	err error
}

func (e farEnv) Reach(_ context.Context, offered Place) (inside, outside Place, way string, err error) {
	outside = Place{Host: offered.Host, Ports: slices.Clone(offered.Ports)}
	return Place{"10.0.2.15", []int{1, 2, 3}}, outside, "a tunnel", e.err
}

// TestReach: a server listens where its environment says, and the load goes to the address that
// reaches it; without a load, Reach is not called.
func TestReach(t *testing.T) {
	job := Job{
		Inside:  host.Cmd{Argv: []string{"serve", "{host}:{port}"}, Env: map[string]string{"PAGE": "{host}:{port3}"}},
		Files:   []File{{Name: "conf", Data: []byte("listen {host}:{port2};")}, {Name: "program", Data: []byte("{port}"), Exec: true}},
		Outside: &host.Cmd{Argv: []string{"load", "{host}:{port}", "{port2}"}},
	}
	w := &Workload{Job: func(p Params) (Job, error) {
		if p["load"] == "no" {
			return Job{Inside: job.Inside}, nil
		}
		return job, nil
	}}
	arm := &Arm{Label: "a"}
	s := &session{Plan: &Plan{Workload: w, Cases: []Case{{ID: "one", Params: Params{}}}}, o: Options{Host: host.Local()}}

	near, err := s.reach(t.Context(), arm, nil)
	if err != nil || near.way != "loopback" {
		t.Fatalf("%+v, %v", near, err)
	}
	on := near.fillIn(job)
	if got := on.Inside.Argv[1]; got != on.Outside.Argv[1] || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("the server listens on %s, the load goes to %s", got, on.Outside.Argv[1])
	}

	far, err := s.reach(t.Context(), arm, farEnv{})
	if err != nil || far.way != "a tunnel" {
		t.Fatalf("%+v, %v", far, err)
	}
	on = far.fillIn(job)
	if on.Inside.Argv[1] != "10.0.2.15:1" || on.Inside.Env["PAGE"] != "10.0.2.15:3" || string(on.Files[0].Data) != "listen 10.0.2.15:2;" || string(on.Files[1].Data) != "{port}" {
		t.Errorf("inside: %v, files %v", on.Inside, on.Files)
	}
	if got := on.Outside.Argv[1]; !strings.HasPrefix(got, "127.0.0.1:") || strings.HasSuffix(got, ":1") {
		t.Errorf("the load goes to %s", got)
	}
	if job.Outside.Argv[1] != "{host}:{port}" || string(job.Files[0].Data) != "listen {host}:{port2};" {
		t.Error("the job itself was changed")
	}

	if _, err := s.reach(t.Context(), arm, farEnv{err: errors.New("no way")}); err == nil {
		t.Error("an environment that is not reached")
	}
	s.Cases[0].Params["load"] = "no"
	if r, err := s.reach(t.Context(), arm, farEnv{err: errors.New("no way")}); err != nil || r.way != "" || r.inside.Host != "127.0.0.1" {
		t.Errorf("without a load: %+v, %v", r, err)
	}
}

// TestSettle: parameters that the user left open follow from the job.
func TestSettle(t *testing.T) {
	l := members()
	l.Launchers[1].Params = append(l.Launchers[1].Params, Param{Name: "net", Default: "auto"})
	l.Launchers[1].Settle = func(_ Params, jobs []Job) Params {
		return Params{"net": "user", "size": jobs[len(jobs)-1].Inside.Argv[1]}
	}
	plans, err := NewPlans(Choice{Experiment: job(), Envs: []string{"native", "tee"}}, l)
	if err != nil {
		t.Fatal(err)
	}
	if p := plans[0]; p.Arms[1].Params["net"] != "user" || p.Arms[1].Params["size"] != "1" || p.Arms[0].Params["net"] != "" {
		t.Errorf("%+v", p.Arms)
	}
}

// TestOwnLoads: where environments run loads themselves, the document says so, and a client is refused.
func TestOwnLoads(t *testing.T) {
	w := &Workload{Job: func(Params) (Job, error) { return Job{Outside: &host.Cmd{}}, nil }}
	own := &Launcher{Name: "own", Remote: true, OwnLoad: func(p Params) string { return p["at"] }}
	plan := func(at ...string) *Plan {
		p := &Plan{Workload: w, Cases: []Case{{ID: "one"}}}
		for _, a := range at {
			p.Arms = append(p.Arms, Arm{Launcher: own, Params: Params{"at": a}})
		}
		return p
	}
	mixed := plan("a pod")
	mixed.Arms = append(mixed.Arms, Arm{Launcher: &Launcher{Name: "here"}})
	var none *Client
	ssh := &Client{Name: "ssh:far"}
	for _, c := range []struct {
		client *Client
		plan   *Plan
		place  string
		wrong  string
	}{
		{none, plan("", ""), result.ThisHost, ""},
		{ssh, plan("", ""), "ssh:far", ""},
		{none, plan("a pod", "a pod", "another pod"), "a pod; another pod", ""},
		{none, mixed, "a pod; " + result.SameHost, ""},
		{ssh, plan("a pod"), "a pod", "leave out --client"},
		{ssh, plan("", "a pod"), "a pod; ssh:far", "leave out --client"},
	} {
		t.Run(c.place, func(t *testing.T) {
			if got := c.client.place(c.plan); got != c.place {
				t.Errorf("the place is %q, want %q", got, c.place)
			}
			if err := c.client.refuses(c.plan); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}
