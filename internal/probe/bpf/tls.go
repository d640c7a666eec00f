package bpf

// The user-space side of tls.bpf.c: uprobes on the handshake function of OpenSSL libraries. It finds and hooks the
// libraries, counts handshakes by process, and tells the sampling clock which threads are in one.

//go:generate ./compile.sh tls tls.bpf.c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
)

// HandshakeFunction is the function of OpenSSL's libssl in which handshakes are made.
const HandshakeFunction = "SSL_do_handshake"

// tlsSelf is the cookie of the self-test, SELF of tls.bpf.c.
const tlsSelf = 1

// handshakeMaps are those of handshakes.h.
var handshakeMaps = []string{"handshakes", "handshakes_since"}

// Handshakes counts TLS handshakes that succeed, and lets Samples know which
// threads are in one. As with Uprobes, a hook is for every process that maps the
// file.
type Handshakes struct {
	Table
	begin, end *ebpf.Program
	multi      bool
	files      map[FileID]*Executable
}

var tlsSlots = slotCells{each: 1, events: 1}

// tlsProgram is the program that self hooks to a function of this process, to measure what a hit costs.
func tlsProgram(self func(multi bool) func(*host.Host, *ebpf.Program) (link.Link, error)) *Program {
	return &Program{
		Name: "tls",
		spec: spec{
			load: loadTls,
			hooks: []hook{{
				name:     "uprobe",
				variants: []variant{{"begin_multi", self(true)}, {"begin_single", self(false)}},
				trigger:  tick,
				trap:     true,
			}},
			sized:  map[string]func(int) uint32{"cache": cacheEntries},
			shares: handshakeMaps,
		},
		layout: layout{
			row:  slots,
			read: []string{"counts", "names"},
			tell: []string{"cache", "handshakes_since"},
		},
		filter: filter{
			slots: tlsSlots,
		},
	}
}

// OpenHandshakes loads the programs and measures what a hit costs, on a function
// of this process; no file is hooked yet.
func OpenHandshakes(h *host.Host) (*Handshakes, error) {
	s := &Handshakes{files: map[FileID]*Executable{}}
	self := func(multi bool) func(*host.Host, *ebpf.Program) (link.Link, error) {
		return func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
			offset, err := offsetOf(tick)
			if err != nil {
				return nil, err
			}
			s.begin, s.multi = p, multi
			return s.attach("/proc/self/exe", p, offset, tlsSelf)
		}
	}
	var err error
	if s.Counters, err = tlsProgram(self).Open(h); err != nil {
		return nil, err
	}
	if s.recorded {
		return s, nil
	}
	// The return of a function of this process must not be hooked: Go inspects and moves its
	// stacks.
	end := "end_single"
	if s.multi {
		end = "end_multi"
	}
	if s.end, err = s.another(end); err != nil {
		return nil, errors.Join(refused(h, "tls", err), s.Close())
	}
	s.onClose(s.end.Close)
	s.forgetSelf()
	s.since(now())
	return s, nil
}

// since sets the time from which returns are seen.
func (s *Handshakes) since(at uint64) {
	if b := s.maps["handshakes_since"]; len(b) >= 8 {
		binary.NativeEndian.PutUint64(b, at)
	}
}

// Detach is that of Counters; handshakes begun before do not count as in progress later.
func (s *Handshakes) Detach() error {
	s.since(math.MaxUint64)
	return s.Counters.Detach()
}

// Attach is that of Counters.
func (s *Handshakes) Attach() error {
	err := s.Counters.Attach()
	s.since(now())
	return err
}

// attach attaches a program to the entry or, if it is that of the end, to the return of a
// function. Before uprobe.multi (Linux 6.6) this opens a perf event, for which some kernels
// require more than CAP_PERFMON.
func (s *Handshakes) attach(path string, p *ebpf.Program, offset, cookie uint64) (link.Link, error) {
	x, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	multi := &link.UprobeMultiOptions{Addresses: []uint64{offset}, Cookies: []uint64{cookie}}
	single := &link.UprobeOptions{Address: offset, Cookie: cookie}
	switch {
	case s.multi && p == s.end:
		return x.UretprobeMulti(nil, p, multi)
	case s.multi:
		return x.UprobeMulti(nil, p, multi)
	case p == s.end:
		return x.Uretprobe("", p, single)
	}
	return x.Uprobe("", p, single)
}

// Hook hooks the function at an offset of a file and takes ownership of the file, also on an
// error.
func (s *Handshakes) Hook(x *Executable, offset uint64) error {
	if s.files[x.ID] != nil {
		return x.Close()
	}
	path := x.descriptor()
	hooks := []attached{{program: s.begin}, {program: s.end}}
	var err error
	// The end first: a beginning without its end would stay in the table.
	for i := 1; i >= 0 && err == nil; i-- {
		a := &hooks[i]
		a.name = x.String()
		a.attach = func(_ *host.Host, p *ebpf.Program) (link.Link, error) {
			return s.attach(path, p, offset, 0)
		}
		a.link, err = a.attach(s.host, a.program)
	}
	s.kernel.Lock()
	defer s.kernel.Unlock()
	l := s.links.Lock()
	defer s.links.Unlock()
	for i := range hooks {
		if k := hooks[i].link; k != nil && (l.detached || err != nil) {
			err = errors.Join(err, k.Close())
			hooks[i].link = nil
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("attach uprobes: %w", oneLine{err}), x.Close())
	}
	s.files[x.ID] = x
	l.hooks = append(hooks, l.hooks...)
	return nil
}

// Hooked reports whether a file has hooks, and how many files have.
func (s *Handshakes) Hooked(id FileID) (yes bool, files int) { return s.files[id] != nil, len(s.files) }

// Forget removes the hooks of the files that gone reports.
func (s *Handshakes) Forget(gone func(*Executable) bool) error {
	s.kernel.Lock()
	defer s.kernel.Unlock()
	l := s.links.Lock()
	defer s.links.Unlock()
	var errs []error
	for id, x := range s.files {
		if !gone(x) {
			continue
		}
		errs = append(errs, l.forget(x.String()))
		delete(s.files, id)
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// HitSeconds is what a hit costs in seconds, measured when s was opened; a handshake has two or,
// where it would block, more. 0 is unknown.
func (s *Handshakes) HitSeconds() float64 { return s.calibratedCost() }

// Close removes all hooks and closes the files.
func (s *Handshakes) Close() error {
	s.since(0)
	errs := []error{s.Counters.Close()}
	for _, x := range s.files {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// Handshaken emits the number of handshakes of each process with any since
// opening, and returns how many were folded.
func (s *Handshakes) Handshaken(emit func(process string, n uint64)) (folded uint64) {
	return tlsSlots.byName(s.Counters, func(process string, n []uint64) { emit(process, n[0]) })[0]
}
