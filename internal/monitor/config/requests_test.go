package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
)

func TestRequestsConfig(t *testing.T) {
	c, err := Parse([]byte(`
requests:
- {process: redis-server, app: redis, address: 127.0.0.1:6379, password_file: redis.password}
- {process: web, app: openmetrics, address: "http://localhost/metrics", counter: http_requests_total}
`), "/etc/teescope", sources.All)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Targets()) != 2 || c.Targets()[0].PasswordFile != "/etc/teescope/redis.password" || c.Targets()[0].App.Name != "redis" ||
		c.Targets()[1].Counter != "http_requests_total" || c.Targets()[1].Process != "web" {
		t.Errorf("%+v", c.Targets())
	}
	for in, want := range map[string]string{
		"requests:\n- app: redis\n":                                                    "line 2: requests: process: want the server's process name, as in /proc/PID/comm",
		"requests:\n- process: a\n  app: mysql\n":                                      `line 3: requests: app: "mysql": want one of redis, nginx, postgresql, memcached, openmetrics`,
		"requests:\n- process: a\n":                                                    `line 2: requests: app: "": want one of redis, nginx, postgresql, memcached, openmetrics`,
		"requests:\n- process: a\n  app: redis\n  address: nowhere\n":                  `line 4: requests: address: "nowhere": want HOST:PORT or the absolute path of a unix socket`,
		"requests:\n- process: a\n  app: nginx\n  address: ftp://x/\n":                 `line 4: requests: address: "ftp://x/": want a URL like http://127.0.0.1:8080/metrics`,
		"requests:\n- {process: a, app: openmetrics, address: http://x/}\n":            "line 2: requests: counter: want the name of a counter that the address serves",
		"requests:\n- {process: a, app: redis, address: /run/r, counter: b}\n":         "line 2: requests: counter: redis has only one counter; leave this out",
		"requests:\n- &a {process: a, app: redis, address: /run/r}\n- *a\n":            "line 3: requests: process: this server is listed twice",
		"requests: {process: a}\n":                                                     "line 1: requests: want a list of servers",
		"requests:\n- process: a\n  app: redis\n  address: /run/r\n  password: secret": "line 5: password is not a known key",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := Parse([]byte(in), ".", sources.All); err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", in, err, want)
			}
		})
	}
}

// TestRequestsSource: the source with servers replaces the one without, and asks the
// servers currently configured.
func TestRequestsSource(t *testing.T) {
	a := new(observe.Asked)
	list := a.ReplaceSource(sources.All)
	if len(list) != len(sources.All) {
		t.Fatalf("%d sources, want %d", len(list), len(sources.All))
	}
	var s *probe.Source
	for _, x := range list {
		if sources.IsRequests(x) {
			s = x
		}
	}
	if _, err := s.Open(nil, nil); err == nil {
		t.Error("opened without anybody to ask")
	}
	c, err := Parse([]byte("requests: [{process: a, app: redis, address: /run/r}]"), ".", list)
	if err != nil {
		t.Fatal(err)
	}
	a.Set(c.Targets())
	r, err := s.Open(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestRequestsPage: a counter that the configuration names is found on a page as servers of public reports write it.
func TestRequestsPage(t *testing.T) {
	s := httptest.NewServer(http.FileServer(http.Dir("../../store/testdata/page")))
	defer s.Close()
	a := new(observe.Asked)
	c, err := Parse(fmt.Appendf(nil, "requests: [{process: shop, app: openmetrics, address: %q, counter: shop_orders_total}]", s.URL+"/merged"), ".", a.ReplaceSource(sources.All))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Targets()[0].App.Read(t.Context(), host.Local(), c.Targets()[0]); err != nil || v != 41 {
		t.Errorf("got %v, %v, want 41", v, err)
	}
}
