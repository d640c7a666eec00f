package sources

import (
	"cmp"
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
)

// mostFiles limits the files that a source hooks.
const mostFiles = 64

// longestMaps is how much of /proc/PID/maps is read, in bytes: with the usual limit of 65,530 mappings (vm.max_map_count) it has
// some 6 MiB, but paths may have 4 kB each.
const longestMaps = 8 << 20

// readMaps reads the memory map of the process at dir.
func readMaps(h *host.Host, dir string) ([]byte, error) { return h.ReadUpTo(dir+"/maps", longestMaps) }

// openMapped opens the file behind a mapping of the process at dir: by its name as the process
// sees it, if that still leads to the file, otherwise by the mapping itself.
func openMapped(h *host.Host, dir string, m probe.Mapping) (*bpf.Executable, error) {
	x, err := bpf.OpenExecutable(h, dir+"/root"+m.Path, m.Inode)
	if err == nil {
		x.Path = m.Path
		return x, nil
	}
	x, ferr := bpf.OpenExecutable(h, fmt.Sprintf("%s/map_files/%x-%x", dir, m.Start, m.End), 0)
	if ferr != nil {
		return nil, cmp.Or(ferr, err)
	}
	x.Path = m.Path
	return x, nil
}
