package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// calibration holds the fields of calibration.json that the tests read.
type calibration struct {
	Fingerprint map[string]any `json:"fingerprint"`
	Units       []struct {
		Event              string
		Seconds, Low, High float64
		Method             string
	} `json:"units"`
	Missing []struct{ Event, Reason string } `json:"missing"`
}

func readCalibration(dir string) (c calibration, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "calibration.json"))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(b, &c)
}

// TestCalibrate: a monitor measures once the costs of events on its host, serves them, and measures again on another
// kernel.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	out, errb, code := run(t, "calibrate")
	if code != 0 || !strings.Contains(out, "fault_write") || !strings.Contains(out, "enclave_transition") {
		t.Errorf("exit status %d: %s%s", code, out, errb)
	}
	t.Logf("\n%s", out)
	needRoot(t)
	dir := t.TempDir()
	m := startMonitor(t, "monitor", "--data", dir, "--interval", "1s")
	c, err := readCalibration(dir)
	if err != nil || len(c.Units) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	await.Event(t, "the costs are series", func() error {
		for bound, value := range map[string]func(i int) float64{
			"median": func(i int) float64 { return c.Units[i].Seconds },
			"low":    func(i int) float64 { return c.Units[i].Low },
			"high":   func(i int) float64 { return c.Units[i].High },
		} {
			got := m.query(t, fmt.Sprintf("tee_unit_cost_seconds{bound=%q}", bound), "event")
			if len(got) != len(c.Units) {
				return fmt.Errorf("%d series of %d events", len(got), len(c.Units))
			}
			for i, u := range c.Units {
				if got[u.Event] != value(i) {
					t.Errorf("%s of %s is %g, kept is %g", bound, u.Event, got[u.Event], value(i))
				}
			}
		}
		return nil
	})
	if m.Stop(syscall.SIGTERM) != 0 {
		t.Error("the monitor ended with an error")
	}

	name := filepath.Join(dir, "calibration.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	kernel, _ := c.Fingerprint["kernel"].(string)
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(b), kernel, "another kernel")), 0o600); err != nil {
		t.Fatal(err)
	}
	m = startMonitor(t, "monitor", "--data", dir)
	if c, err = readCalibration(dir); err != nil || c.Fingerprint["kernel"] != kernel {
		t.Errorf("the costs of another kernel are kept: %v, %v", c.Fingerprint["kernel"], err)
	}
	await.Event(t, "it says that it measures again", func() error { // its output may arrive late
		if said := m.Err.String(); !strings.Contains(said, "another kernel") {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})

	agent := startMonitor(t, "agent")
	page, err := fetch(agent.url + "/metrics")
	if err != nil || strings.Contains(page, "tee_unit_cost_seconds") {
		t.Errorf("an agent calibrates without being asked: %v", err)
	}
	agent = startMonitor(t, "agent", "--calibrate")
	page, err = fetch(agent.url + "/metrics")
	if err == nil && !strings.Contains(page, `tee_unit_cost_seconds{event="syscall",bound="median"} `) {
		err = errors.New("no unit costs")
	}
	if err != nil {
		t.Errorf("an agent that is to calibrate: %v", err)
	}
}
