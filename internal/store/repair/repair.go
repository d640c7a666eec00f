// Package repair checks the data folder of a store before a database opens it, and puts into the quarantine what is damaged: it
// works on a folder that no database has open. Nothing is deleted that no other file holds.
package repair

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/store/space"
)

// Folder is a data folder that no database has open.
type Folder struct {
	Dir string
	// Block is the span of the smallest blocks, Interval the time between two readings.
	Block, Interval time.Duration
	Reserve         space.Reserve
	Now             func() time.Time
	Log             *slog.Logger
	// Lost is told of each loss, Cut of bytes that are left out of the log.
	Lost func(Loss)
	Cut  func(bytes int64)
	// Replay opens a folder of what is left of a log.
	Replay func(dir string) (Database, error)
}

// Database is open on what is left of a log.
type Database interface {
	// Nameless returns the number of samples that were left out because the names of their series are gone, and of those series.
	Nameless() (samples, series float64)
	// CutHead writes all of memory from a time on to a block, in Unix milliseconds.
	CutHead(from int64) error
	Close() error
}

// Clean removes what a crash left.
func (d Folder) Clean() error {
	if err := disk.RemoveAll(d.discarded()); err != nil {
		return err
	}
	return d.KeepHeadChunks() // links
}

// Check puts into the quarantine what would make a database fail to open, or give wrong values.
func (d Folder) Check() error {
	held, err := d.checkBlocks()
	if err != nil {
		return err
	}
	return d.checkLog(held)
}

// RecoverError is deferred: it makes a panic of the database's code an error.
func RecoverError(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %v", doing, p)
	}
}
