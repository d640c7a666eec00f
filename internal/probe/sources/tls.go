package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"sync"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var tlsHandshakes = counter("tee_tls_handshakes_total",
	"TLS handshakes that succeeded since the monitor started, by process name; those as a client and those as a server are added up (uprobes on SSL_do_handshake of OpenSSL's libssl).",
	"process")

var tls = probe.Source{
	Name:    "tls",
	Doc:     "TLS handshakes by process, from uprobes on OpenSSL; with the source samples, also their CPU time",
	Metrics: []*metric.Desc{tlsHandshakes, retiredEvents},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the programs", Open: true},
		{Capability: "cap_perfmon", For: "to attach uprobes"},
		{Capability: "cap_sys_ptrace", For: "to find libssl in the memory maps of other users' processes", Optional: true},
	},
	Kernels: "Linux 5.15 and later with CONFIG_DEBUG_INFO_BTF and CONFIG_UPROBE_EVENTS, x86-64 only; before 6.6 hooking a library after the start needs CAP_SYS_ADMIN; not 6.11, 6.13, nor 6.12 before 6.12.20: there a hooked return is a system call that seccomp filters do not know, so they end the process",
	Cost:    "Two traps for a handshake, and two more each time that the handshake would block: 10 µs for a trap at the entry, on the development VM (Linux 6.18, self-test of 4,800 calls). The source measures this when it is opened. A trap at the return was not measured separately. To find libraries, the source reads the size of the address space of each new process twice, and of all processes once a minute. If the size has changed, it reads the process's memory maps.",
	Blind:   "handshakes made by the first read or write, without SSL_connect, SSL_accept or SSL_do_handshake; programs that link OpenSSL statically, and other libraries: BoringSSL (Chromium, Envoy), Go, Java, rustls, GnuTLS, NSS, kernel TLS, QUIC with its own library; handshakes inside enclaves. While the budget allows only sampling, the source samples splits the user time outside the windows in the same ratio as inside. It leaves out the first 20 ms of a window, and shorter windows show no handshakes",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("TLS handshakes on %s: uprobes are placed on x86-64 only", runtime.GOARCH)
		}
		if h.IsLocal() {
			release, err := h.ReadString("/proc/sys/kernel/osrelease")
			if err != nil {
				return nil, err
			}
			if endsSandboxed(release) {
				return nil, &probe.Problem{Err: fmt.Errorf("hook the return of functions on Linux %s: it would end processes under a seccomp filter", release),
					Remedy: "boot Linux 6.12.20, 6.14 or later"}
			}
		}
		s, err := bpf.OpenHandshakes(h)
		if err != nil {
			return nil, err
		}
		r := &handshakes{
			Handshakes: s,
			search:     probe.Processes{Host: h},
			lost:       reasons{},
		}
		r.counters = counters{Counters: s.Counters, labels: map[[3]string][]string{}, decode: r.decode,
			full: "names that are idle for minutes are removed"}
		r.find()
		return r, nil
	},
}

// endsSandboxed reports whether a kernel release calls uretprobe(2) for a hooked
// return (since Linux 6.11) and does not let it pass seccomp filters, as 6.14 and
// later releases of 6.12 do (kernel/seccomp.c, seccomp_uprobe_exception).
func endsSandboxed(release string) bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch)
	return major == 6 && (minor == 11 || minor == 13 || minor == 12 && patch < 20)
}

// handshakes is the Reader of tls.
type handshakes struct {
	*bpf.Handshakes
	counters counters
	search   probe.Processes
	looked   map[probe.FileKey]bool
	inUse    map[uint64]bool // inodes
	lost     reasons

	// mu guards refused, the reason why the hooks could not be attached again.
	mu      sync.Mutex
	refused error
}

// Attach implements probe.Governed.
func (r *handshakes) Attach() error {
	err := r.Handshakes.Attach()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = err
	return err
}

// Read implements probe.Reader.
func (r *handshakes) Read(ctx context.Context, emit func(metric.Sample)) error {
	r.find()
	err := r.counters.Read(ctx, emit)
	if rerr := r.Recycle(); err != nil { // only if the table is full does it matter that it stays so
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, r.problem())
}

func (r *handshakes) decode(c *counters, emit emitter) (folded uint64) {
	folded = r.Handshaken(func(process string, n uint64) {
		emit.send(tlsHandshakes, float64(n), c.label(process)...)
	})
	emit.send(retiredEvents, float64(r.Handshakes.Retired()), c.label("tls")...)
	return folded
}

// problem says what could not be hooked.
func (r *handshakes) problem() error {
	r.mu.Lock()
	refused := r.refused
	r.mu.Unlock()
	if refused != nil {
		return &probe.Problem{Err: fmt.Errorf("hook OpenSSL again after a pause for the budget: %w", refused),
			Remedy: "before Linux 6.6, attaching again needs CAP_SYS_ADMIN: start teescope with --privileges keep, or raise --budget so the source does not have to pause"}
	}
	if err := problem("hook OpenSSL", r.lost); err != nil {
		return &probe.Problem{Err: err, Remedy: "run as root; a replaced library is hooked after the process that uses the old library restarts"}
	}
	return nil
}

// find hooks the libraries that processes have mapped.
func (r *handshakes) find() {
	if !r.search.Host.IsLocal() {
		return
	}
	all := r.search.Begin()
	if all {
		r.looked, r.inUse = map[probe.FileKey]bool{}, map[uint64]bool{}
		clear(r.lost)
		r.usual()
	}
	complete, err := r.search.Each(r.process)
	if err != nil {
		r.lost[unhooked{file: "/proc/"}] = err.Error()
		return
	}
	if all && complete {
		// A file that no process uses now may soon be used by one, for a moment only.
		if err := r.Forget(func(x *bpf.Executable) bool { return x.Deleted() && !r.inUse[x.ID.Inode] }); err != nil {
			r.lost[unhooked{words: "hooks"}] = err.Error()
		}
	}
}

// usual hooks the libraries in packages' install paths: before Linux 6.6 none can be
// hooked once the initial privileges are dropped.
func (r *handshakes) usual() {
	for _, pattern := range []string{"/usr/lib/*/libssl.so.[0-9]*", "/usr/lib64/libssl.so.[0-9]*", "/usr/lib/libssl.so.[0-9]*"} {
		paths, _ := r.search.Host.Glob(pattern) // the patterns are well formed
		for _, p := range paths {
			x, err := bpf.OpenExecutable(r.search.Host, p, 0)
			if err == nil {
				err = r.hook(x)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.lost[unhooked{file: p}] = host.PublicText(err)
			}
		}
	}
}

// process hooks the libraries that a process has mapped. A process that has ended does
// not matter.
func (r *handshakes) process(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	mapped, err := probe.Mapped(r.search.Host, pid)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			r.lost[unhooked{words: "memory maps of other users' processes"}] = err.Error()
		}
		return
	}
	for _, m := range mapped {
		if m.Inode == 0 || !m.Exec {
			continue
		}
		if ok, _ := path.Match("libssl.so*", path.Base(m.Path)); !ok {
			continue
		}
		r.inUse[m.Inode] = true
		if r.looked[m.FileKey] {
			continue
		}
		r.looked[m.FileKey] = true
		x, err := openMapped(r.search.Host, dir, m)
		if err == nil {
			err = r.hook(x)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			name, _ := r.search.Host.ReadString(dir + "/comm")
			r.lost[unhooked{"libssl of process " + metric.Label(cmp.Or(name, strconv.Itoa(pid))), m.Path}] = host.PublicText(err)
		}
	}
}

// hook hooks a library that is not hooked yet.
func (r *handshakes) hook(x *bpf.Executable) error {
	have, files := r.Hooked(x.ID)
	if have {
		return x.Close()
	}
	if files >= mostFiles {
		return errors.Join(fmt.Errorf("%d files are hooked already", files), x.Close())
	}
	functions, _, err := x.Functions([]string{bpf.HandshakeFunction})
	offset, ok := functions[bpf.HandshakeFunction]
	if err == nil && !ok {
		err = errors.New("no function " + bpf.HandshakeFunction)
	}
	if err != nil {
		return errors.Join(err, x.Close())
	}
	return r.Hook(x, offset)
}
