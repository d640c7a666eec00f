package sources

import (
	"errors"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

// TestImpossible: what only happens in a confidential guest cannot happen where no kind of guest is here, and is
// unknown where one could not be told.
func TestImpossible(t *testing.T) {
	sme := uint32(0)
	h := &host.Host{Root: t.TempDir(), CPUID: func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) {
		switch leaf {
		case 0:
			return 0x10, 0x68747541, 0x444d4163, 0x69746e65 // AuthenticAMD
		case 0x80000000:
			return 0x8000001f, 0, 0, 0
		}
		return sme, 0, 0, 0
	}}
	detected := func(tdx, sev tee.State, role tee.Role) []tee.Detection {
		cca := tee.Detection{Kind: &tee.Kind{Name: "cca"}, State: tee.NotHere, Err: errors.ErrUnsupported}
		return []tee.Detection{
			{Kind: &tee.Kind{Name: "sgx"}, State: tee.Unknown, Err: errors.New("no access")},
			{Kind: &tee.Kind{Name: "tdx"}, State: tdx, Facts: tee.Facts{Kind: "tdx", Role: role}},
			{Kind: &tee.Kind{Name: "sev"}, State: sev, Facts: tee.Facts{Kind: "sev", Role: role}}, cca,
		}
	}
	ibm := func(s tee.State) tee.Detection { return tee.Detection{Kind: &tee.Kind{Name: "ibm-pef"}, State: s} }
	neither := detected(tee.NotHere, tee.NotHere, "")
	for _, c := range []struct {
		what  string
		found []tee.Detection
		sme   uint32
		want  bool
	}{
		{"neither", neither, 2, true},
		{"a host", detected(tee.NotHere, tee.Here, tee.Host), 2, true},
		{"a guest", detected(tee.NotHere, tee.Here, tee.Guest), 0, false},
		{"not told", detected(tee.Unknown, tee.NotHere, ""), 0, false},
		{"not asked", nil, 0, false},
		{"no IBM machine", append(neither, ibm(tee.NotHere)), 0, true},
		{"an IBM machine", append(neither, ibm(tee.Unknown)), 0, false},
		{"SME", neither, 3, false},
	} {
		sme = c.sme
		var conversions, exceptions bool
		for _, d := range Impossible(h, c.found) {
			conversions = conversions || d == conversionCalls
			exceptions = exceptions || d == guestExceptions
			if d == conversionTime || d == bouncedBytes {
				t.Errorf("%s: %s cannot be impossible", c.what, d.Name)
			}
		}
		if conversions != c.want || exceptions != c.want {
			t.Errorf("%s: conversions %v, exceptions %v, want %v", c.what, conversions, exceptions, c.want)
		}
	}
}
