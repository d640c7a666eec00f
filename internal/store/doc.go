// Package store keeps the measurements: an embedded Prometheus with its time series
// database on disk, PromQL, scraping of further targets, recording rules and the
// HTTP API. It is the only package that imports Prometheus, so an upgrade concerns
// one folder.
//
// # What is kept, and when
//
// A round is acknowledged when Append returns nil. From then on a crash of the
// process (kill -9, out of memory) loses nothing: the write-ahead log has been
// handed to the kernel. A power cut or a crash of the kernel loses at most the
// last Options.SyncInterval, when the log was last flushed to the disk.
//
// # Full disks
//
// The database of Prometheus is built for a disk that does not fill up. Three
// of its properties would lose acknowledged samples or end the process; this package
// prevents that:
//
//   - A record longer than a page (32 KiB) is written page by page. If a write
//     fails halfway, the next record is written after the torn one and
//     acknowledged; the next start cuts the log at the tear and drops it. A new
//     series whose record failed is never logged again, so its later
//     samples belong to no known series.
//   - The repair at start rewrites the damaged segment, which needs space, and
//     deletes every later one.
//   - Head chunks are written by a goroutine that panics when the disk is full.
//
// Here every writer goes through one door. It refuses samples while less than
// Options.MinFree is left. At the first failed write it closes for all writers, so
// nothing can be acknowledged after a tear. Then a preallocated reserve is given back to
// the disk, the log is cut in place at its last whole record, which needs no space, and
// the database is reopened. Samples refused during that time are counted in
// teescope_store_lost_samples_total. Head chunks are written only while the disk has
// space.
//
// # Damaged data
//
// The store fails to open only if its folder cannot be written or is in use. Its parts
// are checked before the database opens. A block that cannot be opened is moved to the
// folder quarantine; a description of a block that its index denies is written anew.
// Nothing is deleted that no other file holds, except by retention and compaction. Of a log with a hole, everything readable is written to a block, and
// the log begins anew. The log is never continued after a hole: new series could get the
// references of series whose names are lost, and so their samples. Damaged chunks of a
// block are found by their checksum when a query reads them; they are left out, with a
// warning. [Store.Losses] lists all this.
package store
