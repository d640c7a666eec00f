package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
)

// TestCompactedBlockStays: a block that was made of others stays if not all of those can be deleted. One of them becomes a loop of links
// after the compaction, so its deletion fails.
func TestCompactedBlockStays(t *testing.T) {
	dir := t.TempDir()
	made := ""
	o := tsdb.DefaultOptions()
	o.MinBlockDuration, o.MaxBlockDuration = time.Hour.Milliseconds(), 3*time.Hour.Milliseconds()
	o.NewCompactorFunc = newCompactor
	o.BlocksToDelete = func(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
		for _, b := range blocks {
			parents := b.Meta().Compaction.Parents
			if made != "" || len(parents) == 0 {
				continue
			}
			made = b.Dir()
			name := filepath.Join(dir, parents[len(parents)-1].ULID.String())
			if err := os.Rename(name, filepath.Join(t.TempDir(), "moved")); err != nil {
				t.Error(err)
			}
			if err := os.Symlink(name, name); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.DisableCompactions() // but the one below
	series := labels.FromStrings(model.MetricNameLabel, "x")
	for minute := range int64(10 * 60) {
		a := db.Appender(t.Context())
		if _, err := a.Append(0, series, minute*time.Minute.Milliseconds(), float64(minute)); err != nil {
			t.Fatal(err)
		}
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context()); err == nil || made == "" {
		t.Fatalf("compaction made %q and failed with %v, want a block and a failed deletion", made, err)
	}
	if _, err := os.Stat(filepath.Join(made, "index")); err != nil {
		t.Errorf("the block that holds the samples of the deleted ones is gone: %v", err)
	}
}
