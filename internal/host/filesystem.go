package host

// The operations of errors about the places of mounts.
const (
	opStatfs  = "statfs"
	opMounted = "find mount of"
)

var ofMounts = []string{opStatfs, opMounted}

// Filesystem is what statfs(2) says of a file system.
type Filesystem struct {
	statfs
	// Device is its number for stat(2), "8:1". btrfs has one for each subvolume, and another in mountinfo.
	Device string
}

// Bytes converts a number of blocks. They are counted in fragments, which FUSE and virtiofs make smaller than the block
// size for I/O; file systems that have none leave their size 0 (statfs(2)).
func (f *Filesystem) Bytes(blocks uint64) float64 {
	unit := f.Frsize
	if unit == 0 {
		unit = f.Bsize
	}
	return float64(blocks) * float64(unit)
}
