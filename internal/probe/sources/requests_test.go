package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/servers"
)

// requestsOf returns the source with a fixture's targets.
func requestsOf(t *testing.T, text string) *probe.Source {
	t.Helper()
	var list []struct{ Process, App, Address string }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("targets: %v", err)
	}
	var targets []servers.Target
	for _, x := range list {
		i := slices.IndexFunc(servers.All, func(a *servers.App) bool { return a.Name == x.App })
		if i < 0 {
			t.Fatalf("targets: no app %s", x.App)
		}
		targets = append(targets, servers.Target{App: servers.All[i], Process: x.Process, Address: x.Address})
	}
	return Requests(func() []servers.Target { return targets })
}

// TestRequests simulates servers that answer, restart, fail and block. The bubble's clock makes
// answers arrive in no time, however busy the machine.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]float64{"a": 100, "b": 10, "c": 7}
		errs := map[string]error{}
		late := make(chan struct{})
		fake := &servers.App{Name: "fake", Read: func(ctx context.Context, _ *host.Host, t servers.Target) (float64, error) {
			if t.Address == "blocks" {
				<-ctx.Done()
				return 0, errors.New("i/o timeout")
			}
			if t.Address == "deadline" {
				return 0, fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded)
			}
			if t.Address == "late" {
				<-late
				return 42, nil
			}
			return answers[t.Address], errs[t.Address]
		}}
		target := func(process, address string) servers.Target {
			return servers.Target{App: fake, Process: process, Address: address}
		}
		targets := []servers.Target{target("web", "a"), target("web", "b"), target("db", "c")}
		r, err := Requests(func() []servers.Target { return targets }).Open(host.Local(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		read := func(want string) {
			t.Helper()
			var got []string
			err := r.Read(t.Context(), func(s metric.Sample) { got = append(got, fmt.Sprintf("%s %s %g", s.Labels[0], s.Labels[1], s.Value)) })
			if err != nil {
				got = append(got, err.Error())
			}
			if s := strings.Join(got, "; "); s != want {
				t.Errorf("got %s, want %s", s, want)
			}
		}
		read("web fake 110; db fake 7") // servers of one name share a series
		answers["a"], answers["b"] = 150, 11
		read("web fake 161; db fake 7")
		answers["a"] = 5 // it was restarted
		read("web fake 166; db fake 7")
		errs["b"] = errors.New("refused\x1b[31m\n" + strings.Repeat("x", 1000))
		answers["a"] = 6
		read("db fake 7; fake at b: refused\ufffd[31m " + strings.Repeat("x", 285) + "...") // without the answer of one of its servers, web has no sum
		delete(errs, "b")
		answers["b"] = 20
		read("web fake 176; db fake 7")
		// A server that joins or leaves answered no requests at that moment.
		answers["d"] = 1e6
		targets = append(targets, target("web", "d"))
		read("web fake 176; db fake 7")
		answers["d"], answers["a"] = 1e6+3, 7
		read("web fake 180; db fake 7")
		targets = slices.DeleteFunc(targets, func(t servers.Target) bool { return t.Address == "d" })
		answers["b"] = 21
		read("web fake 181; db fake 7")
		targets = []servers.Target{target("db", "c"), target("web", "late")}
		answers["c"] = 9
		err = r.Read(t.Context(), func(s metric.Sample) {
			if s.Labels[0] != "db" || s.Value != 9 {
				t.Errorf("%+v", s)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "fake at late: the server has not answered for ") {
			t.Errorf("a server that blocks: %v", err)
		}
		close(late)
		<-r.(*requestsReader).asked[targets[1]].ended
		read("db fake 9; web fake 42") // an answer that came between two readings is used
		targets = []servers.Target{target("db", "blocks")}
		began := time.Now()
		if err := r.Read(t.Context(), func(s metric.Sample) { t.Errorf("%+v", s) }); err == nil || time.Since(began) >= answerLimit {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		<-r.(*requestsReader).asked[targets[0]].ended
		read("fake at blocks: the server has not answered within 2s")
		targets = []servers.Target{target("db", "deadline")}
		read("fake at deadline: the server has not answered within 2s")
	})
}
