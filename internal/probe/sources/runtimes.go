package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// enclaveRuntime is the untrusted part of an enclave runtime: its files, and the
// functions that enter and leave an enclave.
type enclaveRuntime struct {
	name, title string // title is for messages
	// hidden says why no transition can be hooked; "" if some can.
	hidden string
	// files are patterns for the last parts of a file's path, usual those for paths
	// that are searched even if no process uses them.
	files, usual []string
	// linked: it is part of the programs that use it, which have any name. They are
	// recognized by the SGX device that they map.
	linked    bool
	functions []runtimeFunction
}

// names are all names of its functions.
func (r enclaveRuntime) names() (out []string) {
	for _, f := range r.functions {
		out = append(out, f.names...)
	}
	return out
}

// runtimeFunction is a function with all the names that it has had.
type runtimeFunction struct {
	names      []string
	transition bpf.Transition
	mode       bpf.Mode
}

// Sources: urts.lds and enter_enclave.S of the Intel SDK, host_entry.S of Gramine,
// host/sgx/calls.c of Open Enclave, occlum_pal_api.h of Occlum. The labels at which
// enclaves return from an asynchronous exit are bare ENCLU instructions in all except
// Gramine, and must not be hooked. EGo's host program is Edgeless RT's erthost under
// another name (CMakeLists.txt of EGo).
var enclaveRuntimes = []enclaveRuntime{
	{
		name:  "intel_sgx_sdk",
		title: "Intel SGX SDK",
		files: []string{"libsgx_urts.so*", "libsgx_urts_sim.so*"},
		usual: []string{"/usr/lib/x86_64-linux-gnu/libsgx_urts.so*", "/usr/lib64/libsgx_urts.so*", "/opt/intel/sgxsdk/*/libsgx_urts_sim.so*"},
		functions: []runtimeFunction{
			{[]string{"sgx_ecall"}, bpf.Entry, bpf.Marked},
			{[]string{"sgx_ocall"}, bpf.Exit, bpf.Marked},
		},
	},
	{
		// Not "gramine": that is the name of Gramine's own statistics, which count
		// instructions rather than calls.
		name:  gramineLoader,
		title: "Gramine",
		files: []string{"gramine/sgx/loader"},
		usual: []string{"/usr/lib/x86_64-linux-gnu/gramine/sgx/loader", "/usr/lib64/gramine/sgx/loader",
			"/usr/local/lib/x86_64-linux-gnu/gramine/sgx/loader", "/usr/local/lib64/gramine/sgx/loader"},
		functions: []runtimeFunction{
			{[]string{"sgx_ecall"}, bpf.Entry, 0},
			{[]string{"sgx_raise"}, bpf.Entry, 0},
			{[]string{"async_exit_pointer"}, bpf.AsyncExit, 0},
			{[]string{"dump_and_reset_stats", "maybe_dump_and_reset_stats"}, bpf.Either, 0},
		},
	},
	{
		// Takes precedence over the SDK, whose library counts for it in processes that
		// called this one.
		name:  "occlum",
		title: "Occlum",
		files: []string{"libocclum-pal.so*", "libocclum-pal_sim.so*"},
		usual: []string{"/opt/occlum/build/lib/libocclum-pal*.so*"},
		functions: []runtimeFunction{
			{[]string{"occlum_pal_init"}, bpf.Entry, bpf.Mark},
			{[]string{"occlum_pal_create_process"}, bpf.Entry, bpf.Mark},
			{[]string{"occlum_pal_exec"}, bpf.Entry, bpf.Mark},
		},
	},
	{
		name:      "ego",
		title:     "EGo",
		files:     []string{"ego-host", "erthost"},
		usual:     []string{"/opt/ego/bin/ego-host", "/snap/ego-dev/current/opt/ego/bin/ego-host", "/opt/edgelessrt/bin/erthost"},
		functions: openEnclaveFunctions,
	},
	{
		name:      "open_enclave",
		title:     "Open Enclave",
		linked:    true,
		functions: openEnclaveFunctions,
	},
	{
		// The loader and C library of dynamically linked programs. Of those that are
		// linked statically only the device shows.
		name:   "scone",
		title:  "SCONE",
		hidden: "no transition can be hooked: it is stripped, and threads outside the enclave make its system calls",
		files:  []string{"ld-scone-x86_64.so*", "libc.scone-x86_64.so*"},
	},
}

const gramineLoader = "gramine_loader"

var openEnclaveFunctions = []runtimeFunction{
	{[]string{"oe_ecall"}, bpf.Entry, 0},
	{[]string{"__oe_dispatch_ocall"}, bpf.Exit, bpf.IfOCall},
}

var runtimes = probe.Source{
	Name:    "runtimes",
	Doc:     "Entries into and exits from unmodified enclaves, from uprobes on the untrusted runtimes of the Intel SGX SDK, Gramine, Occlum, Open Enclave and EGo",
	Metrics: []*metric.Desc{enclaveEntries, enclaveExits, enclaveAsyncExits, retiredEvents},
	Waits:   &probe.Waits{For: "an enclave or its runtime runs", Maps: enclaveOrRuntime},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the program that counts"},
		{Capability: "cap_perfmon", For: "to attach uprobes"},
		{Capability: "cap_sys_ptrace", For: "to find runtimes in the memory maps of other users' processes", Optional: true},
		{Capability: "cap_dac_read_search", For: "to read the symbols of files that only their owners may read", Optional: true},
		{Capability: "cap_sys_admin", For: "to hook files that were deleted or replaced while a process still uses them, through /proc/PID/map_files", Optional: true},
	},
	Kernels: "Linux 5.15 with CONFIG_UPROBE_EVENTS and BTF; from 6.6 on, one link for all functions of a file (uprobe.multi); before that, one link for each function.",
	Cost:    "A trap for each call: 9 to 18 µs on the development VM (Linux 6.18, self-test of 4,800 calls), and probably about a microsecond on bare metal. The source measures it when it is switched on; the budget and teescope_source_cpu_seconds_total use that value. To find runtimes, teescope reads the memory map of each new process twice, and of all processes once a minute.",
	Blind: "Only calls are counted: entries are calls by the host (ECALL) and exits are calls by the enclave (OCALL). The returns from these calls, an EEXIT or EENTER, are not counted. Asynchronous exits are visible in Gramine only; in other runtimes the enclave returns to a single ENCLU instruction, which must not be hooked. Switchless calls make no transition and are not counted. Switchless ECALLs that fall back to a transition are not counted either. " +
		"Exits of a stripped Intel SDK library are counted on the functions of the OCALL table, from the round after the first ECALL. " +
		"Not seen: SCONE and other runtimes without symbols (the source names them while they run); transitions before the source has switched itself on, which takes up to ten seconds, or a minute if a process loads the runtime late; enclaves entered through the vDSO by unknown programs, Open Enclave in simulation.",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if runtime.GOARCH != "amd64" {
			return nil, probe.NotHere("SGX enclaves on %s", runtime.GOARCH)
		}
		u, err := bpf.OpenUprobes(h)
		if err != nil {
			return nil, err
		}
		r := &transitions{Uprobes: u, host: h, search: probe.Processes{Host: h}, lost: reasons{}, hidden: reasons{}, most: map[runtimeProcess]float64{}}
		r.find()
		return r, nil
	},
}

// Slows says why a source distorts a benchmark, "" if it does not.
func Slows(s *probe.Source) string {
	if s == &runtimes {
		return "its trap for each call would slow only the environment that has an enclave"
	}
	return ""
}

// transitions is the Reader of runtimes.
type transitions struct {
	*bpf.Uprobes
	host *host.Host
	// search finds new processes; looked are the files examined since the last full
	// search, and whether they belong to a runtime.
	search probe.Processes
	looked map[probe.FileKey]bool
	inUse  map[uint64]bool // inodes
	// lost is what could not be hooked and why, hidden what can never be.
	lost, hidden reasons
	// most are the exits of each process and runtime, retired the events of names that
	// no longer have series, folded those of names that never had one.
	most            map[runtimeProcess]float64
	retired, folded uint64
}

type runtimeProcess struct {
	name    string
	runtime int
}

// Read implements probe.Reader.
func (r *transitions) Read(_ context.Context, emit func(metric.Sample)) error {
	out := emitter(emit)
	r.find()
	missed, err := r.Missed()
	if err != nil {
		return err
	}
	folded := r.Transitions(func(name string, runtime int, n [4]uint64) {
		if runtime >= len(enclaveRuntimes) {
			return
		}
		label := enclaveRuntimes[runtime].name
		// A program for exits of both kinds counts after the one for asynchronous
		// exits, so the difference can be too small for a moment; a counter never
		// falls.
		exits := float64(n[bpf.Exit])
		if n[bpf.Either] > n[bpf.AsyncExit] {
			exits += float64(n[bpf.Either] - n[bpf.AsyncExit])
		}
		key := runtimeProcess{name, runtime}
		exits = max(exits, r.most[key])
		r.most[key] = exits
		for _, x := range []struct {
			desc *metric.Desc
			n    float64
		}{{enclaveEntries, float64(n[bpf.Entry])}, {enclaveExits, exits}, {enclaveAsyncExits, float64(n[bpf.AsyncExit])}} {
			if x.n > 0 {
				out.send(x.desc, x.n, name, label)
			}
		}
	})
	events, _ := r.Spent()
	out.send(retiredEvents, float64(r.Retired()), "runtimes")
	if r.Retired() != r.retired {
		clear(r.most)
		r.retired = r.Retired()
	}
	if len(r.lost)+len(r.hidden) == 0 && events+float64(missed) > 0 {
		out.send(probe.Coverage, events/(events+float64(missed)))
	}
	out.send(probe.Missed, float64(missed))
	out.send(probe.Folded, float64(folded))
	err = r.problem()
	more := folded > r.folded
	r.folded = folded
	if rerr := r.Recycle(); more { // only if the table is full does it matter that it stays so
		err = errors.Join(err, rerr, &probe.Problem{
			Err:    fmt.Errorf("the table of processes in the kernel is full: %d events of newer names are counted as %s; sums stay exact", folded, bpf.Other),
			Remedy: "names that are idle for some minutes are removed",
		})
	}
	return err
}

// problem says what could not be hooked.
func (r *transitions) problem() error {
	if len(r.lost)+len(r.hidden) == 0 {
		if _, files := r.Hooked(bpf.FileID{}); files == 0 && r.host.IsLocal() {
			return &probe.Problem{Err: errors.New("find the runtime of an enclave: none runs, and none is in the usual places"),
				Remedy: fmt.Sprintf("start the enclave; teescope looks for it in each round, and each of its calls will cost %s more", metric.Value(r.HitSeconds(), "seconds"))}
		}
		return nil
	}
	remedy := "install the runtime with its symbols (not stripped), and run as root"
	if len(r.lost) == 0 {
		remedy = "see the system calls of these processes instead (tee_syscalls_total)"
	}
	return &probe.Problem{Err: problem("hook the runtimes of enclaves", r.lost, r.hidden), Remedy: remedy}
}

// find hooks new files: those in the usual places, and those mapped by processes.
func (r *transitions) find() {
	if !r.host.IsLocal() {
		return
	}
	all := r.search.Begin()
	if all {
		r.looked, r.inUse = map[probe.FileKey]bool{}, map[uint64]bool{}
		clear(r.lost)
		clear(r.hidden)
		r.usual()
	}
	complete, err := r.search.Each(r.process)
	if err != nil {
		r.lost[unhooked{file: "/proc/"}] = err.Error()
		return
	}
	r.Tables(r.table)
	if all && complete {
		// Deleted files that no process uses any more.
		if err := r.Forget(func(x *bpf.Executable) bool { return x.Deleted() && !r.inUse[x.ID.Inode] }); err != nil {
			r.lost[unhooked{words: "hooks"}] = err.Error()
		}
	}
}

// usual hooks the files where packages install them.
func (r *transitions) usual() {
	for i, rt := range enclaveRuntimes {
		for _, pattern := range rt.usual {
			paths, _ := r.host.Glob(pattern) // the patterns are well formed
			for _, p := range paths {
				if x, err := bpf.OpenExecutable(r.host, p, 0); err == nil {
					r.hook(x, i, unhooked{rt.title, p})
				} else if !errors.Is(err, fs.ErrNotExist) {
					r.lost[unhooked{rt.title, p}] = host.PublicText(err)
				}
			}
		}
	}
}

// process hooks the runtimes that a process has mapped. A process that has ended does
// not matter.
func (r *transitions) process(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := readMaps(r.host, dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			r.lost[unhooked{words: "memory maps of other users' processes"}] = err.Error()
		}
		return
	}
	mapped := probe.ParseMappings(b)
	enclave := slices.ContainsFunc(mapped, func(m probe.Mapping) bool { return enclaveDevice(m.Path) })
	found := false
	name := sync.OnceValue(func() string {
		name, _ := r.host.ReadString(dir + "/comm")
		return metric.Label(cmp.Or(name, strconv.Itoa(pid)))
	})
	for _, m := range mapped {
		if m.Inode == 0 || !m.Exec {
			continue
		}
		r.inUse[m.Inode] = true
		i := runtimeOf(m.Path, enclave)
		if i < 0 {
			continue
		}
		if rt := enclaveRuntimes[i]; rt.hidden != "" {
			r.hidden[unhooked{words: rt.title + " of process " + name()}] = rt.hidden
			found = true
			continue
		}
		one, known := r.looked[m.FileKey]
		if !known {
			x, err := openMapped(r.host, dir, m)
			if err == nil {
				one = r.hook(x, i, unhooked{enclaveRuntimes[i].title + " of process " + name(), m.Path})
			} else if !errors.Is(err, fs.ErrNotExist) {
				r.lost[unhooked{enclaveRuntimes[i].title + " of process " + name(), m.Path}] = host.PublicText(err)
			}
			r.looked[m.FileKey] = one
		}
		found = found || one
	}
	if enclave && !found {
		r.lost[unhooked{words: "process " + name()}] = "it has enclaves, but no known runtime with symbols (statically linked SCONE programs have none)"
	}
}

// hook hooks the functions of a runtime in a file, and reports whether the file belongs
// to the runtime. what names both in messages.
func (r *transitions) hook(x *bpf.Executable, runtime int, what unhooked) bool {
	have, files := r.Hooked(x.ID)
	if have || files >= mostFiles {
		if !have {
			r.lost[what] = fmt.Sprintf("%d files are hooked already", files)
		}
		_ = x.Close()
		return have
	}
	rt := enclaveRuntimes[runtime]
	functions, stripped, err := x.Functions(rt.names())
	if err != nil && !rt.linked {
		r.lost[what] = err.Error()
	}
	places, lacking := placesOf(x, runtime, functions)
	if err != nil || len(places) == 0 || rt.linked && len(places) < len(rt.functions) && !stripped {
		if err == nil && !rt.linked {
			r.lost[what] = missingFunctions(lacking, stripped)
		}
		_ = x.Close()
		return false
	}
	if len(lacking) > 0 {
		r.lost[what] = missingFunctions(lacking, stripped)
	}
	if err := r.Hook(x, places); err != nil {
		r.lost[what] = err.Error()
	}
	return true
}

func missingFunctions(functions []string, stripped bool) string {
	text := "no function " + strings.Join(functions, ", ")
	if stripped {
		text += ": the file is stripped"
	}
	return text
}

// placesOf finds a runtime's functions among those of a file, and names the missing
// ones.
func placesOf(x *bpf.Executable, runtime int, functions map[string]uint64) (places []bpf.Place, lacking []string) {
	async := false
	for _, f := range enclaveRuntimes[runtime].functions {
		offset, ok := uint64(0), false
		for _, name := range f.names {
			if at, defined := functions[name]; defined && !ok {
				offset, ok = x.Place(at)
			}
		}
		if f.transition == bpf.Either && !async {
			ok = false // the exits could not be distinguished
		}
		switch {
		case ok:
			async = async || f.transition == bpf.AsyncExit
			places = append(places, bpf.Place{Offset: offset, Runtime: runtime, Transition: f.transition, Mode: f.mode})
		case f.transition == bpf.Exit && f.mode&bpf.Marked != 0 && len(places) > 0:
			// The SDK's hidden function; the OCALL table leads to the same calls.
			places[0].Mode |= bpf.NoteTable
		default:
			lacking = append(lacking, f.names[0])
		}
	}
	return places, lacking
}

// table hooks the functions of an OCALL table as exits.
func (r *transitions) table(pid int, functions []uint64) {
	// The kernel's process ids are those of the first PID namespace.
	if self, err := r.host.Readlink("/proc/self"); err != nil || self != strconv.Itoa(r.PID()) {
		r.lost[unhooked{words: "OCALL tables"}] = "/proc is of another PID namespace, so the processes cannot be found"
		return
	}
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := readMaps(r.host, dir)
	if err != nil {
		return // it has ended
	}
	places := map[probe.Mapping][]bpf.Place{}
	for _, m := range probe.ParseMappings(b) {
		for _, at := range functions {
			if m.Exec && m.Inode != 0 && m.Start <= at && at < m.End {
				places[m] = append(places[m], bpf.Place{Offset: at - m.Start + m.Offset, Transition: bpf.Exit, Mode: bpf.Marked})
			}
		}
	}
	for m, p := range places {
		x, err := openMapped(r.host, dir, m)
		if err != nil {
			continue
		}
		safe := slices.DeleteFunc(p, func(p bpf.Place) bool { at, ok := x.Place(p.Offset); return !ok || at != p.Offset })
		r.inUse[x.ID.Inode] = true
		if err := r.Hook(x, safe); err != nil {
			r.lost[unhooked{words: "OCALL tables", file: m.Path}] = host.PublicText(err)
		}
	}
}

// enclaveOrRuntime returns the first file that shows an enclave or a known runtime of
// enclaves, or "".
func enclaveOrRuntime(files []string) string {
	for _, shows := range []func(string) bool{enclaveDevice, func(f string) bool { return runtimeOf(f, false) >= 0 }} {
		if i := slices.IndexFunc(files, shows); i >= 0 {
			return files[i]
		}
	}
	return ""
}

// runtimeOf is the index of the runtime that a file may belong to, or -1. A process
// with enclaves may have a runtime in any file.
func runtimeOf(file string, enclave bool) int {
	parts := strings.Split(file, "/")
	for i, rt := range enclaveRuntimes {
		for _, pattern := range rt.files {
			n := strings.Count(pattern, "/") + 1
			if n > len(parts) {
				continue
			}
			if ok, _ := path.Match(pattern, strings.Join(parts[len(parts)-n:], "/")); ok {
				return i
			}
		}
	}
	if enclave {
		return slices.IndexFunc(enclaveRuntimes, func(rt enclaveRuntime) bool { return rt.linked })
	}
	return -1
}

// enclaveDevice reports whether a file is a driver's device, which containers may have
// in other folders: /dev/sgx_enclave, /dev/sgx/enclave, /dev/sgx, /dev/isgx.
func enclaveDevice(file string) bool {
	switch path.Base(file) {
	case "sgx_enclave", "isgx":
		return true
	case "enclave":
		return path.Base(path.Dir(file)) == "sgx"
	}
	return file == "/dev/sgx"
}
