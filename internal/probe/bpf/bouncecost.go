package bpf

// The programs at both ends of a function of bounce buffers add time between them. This file measures that time once,
// on a kernel function that does nothing, so it can be subtracted.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// emptyFunction does nothing. The kernel calls it when it tests a tracing program
// (net/bpf/test_run.c).
const emptyFunction = "bpf_fentry_test1"

// TimingCost is what the programs at both ends of a function add to the time between them,
// in seconds for each operation: the time of a function that does nothing, measured by
// the same programs.
func (c BounceCounts) TimingCost() (each [bounceOperations]float64, err error) {
	if c.recorded || !c.Timed() {
		return each, nil
	}
	costs := map[ebpf.ProgramType]float64{}
	for op := range bounceOperations {
		kind := c.programType(bounceEntries[op])
		if _, known := costs[kind]; !known {
			if costs[kind], err = c.emptyTime(kind); err != nil {
				return each, fmt.Errorf("time a function that does nothing: %w", err)
			}
		}
		each[op] = costs[kind]
	}
	return each, nil
}

// bounceEntries are the hooks whose variant tells which kind of program times an operation.
var bounceEntries = [bounceOperations]string{entryOf(hookFull), entryOf("swiotlb_tbl_unmap_single"), entryOf("swiotlb_sync_single_for_cpu")}

func (c *Counters) programType(hook string) ebpf.ProgramType {
	l := c.links.Lock()
	defer c.links.Unlock()
	i := slices.IndexFunc(l.hooks, func(a attached) bool { return a.name == hook })
	return l.hooks[i].program.Type()
}

// emptyBatches of emptyRuns each. The fastest counts: interrupts and other programs only add
// time, and no more may be subtracted than timing adds.
const emptyBatches, emptyRuns = 64, 4

func (c *Counters) emptyTime(kind ebpf.ProgramType) (seconds float64, err error) {
	spec, err := loadBounce()
	if err != nil {
		return 0, err
	}
	if err := c.size(spec, c.limits); err != nil {
		return 0, err
	}
	const trigger = "cpu_old_fentry"
	entry, exit := "cpu_fentry", "cpu_fexit"
	if kind == ebpf.Kprobe {
		entry, exit = "cpu_kprobe", "cpu_kretprobe"
	}
	for name, p := range spec.Programs {
		if p.AttachTo = emptyFunction; name != entry && name != exit && name != trigger {
			delete(spec.Programs, name)
		}
	}
	c.kernel.quiet.RLock()
	c.kernel.relocating.Lock()
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: c.kernel.typeCache()})
	c.kernel.relocating.Unlock()
	c.kernel.quiet.RUnlock()
	if err != nil {
		return 0, err
	}
	defer coll.Close()
	for _, name := range []string{exit, entry} { // see bounceHooks
		l, err := attachAt(coll.Programs[name], emptyFunction, name == exit)
		if err != nil {
			return 0, err
		}
		defer l.Close()
	}
	c.kernel.quiet.Lock() // from those that load programs, see loadProgram
	defer c.kernel.quiet.Unlock()
	at := bounceTime(BounceSync, 0)
	var each []float64
	for range emptyBatches {
		calls, ns, err := cellsOf(coll.Maps["counts"], at)
		if err != nil {
			return 0, err
		}
		for range emptyRuns {
			if _, err := coll.Programs[trigger].Run(&ebpf.RunOptions{}); err != nil {
				return 0, err
			}
		}
		calls2, ns2, err := cellsOf(coll.Maps["counts"], at)
		if err != nil {
			return 0, err
		}
		if calls2 <= calls {
			return 0, errors.New("its calls are not seen")
		}
		each = append(each, float64(ns2-ns)/float64(calls2-calls)/1e9)
	}
	return slices.Min(each), nil
}

func attachAt(p *ebpf.Program, symbol string, exit bool) (link.Link, error) {
	switch {
	case p.Type() != ebpf.Kprobe:
		return link.AttachTracing(link.TracingOptions{Program: p})
	case exit:
		return link.Kretprobe(symbol, p, nil)
	}
	return link.Kprobe(symbol, p, nil)
}

// cellsOf sums two neighbouring cells over the rows of a map of counts.
func cellsOf(m *ebpf.Map, at int) (first, second uint64, err error) {
	for row := 0; row+bounceRow <= int(m.MaxEntries()); row += bounceRow {
		var a, b uint64
		if err := errors.Join(m.Lookup(uint32(row+at), &a), m.Lookup(uint32(row+at+1), &b)); err != nil {
			return 0, 0, err
		}
		first, second = first+a, second+b
	}
	return first, second, nil
}
