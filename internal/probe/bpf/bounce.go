package bpf

// The user-space side of bounce.bpf.c: what to load, where to attach it, and how to read its counters. It counts and
// times the kernel's bounce buffers (SWIOTLB), which confidential VMs need for I/O. bouncecost.go measures what the
// timing itself adds.

//go:generate ./compile.sh bounce bounce.bpf.c

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
)

// Sizes and cells of bounce.bpf.c.
const (
	bounceDevices  = 65
	bounceNameLen  = 48
	bounceMappings = 0
	bounceBytes    = 1
	bounceCells    = 2
	bounceReturns  = bounceDevices * bounceCells
	bounceFull     = bounceReturns + 1

	bounceTimes     = bounceFull + 1
	bounceContexts  = 2
	bounceTimeCells = 2 // calls and nanoseconds
	bounceUntimed   = bounceTimes + int(bounceOperations)*bounceContexts*bounceTimeCells
	bounceByTask    = bounceUntimed + int(bounceOperations)
	bounceTasks     = 256
	bounceRow       = bounceByTask + bounceTasks*bounceTimeCells
	bounceDoingLen  = 24 // a name of 16 bytes, a call and nothing

	bounceMostCalls  = 500
	bounceCallCompat = 501
	bounceCallThread = 502
)

// BounceOperation is what is done to a mapped buffer.
type BounceOperation int

// The operations. Sync copies a buffer that stays mapped.
const (
	BounceMap BounceOperation = iota
	BounceUnmap
	BounceSync
	bounceOperations
)

// BounceOperations and BounceContexts are their label values. An interrupt works for no known
// process, and a page fault looks like one.
var (
	BounceOperations = [bounceOperations]string{"map", "unmap", "sync"}
	BounceContexts   = [bounceContexts]string{"task", "interrupt"}
)

// Names of the hooks of Bounce.
const (
	hookBounced = "swiotlb:swiotlb_bounced"
	hookFull    = "swiotlb_tbl_map_single"
)

// bounceSpans are the functions whose calls are timed, by the names of their programs.
var bounceSpans = []struct {
	program, function string
	operation         BounceOperation
}{
	{"unmap", "swiotlb_tbl_unmap_single", BounceUnmap},
	{"device", "swiotlb_sync_single_for_device", BounceSync},
	{"cpu", "swiotlb_sync_single_for_cpu", BounceSync},
}

// bounceHooks are those of all functions. The return comes first, because a call that
// begins before it is attached would never end.
func bounceHooks() []hook {
	hooks := []hook{
		{name: hookBounced, variants: []variant{
			{"bounced_btf", typed},
			{"bounced_raw", raw("swiotlb_bounced")},
			{"bounced_nameless", raw("swiotlb_bounced")},
		}},
		// Linux 6.1 has seven arguments here, one more than fexit supports.
		{name: hookFull, variants: []variant{{"full_fexit", typed}, {"full_kretprobe", returnOf(hookFull)}}},
		{name: entryOf(hookFull), variants: []variant{{"map_fentry", typed}, {"map_kprobe", kprobe(hookFull)}}},
	}
	for _, s := range bounceSpans {
		// Since Linux 6.11 the name is an inline function before the one that works.
		now, old := "__"+s.function, s.program+"_old"
		hooks = append(hooks, hook{name: exitOf(s.function), variants: []variant{
			{s.program + "_fexit", typed}, {old + "_fexit", typed},
			{s.program + "_kretprobe", returnOf(now)}, {old + "_kretprobe", returnOf(s.function)},
		}}, hook{name: entryOf(s.function), variants: []variant{
			{s.program + "_fentry", typed}, {old + "_fentry", typed},
			{s.program + "_kprobe", kprobe(now)}, {old + "_kprobe", kprobe(s.function)},
		}})
	}
	return hooks
}

// Bounce counts the bounce buffers that devices request, those they do not get, and the time
// spent copying through them.
var Bounce = &Program{
	Name: "bounce",
	spec: spec{
		load:  loadBounce,
		hooks: bounceHooks(),
	},
	layout: layout{
		row:   bounceRow,
		read:  []string{"counts", "names", "tasks"},
		reset: []string{"begun"},
	},
}

// returnOf attaches to the return of a kernel function by a breakpoint or ftrace.
func returnOf(symbol string) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(_ *host.Host, p *ebpf.Program) (link.Link, error) { return link.Kretprobe(symbol, p, nil) }
}

// BounceCounts reads the counters of Bounce.
type BounceCounts struct{ *Counters }

// ByDevice emits for each device the mappings that requested a bounce buffer and their bytes,
// since the program was attached; those in BounceFull did not get one. Of those under Other,
// folded are of devices that found the table full, and nameless of devices whose name the kernel
// does not reveal.
func (c BounceCounts) ByDevice(emit func(device string, mappings, bytes uint64)) (folded, nameless uint64) {
	if !c.has(hookBounced) {
		return 0, 0
	}
	type total struct {
		device          string
		mappings, bytes uint64
	}
	cells, raw := c.counts(), c.maps["names"]
	var totals []total
	for slot := range bounceDevices {
		n := cells.sum(slot*bounceCells + bounceMappings)
		if n == 0 {
			continue
		}
		name := deviceName(raw, slot)
		// Two names may become the same text, because bytes that are not UTF-8 are
		// replaced.
		i := slices.IndexFunc(totals, func(t total) bool { return t.device == name })
		if i < 0 {
			i = len(totals)
			totals = append(totals, total{device: name})
		}
		totals[i].mappings += n
		totals[i].bytes += cells.sum(slot*bounceCells + bounceBytes)
	}
	for _, t := range totals {
		emit(t.device, t.mappings, t.bytes)
	}
	n := cells.sum(bounceMappings)
	if deviceName(raw, bounceDevices-1) == Other {
		return 0, n
	}
	return n, 0
}

// deviceName is the name in a slot, or Other for slot 0 and for invalid names.
func deviceName(raw []byte, slot int) string {
	at := slot * bounceNameLen
	if slot == 0 || at+bounceNameLen > len(raw) {
		return Other
	}
	text, _, _ := bytes.Cut(raw[at:at+bounceNameLen], []byte{0})
	if len(text) == 0 {
		return Other
	}
	return string(text)
}

// Full is the number of mappings that got no bounce buffer because the pool was full,
// since the program was attached; false if that is not counted.
func (c BounceCounts) Full() (uint64, bool) {
	return c.counts().sum(bounceFull), c.has(hookFull)
}

// bounceTime is the first cell of an operation in a context.
func bounceTime(op BounceOperation, context int) int {
	return bounceTimes + (int(op)*bounceContexts+context)*bounceTimeCells
}

// timed reports whether both ends of an operation's functions are hooked.
func (c BounceCounts) timed(op BounceOperation) bool {
	if op == BounceMap {
		return c.has(hookFull) && c.has(entryOf(hookFull))
	}
	for _, s := range bounceSpans {
		if s.operation == op && !(c.has(entryOf(s.function)) && c.has(exitOf(s.function))) {
			return false
		}
	}
	return true
}

// Timed reports whether the time of all operations is counted.
func (c BounceCounts) Timed() bool {
	return c.timed(BounceMap) && c.timed(BounceUnmap) && c.timed(BounceSync)
}

// Times emits how often the kernel's functions did an operation in a context, and how
// long that took in seconds, since the program was attached.
func (c BounceCounts) Times(emit func(op BounceOperation, context int, calls uint64, seconds float64)) {
	cells := c.counts()
	for op := range bounceOperations {
		if !c.timed(op) {
			continue
		}
		for context := range bounceContexts {
			at := bounceTime(op, context)
			emit(op, context, cells.sum(at), float64(cells.sum(at+1))/1e9)
		}
	}
}

// Untimed is the number of calls whose beginning was not seen.
func (c BounceCounts) Untimed() (n uint64) {
	for op := range int(bounceOperations) {
		n += c.counts().sum(bounceUntimed + op)
	}
	return n
}

// ByTask emits the operations of processes in their own context: the activity is InKernel with
// the name of a system call, or InThread. It returns how many calls were folded because their
// table was full.
func (c BounceCounts) ByTask(emit func(process string, in Activity, call string, calls uint64, seconds float64)) (folded uint64) {
	type key struct {
		process string
		in      Activity
		call    string
	}
	type total struct{ calls, nanoseconds uint64 }
	cells, raw := c.counts(), c.maps["tasks"]
	totals := map[key]total{}
	var order []key
	for slot := range bounceTasks {
		at := bounceByTask + slot*bounceTimeCells
		calls := cells.sum(at)
		if calls == 0 {
			continue
		}
		k := key{process: Other, in: Folded}
		if b := slot * bounceDoingLen; slot > 0 && b+bounceDoingLen <= len(raw) {
			name, _, _ := bytes.Cut(raw[b:b+16], []byte{0})
			k.process = string(name)
			k.in, k.call = bounceActivity(int(binary.NativeEndian.Uint32(raw[b+16:])))
		}
		if k.process == Other {
			folded += calls
		}
		t, known := totals[k]
		if !known {
			order = append(order, k)
		}
		totals[k] = total{t.calls + calls, t.nanoseconds + cells.sum(at+1)}
	}
	for _, k := range order {
		emit(k.process, k.in, k.call, totals[k].calls, float64(totals[k].nanoseconds)/1e9)
	}
	return folded
}

// bounceActivity decodes a call's number in bounce.bpf.c.
func bounceActivity(call int) (in Activity, name string) {
	switch {
	case call == bounceCallThread:
		return InThread, ""
	case call == bounceCallCompat:
		return InKernel, "compat"
	case call < bounceMostCalls:
		return InKernel, SyscallName(call)
	}
	return InKernel, "unknown"
}
