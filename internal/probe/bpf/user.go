package bpf

// Probes of users (docs/probes.md): loads their objects, refuses programs that could change the system, and reads their
// maps.

//go:generate clang -target bpf -fdebug-compilation-dir=. -O2 -g -Wall -Werror -mcpu=v3 -c ../../../docs/probes/execs.bpf.c -o ../../../docs/probes/execs.o
//go:generate llvm-strip -g ../../../docs/probes/execs.o
//go:generate clang -target bpf -fdebug-compilation-dir=. -D__TARGET_ARCH_x86 -O2 -g -Wall -Werror -mcpu=v3 -c ../../../docs/probes/lookups.bpf.c -o ../../../docs/probes/lookups.o
//go:generate llvm-strip -g ../../../docs/probes/lookups.o

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

// Function is the place of a uprobe of a user's object: a symbol of the files that match a
// pattern.
type Function struct{ Path, Symbol string }

// User is an object written by a user, loaded and attached. The sections of its programs say
// where they attach.
type User struct {
	*Counters
	// ran is the map and the place in its values that counts runs of the
	// programs, "" where the object has none.
	ran          string
	offset, size int
}

// Bounds of what a user's object may have.
const (
	maxUserObject = 8 << 20
	maxUserMemory = 64 << 20 // of all its maps
	maxUserKeys   = 16384    // read of a map in a round
)

// readable are the kinds of maps that User.Each can read.
var readable = []ebpf.MapType{ebpf.Array, ebpf.PerCPUArray, ebpf.Hash, ebpf.PerCPUHash, ebpf.LRUHash, ebpf.LRUCPUHash}

// meddling are the helpers that modify the observed system.
var meddling = []asm.BuiltinFunc{asm.FnProbeWriteUser, asm.FnOverrideReturn, asm.FnSendSignal, asm.FnSendSignalThread}

// Layout is the sizes of a map's keys and values in bytes, known before the object is loaded.
type Layout struct{ Key, Value int }

// UserObject is an object that was read but not loaded.
type UserObject struct {
	name string
	spec *ebpf.CollectionSpec
}

// ReadUserObject reads an object and refuses one whose programs do more than a probe may.
func ReadUserObject(name string, object []byte) (o *UserObject, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read object %s: bad ELF file: %v", name, r)
		}
	}()
	if len(object) > maxUserObject {
		return nil, fmt.Errorf("read object %s: it has %d bytes, more than %d", name, len(object), maxUserObject)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		if strings.Contains(err.Error(), "BTF") {
			return nil, &probe.Problem{Err: fmt.Errorf("read object %s: %w", name, oneLine{err}), Remedy: "compile it with clang -g, and strip it with llvm-strip -g only"}
		}
		return nil, fmt.Errorf("read object %s: %w", name, oneLine{err})
	}
	if len(spec.Programs) == 0 {
		return nil, fmt.Errorf("read object %s: it has no program", name)
	}
	for _, p := range spec.Programs {
		if err := allowed(p); err != nil {
			return nil, fmt.Errorf("read object %s: program %s: %w", name, p.Name, err)
		}
	}
	var memory uint64
	cpus := uint64(max(1, possibleCPUs()))
	for _, m := range spec.Maps {
		if m.Pinning != ebpf.PinNone {
			return nil, fmt.Errorf("read object %s: map %s: a probe's maps may not be pinned", name, m.Name)
		}
		each := uint64(m.KeySize) + uint64(m.ValueSize)
		if perCPU(m.Type) {
			each = uint64(m.KeySize) + uint64(m.ValueSize)*cpus
		}
		memory += each * uint64(m.MaxEntries)
	}
	if memory > maxUserMemory {
		return nil, fmt.Errorf("read object %s: its maps need %d bytes, more than %d", name, memory, maxUserMemory)
	}
	return &UserObject{name, spec}, nil
}

func possibleCPUs() int {
	n, err := ebpf.PossibleCPU()
	if err != nil {
		return 1
	}
	return n
}

func perCPU(t ebpf.MapType) bool {
	return t == ebpf.PerCPUArray || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

// allowed refuses programs that do more than observe.
func allowed(p *ebpf.ProgramSpec) error {
	if _, err := place(p, nil); err != nil {
		return err
	}
	for _, ins := range p.Instructions {
		if ins.IsBuiltinCall() && slices.Contains(meddling, asm.BuiltinFunc(ins.Constant)) {
			return fmt.Errorf("a probe may not call %v, which changes what it observes", asm.BuiltinFunc(ins.Constant))
		}
		if ins.IsKfuncCall() {
			return errors.New("a probe may not call kernel functions other than helpers")
		}
	}
	return nil
}

// Layout returns the sizes of a map, and whether the object has it and it can be read.
func (o *UserObject) Layout(name string) (Layout, error) {
	m, ok := o.spec.Maps[name]
	if !ok {
		have := slices.Sorted(maps.Keys(o.spec.Maps))
		have = slices.DeleteFunc(have, func(s string) bool { return strings.HasPrefix(s, ".") })
		return Layout{}, fmt.Errorf("the object has no map %q, only %s", name, strings.Join(have, ", "))
	}
	if !slices.Contains(readable, m.Type) {
		return Layout{}, fmt.Errorf("map %s is of type %s; only arrays and hash tables can be read", name, m.Type)
	}
	return Layout{int(m.KeySize), int(m.ValueSize)}, nil
}

// Programs lists the programs, and which of them need a Function.
func (o *UserObject) Programs() map[string]bool {
	out := map[string]bool{}
	for name, p := range o.spec.Programs {
		kind, to, _ := strings.Cut(p.SectionName, "/")
		out[name] = (kind == "uprobe" || kind == "uretprobe") && to == ""
	}
	return out
}

// place is how a program is attached, as its section says.
func place(p *ebpf.ProgramSpec, at *Function) (func(*host.Host, *ebpf.Program) ([]link.Link, error), error) {
	one := func(l link.Link, err error) ([]link.Link, error) {
		if err != nil {
			return nil, err
		}
		return []link.Link{l}, nil
	}
	kind, to, _ := strings.Cut(p.SectionName, "/")
	switch {
	case kind == "tracepoint" || kind == "tp":
		group, name, ok := strings.Cut(to, "/")
		if !ok {
			return nil, fmt.Errorf("section %q: want %s/GROUP/NAME", p.SectionName, kind)
		}
		return func(h *host.Host, p *ebpf.Program) ([]link.Link, error) { return one(classic(group, name)(h, p)) }, nil
	case kind == "raw_tracepoint" || kind == "raw_tp":
		return func(h *host.Host, p *ebpf.Program) ([]link.Link, error) { return one(raw(to)(h, p)) }, nil
	case kind == "tp_btf" || kind == "fentry" || kind == "fexit":
		return func(h *host.Host, p *ebpf.Program) ([]link.Link, error) { return one(typed(h, p)) }, nil
	case kind == "kprobe":
		return func(h *host.Host, p *ebpf.Program) ([]link.Link, error) { return one(kprobe(to)(h, p)) }, nil
	case kind == "kretprobe":
		return func(_ *host.Host, p *ebpf.Program) ([]link.Link, error) { return one(link.Kretprobe(to, p, nil)) }, nil
	case kind == "uprobe" || kind == "uretprobe":
		if at == nil {
			path, symbol, _ := strings.Cut(to, ":")
			at = &Function{Path: path, Symbol: symbol}
		}
		return func(h *host.Host, p *ebpf.Program) ([]link.Link, error) { return at.attach(h, p, kind == "uretprobe") }, nil
	}
	return nil, fmt.Errorf("section %q: a probe may be tracepoint, raw_tp, tp_btf, fentry, fexit, kprobe, kretprobe, uprobe or uretprobe", p.SectionName)
}

func (f Function) attach(h *host.Host, p *ebpf.Program, ret bool) (out []link.Link, err error) {
	pattern := f.Path
	if !strings.HasPrefix(pattern, "/") {
		pattern = "/" + pattern
	}
	found, err := host.Chosen.Find(context.Background(), h, pattern)
	files := slices.Concat(found...)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no file matches %s", f.Path)
	}
	var done []FileID
	for _, name := range files {
		if err != nil {
			break
		}
		var x *Executable
		if x, err = OpenExecutable(h, name, 0); err != nil {
			break
		}
		if slices.Contains(done, x.ID) { // by another name
			_ = x.Close()
			continue
		}
		done = append(done, x.ID)
		var l link.Link
		l, err = f.one(x, p, ret)
		_ = x.Close()
		if err != nil {
			err = fmt.Errorf("%s: %w", host.PublicName(name, "a file that matches "+f.Path), err)
			break
		}
		out = append(out, l)
	}
	if err != nil {
		for _, l := range out {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	return out, nil
}

func (f Function) one(x *Executable, p *ebpf.Program, ret bool) (link.Link, error) {
	functions := x.inspect([]string{f.Symbol})
	offset, ok := functions.offsets[f.Symbol]
	if functions.err == nil && !ok {
		functions.err = fmt.Errorf("no function %s", f.Symbol)
	}
	if functions.err != nil {
		return nil, functions.err
	}
	file, err := link.OpenExecutable(x.descriptor())
	if err != nil {
		return nil, err
	}
	at := &link.UprobeOptions{Address: offset}
	if ret {
		return file.Uretprobe(f.Symbol, p, at)
	}
	return file.Uprobe(f.Symbol, p, at)
}

// Open loads the object into the kernel and attaches its programs, one by one;
// at says where uprobes go, by program.
func (o *UserObject) Open(h *host.Host, at map[string]Function) (*User, error) {
	u := &User{Counters: &Counters{host: h, kernel: kernelOf(h), maps: map[string][]byte{}}}
	u.program = &Program{Name: o.name, layout: layout{row: 1}}
	if err := u.load(h, o, at); err != nil {
		return nil, errors.Join(err, u.release())
	}
	held := u.kernel.Lock()
	defer u.kernel.Unlock()
	held.add(u.Counters)
	return u, nil
}

func (u *User) load(h *host.Host, o *UserObject, at map[string]Function) error {
	opened, err := host.Descriptors(descriptorCount(o.spec, len(o.spec.Programs), 1))
	if err != nil {
		return refused(h, o.name, err)
	}
	defer opened()
	types := u.kernel.typeCache()
	if _, err := types.Kernel(); err != nil {
		return noTypes(err)
	}
	only := o.spec.Copy()
	only.Programs = nil
	coll, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return refused(h, o.name, err)
	}
	u.tables = coll.Maps
	u.onClose(func() error { coll.Close(); return nil })
	for _, m := range coll.Maps {
		if info, err := m.Info(); err == nil {
			n, _ := info.Memlock()
			u.memory += n
		}
	}
	var lost []error
	var hooks []attached
	for _, name := range slices.Sorted(maps.Keys(o.spec.Programs)) {
		var function *Function
		if f, ok := at[name]; ok {
			function = &f
		}
		attach, err := place(o.spec.Programs[name], function)
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		p, err := u.kernel.loadProgram(o.spec, name, coll.Maps, types)
		if err != nil {
			lost = append(lost, fmt.Errorf("program %s: %w", name, verdict(err)))
			continue
		}
		u.onClose(p.Close)
		links, err := attach(h, p)
		if err != nil {
			lost = append(lost, fmt.Errorf("program %s: attach: %w", name, oneLine{err}))
			continue
		}
		for i, l := range links {
			hooks = append(hooks, attached{name: name, program: p, link: l, attach: reattach(attach, i)})
		}
	}
	u.links.Lock().hooks = hooks
	u.links.Unlock()
	if err := errors.Join(lost...); err != nil {
		u.Lost = &probe.Problem{Err: fmt.Errorf("load %s into the kernel: %w", o.name, oneLine{err}), Remedy: userRemedy(err)}
	}
	if len(hooks) == 0 {
		return u.Lost
	}
	return nil
}

// reattach attaches the i-th of the links that attach makes, for a hook that comes back.
func reattach(attach func(*host.Host, *ebpf.Program) ([]link.Link, error), i int) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(h *host.Host, p *ebpf.Program) (link.Link, error) {
		links, err := attach(h, p)
		if err != nil {
			return nil, err
		}
		var mine link.Link
		for k, l := range links {
			if k == i {
				mine = l
			} else {
				_ = l.Close()
			}
		}
		if mine == nil {
			return nil, errors.New("the file it was attached to is gone")
		}
		return mine, nil
	}
}

func userRemedy(err error) string {
	var v *ebpf.VerifierError
	switch {
	case errors.As(err, &v):
		return "change the program as the verifier says"
	case errors.Is(err, unix.EPERM) && !capable():
		return "run as root, or grant CAP_BPF and CAP_PERFMON"
	}
	return "see that this kernel has what the program attaches to, and that it is spelled right"
}

// rejection is the useful part of a verifier's log: the fault and its place.
type rejection struct {
	text string
	err  *ebpf.VerifierError
}

func (r rejection) Error() string { return r.text }

// Unwrap makes errors.As see the verifier's own error.
func (r rejection) Unwrap() error { return r.err }

// verdict puts the two useful lines of a verifier's log into its error: the
// reason, which is the last line, and the line of the source before it, or else
// the instruction.
func verdict(err error) error {
	var v *ebpf.VerifierError
	if !errors.As(err, &v) || len(v.Log) == 0 {
		return oneLine{err}
	}
	reason := lastLine(v.Log)
	where := ""
	for i := len(v.Log) - 1; i >= 0; i-- {
		s := strings.TrimSpace(v.Log[i])
		if s == reason || s == "" || strings.HasPrefix(s, "processed ") {
			continue
		}
		if strings.HasPrefix(s, ";") {
			where = s
			break
		}
		if where == "" {
			where = s
		}
	}
	return rejection{fmt.Sprintf("the kernel's verifier refused it: %s (at %q): %v", reason, where, oneLine{v.Cause}), v}
}

// Each calls visit with every key of a map and the value on each CPU, or the one value. The
// slices are valid during the call. The error says if there were more keys than it reads, or if
// they changed too fast.
func (u *User) Each(name string, visit func(key []byte, values [][]byte)) error {
	m := u.tables[name]
	if m == nil {
		return fmt.Errorf("read map %s of %s: it is not loaded", name, u.program.Name)
	}
	it, n := m.Iterate(), 0
	key := make([]byte, m.KeySize())
	if !perCPU(m.Type()) {
		values := [][]byte{make([]byte, m.ValueSize())}
		for n < maxUserKeys && it.Next(&key, &values[0]) {
			n++
			visit(key, values)
		}
	} else {
		var values [][]byte
		for n < maxUserKeys && it.Next(&key, &values) {
			n++
			visit(key, values)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read map %s of %s: %w", name, u.program.Name, err)
	}
	if n == maxUserKeys && int(m.MaxEntries()) > n {
		return fmt.Errorf("read map %s of %s: only its first %d keys are read", name, u.program.Name, n)
	}
	return nil
}

// CountRuns names the number in a map's values that counts runs of the programs, from which Spent
// computes their cost.
func (u *User) CountRuns(table string, offset, size int) {
	u.ran, u.offset, u.size = table, offset, size
}

// Calibrate sets the cost of an event in seconds for Spent.
func (u *User) Calibrate(seconds float64) {
	u.calibrate(price{calibrated: seconds})
}

// Spent is like that of Counters. Maps without a value per CPU do not say where the events were,
// so all count for one core, the worst case.
func (u *User) Spent() (events float64, seconds []float64) {
	var rows []byte
	err := u.Each(u.ran, func(_ []byte, values [][]byte) {
		for cpu, v := range values {
			for len(rows) < (cpu+1)*8 {
				rows = append(rows, 0, 0, 0, 0, 0, 0, 0, 0)
			}
			sum := binary.NativeEndian.Uint64(rows[cpu*8:]) + Number(v, u.offset, u.size)
			binary.NativeEndian.PutUint64(rows[cpu*8:], sum)
		}
	})
	r := u.kernel.Lock()
	defer u.kernel.Unlock()
	if err == nil {
		r.ledgerOf(u.Counters).polled = rows
	}
	return r.spent(u.Counters)
}

// Number is an unsigned number of 1, 2, 4 or 8 bytes in a map's key or value, or
// 0 where it does not lie inside.
func Number(b []byte, offset, size int) uint64 {
	if offset < 0 || size < 1 || size > 8 || offset > len(b)-size {
		return 0
	}
	var v [8]byte
	if isBigEndian {
		copy(v[8-size:], b[offset:offset+size])
	} else {
		copy(v[:], b[offset:offset+size])
	}
	return binary.NativeEndian.Uint64(v[:])
}

var isBigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
