package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/teescope/teescope/internal/host"
)

// changes are requests that change something, with what the answer of a success has.
var changes = [][3]string{
	{"POST", "sources/cpu", `{"on":true}`},
	{"POST", "silences", `{"until":"2026-01-01T00:00:00Z"}`}, // refused with 400 once it is allowed
	{"DELETE", "silences/none", ""},                          // 404
	{"PUT", "dashboards", `{"dashboards":[]}`},
}

// curl makes a request as a user, with groups besides its own, and returns status and body; "" where nothing answered.
func curl(t *testing.T, uid uint32, groups []uint32, args ...string) (status, body string) {
	t.Helper()
	c := exec.Command(tool(t, "curl", "curl"), append([]string{"-s", "-w", "\n%{http_code} %{errormsg}"}, args...)...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
	out, _ := c.Output() // the status says what failed
	i := strings.LastIndexByte(string(out), '\n')
	if i < 0 {
		t.Fatalf("curl said %q", out)
	}
	return string(out[i+1:]), string(out[:i])
}

// TestOnlyAuthorityChanges: another user may read over TCP, and change nothing there; the mode of the socket keeps that user out.
// Root and the operators' group change over the socket, and the log has a line of each change.
func TestOnlyAuthorityChanges(t *testing.T) {
	t.Parallel()
	const group = 54321
	m := startMonitor(t, "monitor", "--sources", "^(cpu|self)$", "--operators", fmt.Sprint(group))
	agent := startMonitor(t, "agent", "--sources", "^(cpu|self)$")
	for _, c := range changes {
		for _, at := range []*monitor{m, agent} {
			status, body := curl(t, nobody, nil, "-X", c[0], "-d", c[2], at.url+"/api/teescope/v1/"+c[1])
			if at == agent && !strings.HasPrefix(c[1], "sources") {
				if !strings.HasPrefix(status, "404") {
					t.Errorf("the agent has %s %s: %s %s", c[0], c[1], status, body)
				}
				continue
			}
			if !strings.HasPrefix(status, "403") || !strings.Contains(body, at.socket) || at == m && !strings.Contains(body, "sudo teescope open") {
				t.Errorf("%s %s over TCP: %s %s, want 403 with what to type", c[0], c[1], status, body)
			}
		}
	}
	if status, _ := curl(t, 0, nil, "-X", "PUT", "-d", `{"dashboards":[]}`, m.url+"/api/teescope/v1/dashboards"); !strings.HasPrefix(status, "403") {
		t.Errorf("root over TCP: %s", status)
	}
	if status, body := curl(t, nobody, nil, m.url+"/api/teescope/v1/sources"); !strings.HasPrefix(status, "200") {
		t.Errorf("reading: %s %s", status, body)
	}
	off := func(uid uint32, groups []uint32, at *monitor, on bool) (string, string) {
		return curl(t, uid, groups, "--unix-socket", at.socket, "-d", fmt.Sprintf(`{"on":%t}`, on), "http://localhost/api/teescope/v1/sources/cpu")
	}
	for _, at := range []*monitor{m, agent} {
		if status, body := off(nobody, nil, at, false); !strings.HasPrefix(status, "000") || !strings.Contains(status, "connect") {
			t.Errorf("another user over the socket: %s %s", status, body)
		}
		if status, body := off(0, nil, at, false); !strings.HasPrefix(status, "200") {
			t.Errorf("root over the socket: %s %s", status, body)
		}
		if line := `msg=changed who="uid 0 (root)" what="POST sources/cpu" before="{\"cpu\":{\"state\":\"on\"`; !strings.Contains(at.Err.String(), line) {
			t.Errorf("no line %s in\n%s", line, at.Err)
		}
	}
	if status, body := off(nobody, []uint32{group}, m, true); !strings.HasPrefix(status, "200") {
		t.Errorf("an operator over the socket: %s %s", status, body)
	}
	if line := `msg=changed who="uid 65534 (operator)" what="POST sources/cpu" before="{\"cpu\":{\"state\":\"off\"`; !strings.Contains(m.Err.String(), line) {
		t.Errorf("no line %s in\n%s", line, m.Err)
	}
	if status, body := off(nobody, []uint32{group}, agent, true); !strings.HasPrefix(status, "000") {
		t.Errorf("an operator of the monitor at the agent: %s %s", status, body)
	}

	// A link lets a browser in, once.
	out, err := exec.Command(binary, "open", "--server", m.url).Output()
	link := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(link, m.url+"/open?link=") {
		t.Fatalf("%q %v", out, err)
	}
	jar := filepath.Join(t.TempDir(), "jar")
	if status, body := curl(t, 0, nil, "-c", jar, link); !strings.HasPrefix(status, "303") {
		t.Fatalf("%s %s", status, body)
	}
	if status, body := curl(t, 0, nil, link); !strings.HasPrefix(status, "403") {
		t.Errorf("the link again: %s %s", status, body)
	}
	if status, body := curl(t, 0, nil, "-b", jar, "-X", "PUT", "-d", `{"dashboards":[]}`, m.url+"/api/teescope/v1/dashboards"); !strings.HasPrefix(status, "200") {
		t.Errorf("the browser: %s %s", status, body)
	}
	for _, at := range []*monitor{m, agent} {
		at.Stop(syscall.SIGTERM)
		if _, err := os.Lstat(at.socket); err == nil {
			t.Errorf("%s is there after the end", at.socket)
		}
	}
}

// TestOperatorsOfConfiguration: of the users that the web configuration authenticates, those whom the configuration names may change
// something, until a reload leaves them out.
func TestOperatorsOfConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := "basic_auth_users:\n"
	for _, name := range []string{"alice", "bob"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"!"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users += fmt.Sprintf("  %s: %s\n", name, hash)
	}
	web := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(web, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	needRoot(t)
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	config := configFile(t, "operators: [alice]\n")
	p := start(t, binary, "agent", "--listen", addr, "--sources", "^(cpu|self)$", "--web-config", web, "--config", config)
	t.Cleanup(func() { _ = os.Remove(filepath.Join(host.SystemSockets, port+".sock")) })
	set := func(user string) (code int, err error) {
		r, err := http.NewRequest("POST", "http://"+addr+"/api/teescope/v1/sources/cpu", strings.NewReader(`{"on":true}`))
		if err != nil {
			return 0, err
		}
		r.SetBasicAuth(user, user+"!")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if err := p.Until(t.Context(), "it answers", func() error { _, err := set("alice"); return err }); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int{"alice": http.StatusOK, "bob": http.StatusForbidden, "carol": http.StatusUnauthorized} {
		t.Run(user, func(t *testing.T) {
			if code, err := set(user); code != want || err != nil {
				t.Errorf("%s: %d %v, want %d", user, code, err, want)
			}
		})
	}
	if err := os.WriteFile(config, []byte("operators: [bob]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := p.Until(t.Context(), "bob is an operator", func() error {
		if code, err := set("bob"); code != http.StatusOK || err != nil {
			return fmt.Errorf("%d %w", code, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if code, err := set("alice"); code != http.StatusForbidden || err != nil {
		t.Errorf("alice after the reload: %d %v", code, err)
	}
	// Without users the web configuration lets every request pass: a name alone is nothing then.
	if err := os.WriteFile(web, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, err := set("bob"); code != http.StatusForbidden || err != nil {
		t.Errorf("a name that nobody authenticated: %d %v", code, err)
	}
}
