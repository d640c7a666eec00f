package observe

import (
	"testing"

	"github.com/teescope/teescope/internal/probe"
)

// TestSourcesThatWait switch themselves unless the file says on or off, also after a reload.
func TestSourcesThatWait(t *testing.T) {
	waits := &probe.Source{Name: "x", Waits: &probe.Waits{For: "an enclave runs"}}
	off := false
	if s := complete(probe.Setting{}, waits, ""); s.On != nil || s.Auto == nil || !*s.Auto || s.Check(waits) != nil {
		t.Errorf("without a setting: %+v, %v", s, s.Check(waits))
	}
	if s := complete(probe.Setting{On: &off}, waits, ""); s.On == nil || *s.On || s.Auto != nil || s.Check(waits) != nil {
		t.Errorf("switched off: %+v, %v", s, s.Check(waits))
	}
	if s := complete(probe.Setting{}, &probe.Source{Name: "y", OptIn: true}, ""); s.On == nil || *s.On || s.Auto != nil {
		t.Errorf("opt-in: %+v", s)
	}
}
