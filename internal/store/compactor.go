package store

import (
	"context"
	"log/slog"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// keepingCompactor does not name the blocks that it makes of others. The database deletes a named one if it cannot delete all of its
// parents afterwards, although some of them are deleted then: what those held would be lost. The names are used for nothing else, and the
// parents that are left are deleted when the database reads its folder again.
type keepingCompactor struct{ tsdb.Compactor }

// Compact makes one block of several.
func (c keepingCompactor) Compact(dest string, dirs []string, open []*tsdb.Block) ([]ulid.ULID, error) {
	_, err := c.Compactor.Compact(dest, dirs, open)
	return nil, err
}

// newCompactor returns the stock compactor, with the database's options, as one that keeps what it made.
func newCompactor(ctx context.Context, r prometheus.Registerer, l *slog.Logger, ranges []int64, pool chunkenc.Pool, o *tsdb.Options) (tsdb.Compactor, error) {
	c, err := tsdb.NewLeveledCompactorWithOptions(ctx, r, l, ranges, pool, tsdb.LeveledCompactorOptions{
		MaxBlockChunkSegmentSize:    o.MaxBlockChunkSegmentSize,
		EnableOverlappingCompaction: o.EnableOverlappingCompaction,
	})
	if err != nil {
		return nil, err
	}
	return keepingCompactor{c}, nil
}
