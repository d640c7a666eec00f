package launchers

import (
	"testing"
	"time"

	"github.com/teescope/teescope/internal/bench"
)

// TestBootPhases: the phases inside are placed by what the guest's clock shows when it greets, whenever that arrives.
func TestBootPhases(t *testing.T) {
	start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	v := &vm{began: start, answered: start.Add(200 * time.Millisecond), greeted: start.Add(3 * time.Second),
		agent: &agent{began: 1500 * time.Millisecond, greeted: 2 * time.Second}}
	if got, want := *v.boot(), (bench.Boot{VMM: 200 * time.Millisecond, Firmware: time.Second, Kernel: 2500 * time.Millisecond, Init: 3 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestBoots: only a machine of its own for each run is a boot.
func TestBoots(t *testing.T) {
	for _, l := range All {
		p, err := bench.Complete("launcher", l.Params, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Boots != nil && l.Boots(p) {
			t.Errorf("%s boots by default", l.Name)
		}
		if (l.Boots != nil) != (l.Name == "qemu") {
			t.Errorf("%s: boots is %v", l.Name, l.Boots != nil)
		}
	}
	if p, err := bench.Complete("launcher", qemu.Params, bench.Params{"fresh": "true"}); err != nil || !qemu.Boots(p) {
		t.Errorf("fresh=true: %v", err)
	}
}
