package bpf

// Narrows programs to chosen processes, cgroups or containers. User space fills the table of members (members.h); while
// it is in use, members.bpf.c adds the children of members, so no process is missed between two updates.

//go:generate ./compile.sh members members.bpf.c

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

const (
	// MaxMembers is the maximum number of distinct processes, MEMBERS of members.h;
	// MaxOwners that of processes with their own counts, OWNERS.
	MaxMembers = 4096
	MaxOwners  = 64
)

// The numbers of the sources in members.h.
const (
	sourceSyscalls = iota
	sourceSwitches
	sourceFaults
	sourceRunQueue
	memberSources
)

// members keeps the table of members up to date between two calls of Narrow.
var members = &Program{
	Name: "members",
	spec: spec{
		load: loadMembers,
		hooks: []hook{
			{name: "sched:sched_process_fork", variants: []variant{{"fork_btf", typed}}, from: 1},
			{name: "sched:sched_process_free", variants: []variant{{"free_btf", typed}}, from: 1},
		},
		levels: 2, // at level 0 nothing is attached
	},
	layout: layout{
		row:  8,
		read: []string{"counts"},
	},
}

// Member is a process that Counters are narrowed to.
type Member struct {
	// Start is when it was started, field 22 of /proc/PID/stat: a reused id is another
	// process.
	Start uint64
	// Name is its current name.
	Name string
	// Own: it is also counted individually; see Own.
	Own bool
	// Children: processes that it starts from now on are members too.
	Children bool
}

// member is struct member of members.h.
type member struct {
	Start             uint64
	Sources, Children uint8
	Own               [memberSources]uint8
	_                 [2]uint8
}

// owner is a process with its own cells; process 0 is none.
type owner struct {
	pid   int
	start uint64
	name  string
	// left counts how often the table was tended since the process was removed from the
	// list; its cells are emptied after the second time.
	left int
	gone bool
}

// Narrow makes c count only processes that find reports as members. It asks about those
// listed and those in the table that are children of members. Call it again to notice
// processes that became or ceased to be members. The individual counts of a listed
// process remain after it has ended. The error says what could not be done; the rest is
// done.
func (c Table) Narrow(processes []int, find func(pid int) (Member, bool)) error {
	visited := c.Visit() // what happened until now counts as before
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	table, places := c.tables["members"], &r.ledgerOf(c.Counters).places
	for i := range places.owners {
		if o := &places.owners[i]; o.pid != 0 && !slices.Contains(processes, o.pid) {
			o.gone = true
		}
	}
	asked, errs := map[int]bool{}, []error{visited}
	full, children := 0, false
	one := func(pid int) {
		if asked[pid] {
			return
		}
		asked[pid] = true
		m, ok := find(pid)
		children = children || ok && m.Children
		switch err := c.enroll(table, pid, m, ok, places.own(pid, m, ok)); {
		case errors.Is(err, unix.E2BIG):
			full++
		case err != nil:
			errs = append(errs, err)
		}
	}
	for _, pid := range processes {
		one(pid)
	}
	if table != nil {
		var pid uint32
		var was member
		var known []int
		for all := table.Iterate(); all.Next(&pid, &was); {
			known = append(known, int(pid))
		}
		for _, pid := range known {
			one(pid)
		}
	}
	if full > 0 {
		errs = append(errs, fmt.Errorf("narrow %s: %d processes more than the maximum of %d", c.program.Name, full, MaxMembers))
	}
	c.control(controlNarrowed, 1)
	return errors.Join(append(errs, r.inherit(c.Counters, children))...)
}

// Widen makes c count every process again.
func (c Table) Widen() error {
	visited := c.Visit()
	c.control(controlNarrowed, 0)
	err := c.Narrow(nil, func(int) (Member, bool) { return Member{}, false })
	c.control(controlNarrowed, 0)
	return errors.Join(visited, err)
}

// enroll adds one process to the table or removes it; own is what places.own returned
// for it.
func (c Table) enroll(table *ebpf.Map, pid int, m Member, ok bool, own uint8) error {
	if table == nil {
		return nil
	}
	key, bit := uint32(pid), uint8(1)<<c.program.source
	var was member
	err := table.Lookup(key, &was)
	known := err == nil
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read the table of members: %w", err)
	}
	is := was
	if ok && was.Start != m.Start {
		is = member{Start: m.Start}
	}
	is.Sources, is.Children, is.Own[c.program.source] = is.Sources&^bit, is.Children&^bit, 0
	if ok {
		is.Sources |= bit
		is.Own[c.program.source] = own
		if m.Children {
			is.Children |= bit
		}
	}
	switch {
	case is.Sources == 0 && known:
		if err = table.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil // it ended
		}
	case is.Sources != 0 && is != was:
		err = table.Put(key, is)
	default:
		err = nil
	}
	if err != nil {
		return fmt.Errorf("write the table of members: %w", err)
	}
	return nil
}

// own finds or gives out cells for a process that is also counted individually, and
// returns one more than their number, or 0.
func (p *places) own(pid int, m Member, ok bool) uint8 {
	free := -1
	for i := range p.owners {
		switch o := &p.owners[i]; {
		case o.pid == 0 && free < 0:
			free = i
		case o.pid != pid || o.gone:
		case !ok:
			return 0
		case !m.Own:
			o.gone = true
		case o.start == m.Start:
			o.name = m.Name
			return uint8(i + 1)
		default:
			o.gone = true
		}
	}
	if !ok || !m.Own || free < 0 {
		return 0
	}
	p.owners[free] = owner{pid: pid, start: m.Start, name: m.Name}
	return uint8(free + 1)
}

// eachOwner yields the processes that are counted individually, with their slots.
func (p *places) eachOwner(yield func(slot int, o *owner)) {
	for i := range p.owners {
		if o := &p.owners[i]; o.pid != 0 && !o.gone {
			yield(slots+i, o)
		}
	}
}

// inherit sets whether c includes children of members, and attaches the programs for that while
// any object needs them.
func (r *registry) inherit(c *Counters, want bool) error {
	if c.recorded {
		return nil
	}
	delete(r.inheriting, c)
	if want {
		r.inheriting[c] = true
	}
	if r.members == nil {
		if want {
			return fmt.Errorf("follow the children of processes: %w", r.noMembers)
		}
		return nil
	}
	level := min(1, len(r.inheriting))
	return errors.Join(r.setLevel(r.members, level), r.members.Incomplete())
}

// openMembers loads the programs that maintain the table of members, unless that was
// tried before. Without them, children are noticed only at the next call of Narrow. The
// caller uses the table of processes.
func (k *kernel) openMembers(h *host.Host) {
	k.joining.Lock()
	defer k.joining.Unlock()
	r := k.Lock()
	tried := r.members != nil || r.noMembers != nil
	k.Unlock()
	if tried {
		return
	}
	c := &Counters{program: members, host: h, kernel: k, maps: map[string][]byte{}}
	err := c.attach(h, Limits{})
	if err != nil {
		err = errors.Join(err, c.release())
	}
	r = k.Lock()
	defer k.Unlock()
	if err != nil {
		r.noMembers = err
		return
	}
	r.members = c
	r.add(c)
}

// Time makes c count times only of processes whose name matches, or of all for nil. A
// name counts from the first call after it was first seen.
func (c Table) Time(process *metric.NamePattern) {
	wanted := c.maps["wanted"]
	if len(wanted) < slots {
		return
	}
	if process == nil {
		c.control(controlByName, 0)
		return
	}
	c.kernel.Lock() // the names stay
	defer c.kernel.Unlock()
	raw := c.maps["names"]
	dropped := c.set(controlByName) == 0 // all names, but those that match
	for slot := 1; slot < slots; slot++ {
		v := byte(0)
		if isAssigned(raw, slot) && process.MatchString(metric.Label(label(raw, slot))) {
			v = 1
		}
		dropped = dropped || v < wanted[slot]
		wanted[slot] = v
	}
	c.control(controlByName, 1)
	if dropped { // otherwise times begun before would end when their names match again
		c.control(controlSince, now())
	}
}
