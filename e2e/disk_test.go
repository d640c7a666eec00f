package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestDiskFull fills the disk while the monitor runs, frees it, then kills and restarts the
// monitor. The monitor reports the full disk, and no sample stored before the kill is lost.
func TestDiskFull(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	data, filler := filepath.Join(dir, "data"), filepath.Join(dir, "filler")
	m := startMonitor(t, "monitor", "--data", data, "--interval", "1s")
	samples := func() float64 { return m.query(t, "count_over_time(node_load1[10m])", "job")["teescope"] }
	storeError := func() string {
		body, err := fetch(m.url + "/api/teescope/v1/overhead")
		if err != nil {
			t.Fatal(err)
		}
		var o struct{ StoreError string }
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			t.Fatal(err)
		}
		return o.StoreError
	}
	await.Event(t, "samples are stored", func() error {
		if n := samples(); n < 3 {
			return fmt.Errorf("%v samples", n)
		}
		return nil
	})
	if s := storeError(); s != "" {
		t.Fatalf("trouble before the disk is full: %s", s)
	}

	fill(t, filler)
	await.Event(t, "the monitor says that the disk is full", func() error {
		if s := storeError(); s == "" {
			return fmt.Errorf("no error after filling; %v samples", samples())
		}
		return nil
	})
	t.Logf("full: %s", storeError())
	full := samples()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "samples are stored again", func() error {
		if n := samples(); n < full+3 {
			return fmt.Errorf("%v samples, %v when full", n, full)
		}
		return nil
	})
	if lost := m.query(t, "teescope_store_lost_samples_total", "job")["teescope"]; lost == 0 {
		t.Error("samples were refused while the disk was full, but none is counted as lost")
	}
	before := samples()
	m.Stop(syscall.SIGKILL)
	m = startMonitor(t, "monitor", "--data", data, "--interval", "1s")
	if after := samples(); after < before {
		t.Errorf("%v samples after the restart, %v were there before the kill", after, before)
	}
}

// fill writes to a file until its file system is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
}
