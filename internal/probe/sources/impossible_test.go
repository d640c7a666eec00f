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
	h := &host.Host{Root: t.TempDir()}
	detected := func(tdx, sev tee.State, role tee.Role) []tee.Detection {
		cca := tee.Detection{Kind: &tee.Kind{Name: "cca"}, State: tee.NotHere, Err: errors.ErrUnsupported}
		return []tee.Detection{
			{Kind: &tee.Kind{Name: "sgx"}, State: tee.Unknown, Err: errors.New("no access")},
			{Kind: &tee.Kind{Name: "tdx"}, State: tdx, Facts: tee.Facts{Kind: "tdx", Role: role}},
			{Kind: &tee.Kind{Name: "sev"}, State: sev, Facts: tee.Facts{Kind: "sev", Role: role}}, cca,
		}
	}
	for _, c := range []struct {
		what  string
		found []tee.Detection
		want  bool
	}{
		{"neither", detected(tee.NotHere, tee.NotHere, ""), true},
		{"a host", detected(tee.NotHere, tee.Here, tee.Host), true},
		{"a guest", detected(tee.NotHere, tee.Here, tee.Guest), false},
		{"not told", detected(tee.Unknown, tee.NotHere, ""), false},
		{"not asked", nil, false},
	} {
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
