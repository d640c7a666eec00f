package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHosts: which Host headers are answered, by the address that the server listens on.
func TestHosts(t *testing.T) {
	names := []string{"vm1", "vm1.example", "10.7.7.7", "*.tee.example", "xn--mnchen-3ya.example"}
	servers := map[string]http.Handler{
		"loopback": served(func(o *Options) { o.Hosts = Hosts{Names: names, Loopback: true} }),
		"network":  served(func(o *Options) { o.Hosts = Hosts{Names: names} }),
		"nothing":  served(func(o *Options) { o.Hosts = Hosts{} }),
	}
	const all, network, loopback, nothing = "loopback network nothing", "network nothing", "loopback network", ""
	for host, answers := range map[string]string{
		"localhost": all, "localhost:9780": all, "LocalHost:1": all, "localhost.": all, "localhost.:9780": all, "localhost:": all,
		"127.0.0.1": all, "127.0.0.1:9780": all, "127.7.7.7:9780": all, "[::1]:9780": all, "[::1]": all, "::1": all, "[::ffff:127.0.0.1]:9780": all,
		"": all, // HTTP/1.0

		// An address cannot be rebound: pods under a kubelet's probe, services, port maps.
		"10.0.0.1:9780": network, "192.0.2.1": network, "[2001:DB8::1]:9781": network, "[fd00::7]": network, "[fe80::1%eth0]:9780": network,
		"10.7.7.7:9780": all,

		"vm1": loopback, "vm1:9780": loopback, "VM1.Example.:443": loopback, "a.tee.example": loopback, "A.TEE.example.:1": loopback,
		"xn--mnchen-3ya.example": loopback,

		"evil.example": nothing, "evil.example:9780": nothing, "vm1.evil.example": nothing, "vm1.example.evil": nothing, "evilvm1": nothing,
		"localhost.evil.example": nothing, "127.0.0.1.nip.io": nothing, "10.0.0.1.evil:9780": nothing, "tee.example": nothing, "a.b.tee.example": nothing, "*.tee.example": nothing, "[localhost]": nothing,
		// From any page, browsers connect to these as to loopback; other spellings of an address are names.
		"0.0.0.0:9780": nothing, "[::]:9780": nothing, "0:9780": nothing, "2130706433": nothing, "0x7f000001:9780": nothing, "127.1": nothing, "224.0.0.1": nothing,
		"a:b:c": nothing, "[::1": nothing, "vm1:9780:1": nothing, "vm1/": nothing, "vm1..": nothing, ".": nothing, ":9780": nothing, "vm1 ": nothing, "vm\u00fc.example": nothing,
		"user@vm1": nothing, "http://vm1": nothing, strings.Repeat("a", 70000): nothing,
	} {
		for name, h := range servers {
			want := http.StatusForbidden
			if strings.Contains(answers, name) {
				want = http.StatusOK
			}
			for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/query", "/api/teescope/v1/sources"} {
				w := do(h, "GET", path, "", "Host", host)
				if w.Code != want {
					t.Errorf("%s asked for %s as %.40q: %d, want %d", name, path, host, w.Code, want)
				}
				if w.Code == http.StatusForbidden && w.Body.Len() > 1000 {
					t.Errorf("%.40q: refused with %d bytes", host, w.Body.Len())
				}
				if w.Header().Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%.40q: an answer without headers", host)
				}
			}
		}
	}
}

// TestRefusedHost: the answer names the flag for the name that was asked for, but only for one that can be a name.
func TestRefusedHost(t *testing.T) {
	for host, want := range map[string]string{
		"Monitor.Example.:443": `start teescope with --host-name=monitor.example"`,
		"$(reboot)":            `\"$(reboot)\" is not the name of a host`,
	} {
		t.Run(host, func(t *testing.T) {
			if w := do(served(nil), "GET", "/", "", "Host", host); !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %s, want %s", host, w.Body, want)
			}
		})
	}
}

// TestOtherOrigins: a POST of a foreign page is refused by any name, and one of a page that rebound its name too.
func TestOtherOrigins(t *testing.T) {
	h := served(func(o *Options) { o.Hosts.Names = []string{"vm1"} })
	for _, c := range []struct {
		host, site string
		code       int
	}{
		{"192.168.1.7:9780", "same-origin", 200},
		{"vm1:9780", "same-origin", 200},
		{"vm1:9780", "", 200},
		{"vm1:9780", "cross-site", 403},
		{"192.168.1.7:9780", "cross-site", 403},
		{"evil.example:9780", "same-origin", 403}, // evil.example is 192.168.1.7 now
		{"evil.example:9780", "", 403},
	} {
		w := do(h, "POST", "/api/teescope/v1/sources/syscalls", `{}`, "Host", c.host, "Sec-Fetch-Site", c.site)
		if w.Code != c.code {
			t.Errorf("host %s, site %s: %d, want %d", c.host, c.site, w.Code, c.code)
		}
	}
}

func TestCleanHostName(t *testing.T) {
	for name, want := range map[string]string{
		"Monitor.Example": "monitor.example", "monitor.example.": "monitor.example", "*.Example": "*.example", "a_b": "a_b",
		"10.0.0.1": "10.0.0.1", "[2001:DB8::1]": "2001:db8::1", "2001:db8:0::1": "2001:db8::1", "::ffff:10.0.0.1": "10.0.0.1",
		"": "", "*": "", "*.": "", ".": "", "a..b": "", "monitor.example:443": "", "https://monitor.example": "", "monitor.example/x": "", "m\u00fcnchen.example": "", "a b": "", "a,b": "",
		"a.*.b": "", strings.Repeat("a", 300): "",
	} {
		got, err := CleanHostName(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.40q: %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestStrictTransport: browsers are told to stay with TLS only over TLS, and a header of --web-config wins.
func TestStrictTransport(t *testing.T) {
	for what, c := range map[string]struct {
		tls       bool
		set, want string
	}{
		"plain":        {want: ""},
		"TLS":          {tls: true, want: strictTransport},
		"TLS, its own": {tls: true, set: "max-age=0", want: "max-age=0"},
	} {
		t.Run(what, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if r.TLS = nil; c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			w := httptest.NewRecorder()
			if c.set != "" {
				w.Header().Set("Strict-Transport-Security", c.set)
			}
			served(nil).ServeHTTP(w, r)
			if got := w.Header().Get("Strict-Transport-Security"); w.Code != 200 || got != c.want {
				t.Errorf("%s: %d, %q, want %q", what, w.Code, got, c.want)
			}
		})
	}
}
