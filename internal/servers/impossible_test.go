package servers

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// TestImpossibleTimes reads INFO of Redis 7.0.15 on Gramine 1.9post (gramine-direct), recorded 14 s after its start: Gramine keeps no
// account of CPU time, and Redis prints what its memory held.
func TestImpossibleTimes(t *testing.T) {
	text, err := os.ReadFile("testdata/redis-gramine.info")
	if err != nil {
		t.Fatal(err)
	}
	recorded := readInfo(text)
	f := func(uptime, used string, kept bool) {
		t.Helper()
		said := maps.Clone(recorded)
		if uptime != "" {
			said["uptime_in_seconds"], said["used_cpu_user"] = uptime, used
		}
		before := len(said)
		dropImpossible(said, "uptime_in_seconds", redisTimes...)
		if _, has := said["used_cpu_user"]; has != kept {
			t.Errorf("up %q s, used %q s: kept %v, want %v", uptime, used, has, kept)
		}
		if gone := before - len(said); gone > len(redisTimes) || said["total_commands_processed"] != recorded["total_commands_processed"] {
			t.Errorf("up %q s, used %q s: %d values are gone", uptime, used, gone)
		}
	}
	f("", "", false)
	f("14", "0.25", true)
	f("0", "0.25", true)
	f("14", "0", true)
	f("14", "-1", false)
	f("14", "NaN", false)
	f("14", "none", true) // no number; its readers say so
	f("1000000", "2000000", true)
	f("soon", "108118775836384.000032", true)
	if left := slices.DeleteFunc(slices.Clone(redisTimes), func(name string) bool { return recorded[name] != "" }); len(left) > 0 {
		t.Errorf("the recorded answer lacks %v", left)
	}
}
