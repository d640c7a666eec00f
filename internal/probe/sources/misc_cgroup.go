package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	miscCapacity = gauge("tee_misc_cgroup_capacity", "How much of a resource the host has, from misc.capacity: sev and sev_es are address space ids (ASIDs) of SEV guests and of SEV-ES and SEV-SNP guests, tdx key ids of TDX guests.", "resource")
	miscCurrent  = gauge("tee_misc_cgroup_current", "How much of a resource a cgroup and those below it use, from misc.current.", "cgroup", "resource")
	miscMax      = gauge("tee_misc_cgroup_max", "How much of a resource a cgroup may use, from misc.max; absent where it has no limit.", "cgroup", "resource")
	miscEvents   = counter("tee_misc_cgroup_max_events_total", "Requests for a resource refused because of the limit of a cgroup or one below it, from misc.events.", "cgroup", "resource")
)

// miscCgroups bounds the series: cgroups that use or limit something.
const miscCgroups = 64

var miscCgroup = probe.Source{
	Name:    "misc_cgroup",
	Doc:     "Host resources of confidential guests that cgroups limit: ids of encryption keys",
	Metrics: []*metric.Desc{miscCapacity, miscCurrent, miscMax, miscEvents},
	Kernels: "5.13 with CONFIG_CGROUP_MISC; sev and sev_es with SEV on the host, tdx since 6.16.",
	Cost:    "Three small files for each cgroup that uses one of the resources, and their parents.",
	Blind:   "Cgroups beyond the first 64 that use a resource; limits of cgroups whose parents do not use the resource.",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		m, err := findMisc(h)
		if err != nil {
			return nil, err
		}
		capacity, err := m.file("misc.capacity")
		if capacity == nil {
			return nil, err
		}
		if err == nil && len(capacity) == 0 {
			return nil, probe.NotHere("the misc controller has no resources: no SEV and no TDX on this host")
		}
		return reading(m.read), nil
	},
}

// misc is the cgroup controller of that name.
type misc struct {
	*host.Host
	mount string
}

// findMisc looks for the controller in the v2 tree and among those of v1.
func findMisc(h *host.Host) (*misc, error) {
	mounts, err := cgroupMounts(h)
	if err != nil && len(mounts) == 0 {
		return nil, err
	}
	for _, m := range mounts {
		if !m.V2 && !slices.Contains(m.Controllers, "misc") {
			continue
		}
		ok, err := h.Exists(path.Join(m.Point, "misc.capacity"))
		if err != nil {
			return nil, err
		}
		if ok {
			return &misc{h, m.Point}, nil
		}
	}
	return nil, probe.NotHere("no misc controller in the cgroup file systems (Linux 5.13, CONFIG_CGROUP_MISC)")
}

func (m *misc) read(_ context.Context, out emitter) error {
	w := miscWalk{misc: m, out: out}
	capacity, err := m.file("misc.capacity")
	w.bad.Add(err)
	for _, r := range slices.Sorted(maps.Keys(capacity)) {
		out.send(miscCapacity, float64(capacity[r]), r)
	}
	w.bad.Add(w.walk("/"))
	return w.bad.Err()
}

// miscWalk is one walk through the cgroups.
type miscWalk struct {
	*misc
	out   emitter
	shown int
	bad   machine.Faults // of files of which the rest is shown
}

// walk descends where something is used: usage also counts for all levels above.
func (w *miscWalk) walk(group string) error {
	if w.shown == miscCgroups {
		return fmt.Errorf("more than %d cgroups use confidential guests' resources; the first are shown", miscCgroups)
	}
	used, busy, err := w.group(group)
	if err != nil {
		if group != "/" && errors.Is(err, fs.ErrNotExist) {
			return nil // removed since, or without the controller
		}
		return err
	}
	if used {
		w.shown++
	}
	if !busy && group != "/" {
		return nil
	}
	list, err := w.ReadDir(path.Join(w.mount, group))
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() {
			if err := w.walk(path.Join(group, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is file, whose bad lines are noted.
func (w *miscWalk) part(name string) (map[string]uint64, error) {
	values, err := w.file(name)
	if values == nil {
		return nil, err
	}
	w.bad.Add(err)
	return values, nil
}

// group emits one cgroup's values. used: it has some; busy: something below it may too.
func (w *miscWalk) group(group string) (used, busy bool, err error) {
	current, err := w.file(path.Join(group, "misc.current"))
	if current == nil {
		// The root has had the file since Linux 6.8.
		if group == "/" && errors.Is(err, fs.ErrNotExist) {
			return false, true, nil
		}
		return false, false, err
	}
	w.bad.Add(err)
	busy = err != nil // what is not known may be some
	for _, n := range current {
		busy = busy || n > 0
	}
	limits, events := map[string]uint64{}, map[string]uint64{}
	if group != "/" {
		if limits, err = w.part(path.Join(group, "misc.max")); err != nil {
			return false, false, err
		}
		// Since Linux 5.15.
		if events, err = w.part(path.Join(group, "misc.events")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, false, err
		}
	}
	if !busy && len(limits) == 0 {
		return false, false, nil
	}
	for _, r := range slices.Sorted(maps.Keys(current)) {
		w.out.send(miscCurrent, float64(current[r]), group, r)
	}
	for _, r := range slices.Sorted(maps.Keys(limits)) {
		w.out.send(miscMax, float64(limits[r]), group, r)
	}
	for _, r := range slices.Sorted(maps.Keys(events)) {
		if name, ok := strings.CutSuffix(r, ".max"); ok {
			w.out.send(miscEvents, float64(events[r]), group, name)
		}
	}
	return true, busy, nil
}

// file reads "name value" lines; "max" means no limit and is left out. The map is nil only
// where the file could not be read: else the error lists what is wrong in it.
func (m *misc) file(name string) (map[string]uint64, error) {
	name = path.Join(m.mount, name)
	b, err := m.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseMisc(name, b)
}

func parseMisc(file string, b []byte) (map[string]uint64, error) {
	t := machine.Text{File: file}
	out := map[string]uint64{}
	if len(b) == 0 { // no resource has a value
		return out, nil
	}
	for line := range t.Lines(b) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Bad("%.40q is not a name and a number", line)
			continue
		}
		if _, twice := out[fields[0]]; twice {
			t.Bad("%.40q a second time", fields[0])
			continue
		}
		if fields[1] == "max" {
			continue
		}
		if n, ok := t.Count(fields[0], fields[1]); ok {
			out[fields[0]] = n
		}
	}
	return out, t.Err()
}

// usage is how much of each resource the whole host uses: the root's value, or on older
// kernels the sum of the cgroups below it. It has what is known; the error says what is not.
func (m *misc) usage() (map[string]uint64, error) {
	out, err := m.file("misc.current")
	if !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	list, err := m.ReadDir(m.mount)
	if err != nil {
		return nil, err
	}
	out = map[string]uint64{}
	if capacity, err := m.file("misc.capacity"); err == nil {
		for r := range capacity {
			out[r] = 0 // where no cgroup has it
		}
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		one, err := m.file(path.Join(e.Name(), "misc.current"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for r, n := range one {
			out[r] += n
		}
	}
	return out, nil
}
