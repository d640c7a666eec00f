package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store"
)

// TestDamagedOnFullDisk: if the disk has no space for moving damaged parts away, no data changes; once there is
// space, the store opens with everything readable.
func TestDamagedOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "tmpfs", 24)
	dir := filepath.Join(disk, "data")
	sound := soundFolder(t)
	must(t, os.CopyFS(dir, os.DirFS(sound)))
	must(t, os.Remove(pick(t, dir, "wal/0*", 1)))
	must(t, os.Truncate(pick(t, dir, "0*/index", 0), 0))
	must(t, os.RemoveAll(filepath.Join(dir, "reserve")))
	before := sizes(t, dir)
	fill(t, filepath.Join(disk, "filler"))
	_, err := store.Open(t.Context(), damageOptions(dir))
	if err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("on a full disk: %v", err)
	}
	if after := sizes(t, dir); after < before {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	must(t, os.Remove(filepath.Join(disk, "filler")))
	s := open(t, damageOptions(dir))
	got := found(t, s, allRounds)
	checkFound(t, damageCase{mayMiss: [2]int{0, allRounds}}, got, allRounds)
	if len(got["a"]) < 300 {
		t.Errorf("of series a %d rounds are left", len(got["a"]))
	}
}

// TestQuarantineEnds: the damage of earlier starts is reported until its part is deleted.
func TestQuarantineEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(dir, os.DirFS(soundFolder(t))))
	must(t, os.Truncate(pick(t, dir, "0*/index", 0), 0))
	began := time.Now()
	for range 2 {
		s, err := store.Open(t.Context(), damageOptions(dir))
		must(t, err)
		if l := s.Losses(); len(l) != 1 || l[0].Kind != "block" || !l[0].From.Equal(base) || l[0].Reason == "" || l[0].Moved.Before(began.Truncate(time.Second)) || l[0].Moved.After(time.Now()) {
			t.Errorf("the losses are %+v", l)
		}
		must(t, s.Close())
	}
	s := open(t, damageOptions(dir))
	must(t, os.RemoveAll(filepath.Join(dir, "quarantine")))
	s.EachMinute()
	if l := s.Losses(); len(l) != 0 {
		t.Errorf("after it is deleted: %v", l)
	}
}
