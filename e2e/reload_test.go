package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestReloadWithoutFile: on SIGHUP a monitor without a configuration reports that, and keeps the source settings made
// through the API.
func TestReloadWithoutFile(t *testing.T) {
	t.Parallel()
	m := startMonitor(t, "monitor", "--interval", "1s")
	want := map[string]string{"pressure": "off", "tcp": "available"}
	for name, on := range map[string]string{"pressure": "false", "tcp": "true"} {
		t.Run(name, func(t *testing.T) {
			if _, err := m.call("POST", "/api/teescope/v1/sources/"+name, `{"on":`+on+`}`); err != nil {
				t.Fatal(err)
			}
		})
	}
	check := func() {
		t.Helper()
		await.Event(t, "the settings hold", func() error { // a source that is late in a round is degraded
			body, err := m.call("GET", "/api/teescope/v1/sources", "")
			if err != nil {
				return err
			}
			var list []struct{ Name, State, Reason string }
			if err := json.Unmarshal([]byte(body), &list); err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if w := want[s.Name]; w != "" && w != s.State {
					return fmt.Errorf("source %s is %s (%s), want %s", s.Name, s.State, s.Reason, w)
				}
			}
			return nil
		})
	}
	check()
	if err := m.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the monitor answers SIGHUP", func() error {
		if !strings.Contains(m.Err.String(), "nothing changed") {
			return fmt.Errorf("the log is:\n%s", m.Err)
		}
		return nil
	})
	check()
}
