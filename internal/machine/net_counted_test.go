package machine_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/machine"
)

// TestCountedNetworks: of the listed devices of each machine those count that carry all the others' bytes, and each of the
// others is known not to.
func TestCountedNetworks(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/networks/*.txtar")
	if err != nil || len(fixtures) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range fixtures {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			f := hosttest.Open(t, path)
			listed := strings.Fields(f.Meta["listed"])
			got, err := machine.CountedNetworks(f.Host, "/proc/1", listed)
			if err != nil {
				t.Error(err)
			}
			if len(got) != len(listed) {
				t.Errorf("of %q these are known: %v", listed, got)
			}
			if counted := named(got); !slices.Equal(counted, strings.Fields(f.Meta["counted"])) {
				t.Errorf("%q count, want %q", counted, f.Meta["counted"])
			}
		})
	}
}

// named are the names that count.
func named(counted map[string]bool) (names []string) {
	for name, c := range counted {
		if c {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestCountedNetworksUnknown: what a device is that cannot be read is not known, with the reason, and no other device counts in
// its place.
func TestCountedNetworksUnknown(t *testing.T) {
	for _, c := range []struct{ fixture, without, counted, unknown string }{
		{"container", "sys/devices/virtual/net/eth0/type", "", "eth0"},
		{"container", "sys/devices/virtual/net/eth0/iflink", "", "eth0"},
		{"container", "sys/devices/virtual/net/eth0/uevent", "", "eth0"},
		{"containers-inside", "proc/1/net/route", "", "eth0 veth1 veth2"},
		{"containers-inside", "proc/1/net/ipv6_route", "eth0", ""}, // a kernel without IPv6
		{"two-links", "sys/devices/virtual/net/net1/uevent", "eth0", "net1"},
	} {
		t.Run(c.fixture+" without "+c.without, func(t *testing.T) {
			f := hosttest.Open(t, "testdata/networks/"+c.fixture+".txtar")
			listed := strings.Fields(f.Meta["listed"])
			f.Without(t, c.without, func() {
				got, err := machine.CountedNetworks(f.Host, "/proc/1", listed)
				var unknown []string
				for _, name := range listed {
					if _, known := got[name]; !known {
						unknown = append(unknown, name)
					}
				}
				if counted := named(got); strings.Join(counted, " ") != c.counted || strings.Join(unknown, " ") != c.unknown || (err == nil) != (c.unknown == "") {
					t.Errorf("%q count, %q are unknown, error %v", counted, unknown, err)
				}
			})
		})
	}
}
