package port

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

func TestWebConfigErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte("tls: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readWebConfig(file); err == nil || !strings.HasSuffix(err.Error(), "web.yml: line 1: tls is not a known key") {
		t.Errorf("%v", err)
	}
}

// TestResolve: what is opened is what was judged.
func TestResolve(t *testing.T) {
	for addr, want := range map[string]string{
		":80": ":80 false", "0.0.0.0:80": "0.0.0.0:80 false", "[::]:http": "[::]:http false", "127.0.0.1:80": "127.0.0.1:80 true", "[::1]:80": "[::1]:80 true",
		"[::ffff:127.0.0.1]:80": "127.0.0.1:80 true", "10.0.0.1:80": "10.0.0.1:80 false", "localhost:80": "127.0.0.1:80 true",
	} {
		t.Run(addr, func(t *testing.T) {
			at, local, err := resolve(t.Context(), addr)
			if got := fmt.Sprint(at, " ", local); got != want || err != nil {
				t.Errorf("%s: %s, %v, want %s", addr, got, err, want)
			}
		})
	}
}

// TestOwnNames: the names of a machine come from its kernel and its files.
func TestOwnNames(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := &host.Host{Root: root}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ machine, hosts, resolv, want string }{
		{"vm1", "", "", "vm1"},
		{"vm1.Corp.example", "", "", "vm1 vm1.corp.example"},
		{"vm1", "127.0.0.1 localhost\n127.0.1.1 VM1.corp.example vm1 # this one\n#10.0.0.9 evil.example vm1\n10.0.0.2 other\n\n", "", "vm1 vm1.corp.example"},
		{"vm1", "", "search north.example south.example.\nnameserver 10.0.0.1\noptions ndots:5\n", "vm1 vm1.north.example vm1.south.example"},
		{"", "10.0.0.2 other\n", "search north.example\nsearch\n", ""},
		{"no name?", "", "", ""},
	} {
		t.Run(c.machine, func(t *testing.T) {
			writeFile(t, filepath.Join(root, "etc/hosts"), c.hosts)
			writeFile(t, filepath.Join(root, "etc/resolv.conf"), c.resolv)
			got := slices.DeleteFunc(ownNames(h, c.machine), func(name string) bool { return name == own || strings.HasPrefix(name, own+".") })
			if strings.Join(got, " ") != c.want {
				t.Errorf("%+v: %v", c, got)
			}
		})
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
