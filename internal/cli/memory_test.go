package cli

import (
	"testing"

	"github.com/prometheus/procfs"
)

// TestSettle: the pages of the program's file that only the start needed are given back.
func TestSettle(t *testing.T) {
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	file := func() uint64 {
		s, err := self.NewStatus()
		if err != nil {
			t.Fatal(err)
		}
		return s.RssFile
	}
	before := file()
	settle()
	if after := file(); after >= before {
		t.Errorf("%d bytes of files are resident, %d before", after, before)
	}
}
