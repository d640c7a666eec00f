package probe

// Reads /proc/PID/maps, to know which files a process has mapped. Sources use it to find enclave runtimes, libraries
// and devices. The result is kept while the size of the address space is unchanged, because a read of the maps is
// expensive.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// Mapping is a line of /proc/PID/maps that names a file (proc_pid_maps(5)).
type Mapping struct {
	FileKey
	Start, End, Offset uint64
	Exec, Write        bool
	// Path is the file's, as the process sees it, without " (deleted)".
	Path string
}

// FileKey is how /proc/PID/maps names a file whatever its path.
type FileKey struct {
	Device string
	Inode  uint64
}

// ParseMappings reads /proc/PID/maps. Lines without a path, and those in another format, are
// left out.
func ParseMappings(b []byte) (out []Mapping) {
	for line := range strings.Lines(string(b)) {
		var m Mapping
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
		if len(fields) < 6 || len(fields[1]) != 4 {
			continue
		}
		// seq_path escapes line feeds; a name with line feeds is not one that is looked for.
		m.Path = strings.TrimSuffix(strings.TrimLeft(fields[5], " "), " (deleted)")
		if !strings.HasPrefix(m.Path, "/") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		var errs [4]error
		m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
		m.End, errs[1] = strconv.ParseUint(to, 16, 64)
		m.Offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
		m.Inode, errs[3] = strconv.ParseUint(fields[4], 10, 64)
		if errors.Join(errs[:]...) != nil {
			continue
		}
		m.Exec, m.Write, m.Device = fields[1][2] == 'x', fields[1][1] == 'w', fields[3]
		out = append(out, m)
	}
	return out
}

// Mapped returns the files that a process maps, each once: its first executable mapping if it
// has one. Reading them takes a process's kernel up to a millisecond, so they are
// kept for all who ask as long as the size of its address space is the same: nearly every mapping that
// comes or goes changes it. A thread of the kernel has none.
func Mapped(h *host.Host, pid int) ([]Mapping, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	var all *locked.Value[map[int]addressSpace]
	pages := ""
	if h.Shared != nil { // else a fixture
		kept, _ := h.Shared.LoadOrStore(mappedKey{}, new(locked.Value[map[int]addressSpace]))
		all = kept.(*locked.Value[map[int]addressSpace])
		if statm, err := h.ReadString(dir + "statm"); err == nil {
			pages, _, _ = strings.Cut(statm, " ")
		}
		was := (*all.Lock())[pid]
		all.Unlock()
		if pages != "" && was.pages == pages {
			return was.files, nil
		}
	}
	b, err := h.ReadFile(dir + "maps")
	if err != nil {
		return nil, err
	}
	space := addressSpace{pages: pages}
	at := map[FileKey]int{}
	for _, m := range ParseMappings(b) {
		i, ok := at[m.FileKey]
		switch {
		case !ok:
			at[m.FileKey] = len(space.files)
			space.files = append(space.files, m)
		case m.Exec && !space.files[i].Exec:
			space.files[i] = m
		}
	}
	if pages != "" {
		m := all.Lock()
		defer all.Unlock()
		if *m == nil {
			*m = map[int]addressSpace{}
		}
		(*m)[pid] = space
	}
	return space.files, nil
}

type mappedKey struct{}

// addressSpace is what was read of a process: its size in pages (proc_pid_statm(5)), and its
// files.
type addressSpace struct {
	pages string
	files []Mapping
}

// forgetMapped drops the processes that no longer run.
func forgetMapped(h *host.Host, runs func(pid int) bool) {
	if h.Shared == nil {
		return
	}
	kept, ok := h.Shared.Load(mappedKey{})
	if !ok {
		return
	}
	all := kept.(*locked.Value[map[int]addressSpace])
	held := all.Lock()
	defer all.Unlock()
	m := *held
	for pid := range m {
		if !runs(pid) {
			delete(m, pid)
		}
	}
}
