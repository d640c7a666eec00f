package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// agentLimit is how large teescope-agent may be, in bytes; docs/dev/decisions/025-the-agent-alone.md has what it would be with a queue.
const agentLimit = 30 << 20

// TestAgentAlone: teescope-agent is small, serves what `teescope agent` serves, and has no page.
func TestAgentAlone(t *testing.T) {
	needRoot(t)
	program := filepath.Join(filepath.Dir(binary), "teescope-agent")
	fi, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > agentLimit {
		t.Errorf("it has %d bytes, want at most %d", fi.Size(), agentLimit)
	}
	var names [2][]string
	for i, argv := range [][]string{{binary, "agent"}, {program}} {
		m := &monitor{Program: start(t, argv[0], append(argv[1:], "--listen", "127.0.0.1:0", "--budget", "100%", "--sources", "^(cpu|memory|self|syscalls)$")...)}
		m.opened(t)
		defer os.Remove(m.socket)
		page, err := fetch(m.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(page) {
			if help, ok := strings.CutPrefix(line, "# HELP "); ok {
				name, _, _ := strings.Cut(help, " ")
				names[i] = append(names[i], name)
			}
		}
		slices.Sort(names[i])
		resp, err := http.Get(m.url + "/")
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s answers / with %s", argv[0], resp.Status)
		}
		m.Stop(syscall.SIGTERM)
	}
	if !slices.Equal(names[0], names[1]) || len(names[0]) == 0 {
		t.Errorf("teescope agent serves %v, teescope-agent %v", names[0], names[1])
	}
	out, err := exec.Command(program, "version", "--json").Output()
	if err != nil || !bytes.Contains(out, []byte(`"kind": "agent"`)) {
		t.Errorf("version: %v, %s", err, out)
	}
}
