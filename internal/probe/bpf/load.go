package bpf

// Loads an object into the kernel. A hook may have several variants (fentry, kprobe, tracepoint); the first that loads
// and attaches is used, because kernels differ in what they allow.

import (
	"errors"
	"fmt"
	gomaps "maps"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// hook is one place in the kernel where a program counts. Its variants are tried in
// order until one loads and attaches: loading successfully does not mean that the
// kernel lets it be attached.
type hook struct {
	name     string
	variants []variant
	// trigger makes one event on the calling thread, to calibrate the cost of being
	// attached; nil if that has no cheap way.
	trigger func()
	// trap: the way into the program is a trap, which takes as long beside a load as in a loop.
	trap bool
	// from is the lowest level of detail that has the hook.
	from int
	// required: without it the others are of no use.
	required bool
}

type variant struct {
	program string
	attach  func(*host.Host, *ebpf.Program) (link.Link, error)
}

// attached is a hook in use. The link is kept because an unreferenced link is
// collected, and detaches.
type attached struct {
	name    string
	program *ebpf.Program
	attach  func(*host.Host, *ebpf.Program) (link.Link, error)
	link    link.Link // nil while detached
	// perEvent is how much longer the hook's trigger takes in seconds than before; 0 is unknown.
	perEvent float64
	// from is the lowest level that has the hook, and levels the program of each level
	// from there on, if there are several.
	from   int
	levels []*ebpf.Program
}

// selectLevel chooses the program of a level.
func (a *attached) selectLevel(level int) {
	if i := level - a.from; i >= 0 && i < len(a.levels) {
		a.program = a.levels[i]
	}
}

// loaded lists the programs of all levels, each once.
func (a *attached) loaded() []*ebpf.Program {
	if len(a.levels) == 0 {
		return []*ebpf.Program{a.program}
	}
	return slices.Compact(slices.Clone(a.levels))
}

// typed attaches a program of a kind that names its own hook and reads the kernel's
// structures directly: tp_btf and fentry.
func typed(_ *host.Host, p *ebpf.Program) (link.Link, error) {
	return link.AttachTracing(link.TracingOptions{Program: p})
}

// raw attaches to a tracepoint without the record that perf would build first.
func raw(tracepoint string) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: p})
	}
}

// classic attaches to a tracepoint through perf, which needs tracefs.
func classic(group, name string) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(h *host.Host, p *ebpf.Program) (link.Link, error) {
		const tracefs = "/sys/kernel/tracing"
		k := kernelOf(h)
		k.mounting.Lock()
		defer k.mounting.Unlock()
		if ok, err := h.Exists(tracefs + "/events"); err != nil || !ok {
			if err := h.Mount("tracefs", tracefs); err != nil {
				return nil, err
			}
		}
		return link.Tracepoint(group, name, p, nil)
	}
}

// kprobe attaches to the entry of a kernel function by a breakpoint or ftrace.
func kprobe(symbol string) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(_ *host.Host, p *ebpf.Program) (link.Link, error) { return link.Kprobe(symbol, p, nil) }
}

// attach loads the object's maps, then each hook. It fails if no hook is left. Several
// objects are attached in parallel.
func (c *Counters) attach(h *host.Host, limits Limits) error {
	spec, err := c.program.load()
	if err != nil {
		return fmt.Errorf("read object %s: %w", c.program.Name, err)
	}
	opened, err := host.Descriptors(descriptorCount(spec, len(c.program.hooks), c.program.levels))
	if err != nil {
		return refused(h, c.program.Name, err)
	}
	defer opened()
	types := c.kernel.typeCache()
	if _, err := types.Kernel(); err != nil {
		return noTypes(err)
	}
	if err := c.size(spec, limits); err != nil {
		return err
	}
	maps, err := c.prepare(h, spec, types)
	if err != nil {
		return err
	}
	c.kernel.Lock().ledgerOf(c).levels = make([]price, max(1, c.program.levels))
	c.kernel.Unlock()
	c.lost = make([]error, max(1, c.program.levels))
	var lost []error
	var hooks []attached
	for _, hk := range c.program.hooks {
		a, err := hk.open(h, len(c.lost), func(program string, level int) (*ebpf.Program, error) {
			return c.kernel.loadLevel(spec, program, level, maps, types)
		}, c.lost)
		if err != nil && hk.from > 0 {
			c.lost[hk.from] = errors.Join(c.lost[hk.from], err)
			continue
		}
		if err != nil && hk.required {
			return refused(h, c.program.Name, err)
		}
		if err != nil {
			lost = append(lost, err)
			continue
		}
		hooks = append(hooks, a)
		if a.perEvent > 0 {
			p := price{calibrated: a.perEvent}
			if !hk.trap {
				c.kernel.quiet.Lock()
				p.loop = min(c.loopTime(hk.trigger), a.perEvent)
				c.kernel.quiet.Unlock()
			}
			c.calibrate(p)
		}
		for _, p := range a.loaded() {
			c.onClose(p.Close)
		}
	}
	c.links.Lock().hooks = hooks
	c.links.Unlock()
	for i, err := range c.lost {
		if err != nil {
			c.lost[i] = refused(h, c.program.Name, err)
		}
	}
	c.control(controlSince, now())
	c.Lost = errors.Join(lost...)
	if len(hooks) == 0 {
		return refused(h, c.program.Name, c.Lost)
	}
	if c.Lost != nil {
		c.Lost = refused(h, c.program.Name, c.Lost)
	}
	return c.Visit()
}

// prepare makes the object's maps.
func (c *Counters) prepare(h *host.Host, spec *ebpf.CollectionSpec, types *btf.Cache) (map[string]*ebpf.Map, error) {
	r := c.kernel.Lock()
	defer c.kernel.Unlock()
	maps, err := r.makeMaps(c, spec, types)
	if err != nil {
		return nil, refused(h, c.program.Name, err)
	}
	if err := r.mapArrays(c, maps); err != nil {
		return nil, err
	}
	for row := range c.runs().rows() {
		row.most(unlimited)
	}
	c.runs().timeEach(false)
	return maps, nil
}

// size adapts the maps to the maximum number of CPUs of this kernel.
func (c *Counters) size(spec *ebpf.CollectionSpec, limits Limits) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	return c.program.size(spec, limits, cpus)
}

// size adapts the maps to a number of CPUs.
func (p *Program) size(spec *ebpf.CollectionSpec, limits Limits, cpus int) (err error) {
	if limits.Bytes == 0 {
		limits.Bytes = defaultBytes
	}
	n := rows(cpus, p.row, limits.Bytes)
	if p.rare {
		n = 1
	}
	spec.Maps["counts"].MaxEntries = uint32(n * p.row)
	for name, row := range p.more {
		spec.Maps[name].MaxEntries = uint32(n * row)
	}
	spec.Maps[runsMap].MaxEntries = uint32(cpus)
	spec.Maps[toldMap].MaxEntries = uint32(os.Getpagesize())
	for name, entries := range p.sized {
		spec.Maps[name].MaxEntries = entries(cpus)
	}
	set := func(name string, v any) {
		if err == nil && spec.Variables[name] != nil {
			err = spec.Variables[name].Set(v)
		}
	}
	if n < cpus || p.rare {
		set("bank_mask", uint32(n-1))
		set("banks_shared", uint8(1))
	}
	if limits.Processes > 0 {
		set("max_processes", limits.Processes)
	}
	if limits.Pairs > 0 {
		set("max_pairs", limits.Pairs)
	}
	return err
}

// makeMaps creates the object's maps, those of the process table only if no
// other object has.
func (r *registry) makeMaps(c *Counters, spec *ebpf.CollectionSpec, types *btf.Cache) (map[string]*ebpf.Map, error) {
	only := spec.Copy()
	only.Programs = nil
	opts := ebpf.CollectionOptions{Cache: types}
	opts.MapReplacements = map[string]*ebpf.Map{}
	for name, m := range r.table {
		// Objects without the table may use its names for their own maps.
		if only.Maps[name] != nil && (c.program.slots != nil || name == "members") {
			opts.MapReplacements[name] = m
		}
	}
	shares := append([]string{toldMap}, c.program.shares...)
	for _, name := range shares {
		if s := r.shared[name]; s != nil {
			opts.MapReplacements[name] = s.Map
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(only, opts)
	if err != nil {
		return nil, err
	}
	c.onClose(func() error { coll.Close(); return nil })
	c.tables = coll.Maps
	for _, name := range shares {
		if err := r.share(c, name); err != nil {
			return nil, err
		}
	}
	if err := r.listen(c); err != nil {
		return nil, err
	}
	if c.program.slots == nil {
		return coll.Maps, nil
	}
	if r.tableUsers == 0 {
		r.table = map[string]*ebpf.Map{}
		for _, name := range tableMaps {
			if r.table[name], err = coll.Maps[name].Clone(); err != nil {
				return nil, fmt.Errorf("share map %s: %w", name, err)
			}
		}
		r.limbo, r.inheriting, r.tended = map[int]int{}, map[*Counters]bool{}, time.Time{}
	}
	r.tableUsers++
	c.close = append(c.close, (*registry).dropTable)
	return coll.Maps, nil
}

// sharedMap is a map that several objects use.
type sharedMap struct {
	*ebpf.Map
	users int
}

// share makes a map of c available to others with that name.
func (r *registry) share(c *Counters, name string) error {
	s := r.shared[name]
	if s == nil {
		m, err := c.tables[name].Clone()
		if err != nil {
			return fmt.Errorf("share map %s: %w", name, err)
		}
		if r.shared == nil {
			r.shared = map[string]*sharedMap{}
		}
		s = &sharedMap{Map: m}
		r.shared[name] = s
	}
	s.users++
	c.close = append(c.close, func(r *registry) error {
		if s.users--; s.users > 0 {
			return nil
		}
		delete(r.shared, name)
		return s.Close()
	})
	return nil
}

// mapArrays makes the maps readable as memory of this process.
func (r *registry) mapArrays(c *Counters, maps map[string]*ebpf.Map) error {
	for name, m := range maps {
		if r.tableUsers > 1 && slices.Contains(tableMaps, name) || r.shared[name] != nil && r.shared[name].users > 1 {
			continue
		}
		if info, err := m.Info(); err == nil {
			n, _ := info.Memlock()
			c.memory += n
		}
	}
	for _, name := range slices.Concat(c.program.reads(), c.program.write, c.program.tell, c.program.reset) {
		m := maps[name]
		size := int(m.MaxEntries()) * int(m.ValueSize())
		page := unix.Getpagesize()
		prot := unix.PROT_READ
		// A slot's counts in the process table are cleared before it is given out
		// again.
		if c.program.slots != nil || !slices.Contains(c.program.read, name) {
			prot |= unix.PROT_WRITE
		}
		b, err := unix.Mmap(m.FD(), 0, (size+page-1)/page*page, prot, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map array %s of %s: %w", name, c.program.Name, err)
		}
		c.mapped = append(c.mapped, b)
		c.maps[name] = b[:size]
	}
	return nil
}

// open loads and attaches the first variant that the kernel accepts, and loads it for
// each level. A level for which it cannot be loaded is noted in lost, and uses the
// program of the level below. A hook of a higher level is detached again: it has been
// shown to work.
func (hk *hook) open(h *host.Host, levels int, load func(program string, level int) (*ebpf.Program, error), lost []error) (attached, error) {
	var errs []error
	for _, v := range hk.variants {
		p, err := load(v.program, hk.from)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.program, err))
			continue
		}
		l, perEvent, err := hk.timed(h, v, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: attach: %w", v.program, err), p.Close())
			continue
		}
		a := attached{name: hk.name, program: p, attach: v.attach, link: l, perEvent: perEvent, from: hk.from, levels: []*ebpf.Program{p}}
		for level := hk.from + 1; level < levels; level++ {
			next, err := load(v.program, level)
			if err != nil {
				lost[level] = errors.Join(lost[level], fmt.Errorf("hook %s: %s: %w", hk.name, v.program, err))
				next = a.levels[len(a.levels)-1]
			}
			a.levels = append(a.levels, next)
		}
		if hk.from > 0 {
			a.link = nil
			if err := l.Close(); err != nil {
				return a, fmt.Errorf("detach %s: %w", hk.name, err)
			}
		}
		return a, nil
	}
	return attached{}, fmt.Errorf("hook %s: %w", hk.name, errors.Join(errs...))
}

// timed attaches a variant and, if the hook has a trigger, measures how much longer an
// event takes in seconds.
func (hk *hook) timed(h *host.Host, v variant, p *ebpf.Program) (l link.Link, perEvent float64, err error) {
	if hk.trigger == nil {
		l, err = v.attach(h, p)
		return l, 0, err
	}
	k := kernelOf(h)
	k.quiet.Lock()
	defer k.quiet.Unlock()
	before := perCall(hk.trigger)
	if l, err = v.attach(h, p); err != nil {
		return nil, 0, err
	}
	return l, max(0, perCall(hk.trigger)-before), nil
}

// loadProgram loads one program of an object, with existing maps.
func (k *kernel) loadProgram(spec *ebpf.CollectionSpec, name string, maps map[string]*ebpf.Map, types *btf.Cache) (*ebpf.Program, error) {
	k.quiet.RLock()
	defer k.quiet.RUnlock()
	k.relocating.Lock()
	defer k.relocating.Unlock()
	p, ok := spec.Programs[name]
	if !ok {
		return nil, fmt.Errorf("no program %s in the object", name)
	}
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: p.Copy()}
	coll, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{MapReplacements: maps, Cache: types})
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// another loads one more program of an open object.
func (c *Counters) another(name string) (*ebpf.Program, error) {
	spec, err := c.program.load()
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", c.program.Name, err)
	}
	if err := c.size(spec, c.limits); err != nil {
		return nil, err
	}
	return c.kernel.loadProgram(spec, name, c.tables, c.kernel.typeCache())
}

// loadLevel loads a program for a level of detail. Programs share all maps but
// their constants.
func (k *kernel) loadLevel(spec *ebpf.CollectionSpec, name string, level int, maps map[string]*ebpf.Map, types *btf.Cache) (*ebpf.Program, error) {
	if level == 0 || spec.Variables["level"] == nil {
		return k.loadProgram(spec, name, maps, types)
	}
	spec = spec.Copy()
	if err := spec.Variables["level"].Set(uint8(level)); err != nil {
		return nil, err
	}
	maps = gomaps.Clone(maps)
	delete(maps, ".rodata")
	return k.loadProgram(spec, name, maps, types)
}
