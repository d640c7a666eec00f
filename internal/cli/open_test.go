package cli

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestOpen: the command prints the link of the monitor at a socket, below the address that --server names, and says what is wrong
// with any other socket.
func TestOpen(t *testing.T) {
	dir, err := host.Local().MkdirShort("open", "agent.sock", host.MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, answer := range map[string]http.HandlerFunc{
		"monitor": func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/api/teescope/v1/links" {
				t.Errorf("it asks %s %s", r.Method, r.URL)
			}
			_, _ = w.Write([]byte(`{"url":"http://127.0.0.1:9780/","path":"open?link=abc","seconds":120,"session":28800}`))
		},
		"agent": http.NotFound,
		"strict": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"not you"}`, http.StatusForbidden)
		},
		"other": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"path":"//evil.example"}`)) },
	} {
		l, err := net.Listen("unix", filepath.Join(dir, name+".sock"))
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: answer}
		go func() { _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close() })
	}
	for _, c := range []struct {
		socket string
		args   []string
		want   string // of standard output, or of standard error with a status other than 0
		status int
	}{
		{"monitor", nil, "http://127.0.0.1:9780/open?link=abc\n", 0},
		{"monitor", []string{"--server", "https://host.example/below"}, "https://host.example/below/open?link=abc\n", 0},
		{"agent", nil, "an agent has no page", exitUsage},
		{"strict", nil, "403 Forbidden: not you", exitUsage},
		{"other", nil, "does a teescope monitor use this socket?", exitUsage},
		{"none", nil, "start one with `teescope monitor`", exitUsage},
		{"monitor", []string{"--server", "ftp://x"}, "want an address", exitUsage},
	} {
		var out, errs strings.Builder
		args := append([]string{"open", "--socket", filepath.Join(dir, c.socket+".sock")}, c.args...)
		status := Main(t.Context(), Env{Args: args, Stdout: &out, Stderr: &errs})
		text := out.String()
		if c.status != 0 {
			text = errs.String()
		}
		if status != c.status || !strings.Contains(text, c.want) || c.status == 0 && text != c.want {
			t.Errorf("%v: status %d, %q, want %d with %q", args, status, text, c.status, c.want)
		}
	}
}
