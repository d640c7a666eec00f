package kinds

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/tee"
)

// What is known of a guest beyond that it is one.
func TestGuestEvidence(t *testing.T) {
	for _, c := range []struct {
		fixture string
		kind    *tee.Kind
		want    map[string]string
	}{
		{"tdx-guest-6.16", &tdx, map[string]string{
			"/sys/devices/virtual/misc/tdx_guest/measurements": "mrconfigid mrtd:sha384 rtmr0:sha384",
			"/sys/kernel/config/tsm/report/r0/provider":        "tdx_guest",
			"/sys/firmware/acpi/tables/CCEL":                   "present",
			"debug bit":                                        "not known",
		}},
		{"tdx-guest", &tdx, map[string]string{"CPUID 0x21": "IntelTDX", "debug bit": "not known"}},
		{"sev-snp-svsm", &sev, map[string]string{
			"MSR 0xc0010131": "SEV SEV-ES SEV-SNP DebugSwap SecureTSC bit 42",
			"VMPL 2":         "more privileged",
			"debug bit":      "not known",
		}},
		{"cca-realm", &cca, map[string]string{"/sys/kernel/config/tsm/report/r0/provider": "arm_cca_guest", "debug bit": "not known"}},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			f, err := c.kind.Detect(hosttest.Open(t, "testdata/"+c.fixture+".txtar").Host)
			if err != nil {
				t.Fatalf("%s: %v", c.fixture, err)
			}
			if f.Debug {
				t.Errorf("%s: debug is claimed", c.fixture)
			}
			for source, value := range c.want {
				found := false
				for _, e := range f.Evidence {
					found = found || e.Source == source && strings.Contains(e.Value, value)
				}
				if !found {
					t.Errorf("%s: no evidence %q with %q among %v", c.fixture, source, value, f.Evidence)
				}
			}
		})
	}
}
