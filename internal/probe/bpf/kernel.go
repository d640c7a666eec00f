package bpf

// State that all open programs of a host share: type information of the kernel (BTF), the process table, the table of
// members, and the costs. Its locks are taken in a fixed order.

import (
	"errors"
	"sync"
	"time"
	"weak"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// kernel is shared by the programs open on one host. Locks are taken in the order
// joining, registry, links of a Counters, clock of the samples.
type kernel struct {
	locked.Value[registry]
	// joining serialises opening the table of members.
	joining sync.Mutex
	// mounting serialises mounting tracefs.
	mounting sync.Mutex
	// relocating serialises loading programs: the types of a kernel module are decoded
	// together with the kernel's, which another program may be decoding
	// (github.com/cilium/ebpf 0.22, btf.decoder.inflateType).
	relocating sync.Mutex
	// quiet keeps loading, which uses the CPU for milliseconds, away from measuring:
	// loaders hold it for reading, a measurement for writing.
	quiet sync.RWMutex
}

// kernelOf returns a host's kernel, made when the first program is opened there.
func kernelOf(h *host.Host) *kernel {
	if h.Shared == nil { // a fixture, whose programs share nothing
		return &kernel{}
	}
	k, _ := h.Shared.LoadOrStore(kernelKey{}, &kernel{})
	return k.(*kernel)
}

type kernelKey struct{}

// begin announces n more objects about to be opened.
func (k *kernel) begin(n int) {
	held := k.Lock()
	defer k.Unlock()
	held.opening += n
}

// typeCache is the kernel's type information, cached or newly read.
func (k *kernel) typeCache() *btf.Cache {
	r := k.Lock()
	defer k.Unlock()
	types := r.types.Value()
	if types == nil {
		types = btf.NewCache()
		r.types = weak.Make(types)
	}
	return types
}

// registry knows the open programs and the maps that they share.
type registry struct {
	// types is the kernel's type information. Sources that are opened at the same time
	// share it; then the garbage collector frees it, because it is larger than
	// everything else together.
	types weak.Pointer[btf.Cache]
	// table holds the maps of the process table while tableUsers > 0.
	table      map[string]*ebpf.Map
	tableUsers int
	open       map[*Counters]bool
	// opening is the number of objects that use the table and are not in open yet: they
	// do not notice when a slot gets another name.
	opening int
	// shared holds the maps shared by open objects, by name.
	shared map[string]*sharedMap
	// told is read while there are listeners, the objects that set limits; hears says that it can be.
	told      *ringbuf.Reader
	listeners int
	hears     bool
	// members keeps the table of members while inheriting is not empty; noMembers
	// says why it cannot.
	members    *Counters
	noMembers  error
	inheriting map[*Counters]bool
	// limbo holds the reclaimed slots, each with the number of cleanings since: after the second
	// one, every program that used the slot has long ended.
	limbo  map[int]int
	tended time.Time
	// dispatch is the cost of entering a program on a tracepoint other than sys_enter
	// in a loop in seconds, once a Meter has measured it.
	dispatch float64
}

// ledger records what an open program has spent, and how it uses the process table.
type ledger struct {
	cost
	places
	// polled holds a User's counts as last read; a User maps none.
	polled []byte
	// reached is called when a limit has been, or is nil.
	reached func()
}

// ledgerOf is the ledger of c.
func (r *registry) ledgerOf(c *Counters) *ledger { return &c.guarded }

// add adds c to the open objects.
func (r *registry) add(c *Counters) {
	if r.open == nil {
		r.open = map[*Counters]bool{}
	}
	r.open[c] = true
}

// users are the open objects that share the process table.
func (r *registry) users(yield func(*Counters) bool) {
	for o := range r.open {
		if o.program.slots != nil && !yield(o) {
			return
		}
	}
}

// drop frees all of c except its hooks, which are detached.
func (r *registry) drop(c *Counters) error {
	var errs []error
	for i := len(c.close) - 1; i >= 0; i-- {
		errs = append(errs, c.close[i](r))
	}
	for _, b := range c.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	c.close, c.mapped, c.maps = nil, nil, nil
	return errors.Join(errs...)
}

// dropTable frees the process table after its last user.
func (r *registry) dropTable() error {
	r.tableUsers--
	if r.tableUsers > 0 {
		return nil
	}
	var errs []error
	if r.members != nil {
		delete(r.open, r.members)
		errs = append(errs, r.members.unhook(), r.drop(r.members))
	}
	for _, m := range r.table {
		errs = append(errs, m.Close())
	}
	r.table, r.members, r.noMembers = nil, nil, nil
	return errors.Join(errs...)
}
