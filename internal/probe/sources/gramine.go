package sources

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var gramineSignals = counter("tee_sgx_gramine_signals_total",
	"Signals that Gramine delivered to enclaves, by the log's name: sync signals are the enclave's own exceptions, async signals come from outside. From Gramine's statistics (sgx.enable_stats).", "process", "kind")

// gramineFiles are the logs followed by default.
var gramineFiles = []string{"/var/log/gramine/*.log"}

// gramine reads the statistics that Gramine prints with sgx.enable_stats = true in the
// manifest: up to version 1.7 a block for each thread when it ends or, on SIGUSR1, for all
// threads, whose counters then start at zero. So the sum over the threads is right, and the
// blocks with process totals are not added to it. From 1.8 on there are only the totals.
var gramine = probe.Source{
	Name:    "gramine",
	Doc:     "Entries into and exits from Gramine's enclaves, from the statistics in its logs; process is the log's name",
	Metrics: []*metric.Desc{enclaveEntries, enclaveExits, enclaveAsyncExits, gramineSignals},
	Files:   &probe.Files{What: "Logs of Gramine", Default: gramineFiles},
	Waits:   &probe.Waits{For: "Gramine runs an enclave", Maps: gramineOf},
	Needs:   []probe.Need{{Capability: "cap_dac_read_search", For: "to read logs of other users", Optional: true}},
	Kernels: "any; Gramine with sgx.enable_stats = true and its error output in a log; from Gramine 1.8 on, also a debug build of Gramine and a debug enclave",
	Cost:    "reading what was appended to the logs; Gramine's own counting is always on",
	Blind:   "threads that have not ended (with newer versions of Gramine, send the process SIGUSR1 to count them now)",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return &gramineReader{host: h, files: gramineFiles, logs: map[string]*gramineLog{}, chunk: make([]byte, gramineChunk)}, nil
	},
}

// gramineOf returns Gramine's loader for SGX if a process maps it, or "".
func gramineOf(files []string) string {
	i := slices.IndexFunc(files, func(f string) bool {
		i := runtimeOf(f, false)
		return i >= 0 && enclaveRuntimes[i].name == gramineLoader
	})
	if i < 0 {
		return ""
	}
	return files[i]
}

// Limits of one reading: the rest of a log is read at the next one.
const (
	gramineFiled = 256 // files
	gramineLogs  = 32  // names of processes
	gramineChunk = 64 << 10
	gramineRound = 16 << 20
)

type gramineReader struct {
	host  *host.Host
	files []string
	logs  map[string]*gramineLog
	chunk []byte
}

// Follow sets which files are read, as patterns of path.Match; none means the default
// ones. Counts stay.
func (g *gramineReader) Follow(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("follow %s: %w", p, err)
		}
	}
	g.files = gramineFiles
	if len(patterns) > 0 {
		g.files = slices.Clone(patterns)
	}
	return nil
}

// Close implements probe.Reader.
func (g *gramineReader) Close() error { return nil }

// Read implements probe.Reader. Its errors name patterns, not the files that match them: everybody who reaches the page reads
// them.
func (g *gramineReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	found, first := host.Chosen.Find(ctx, g.host, g.files...)
	of := map[string]string{} // the pattern of each file
	for i, names := range found {
		for _, name := range names {
			if of[name] == "" {
				of[name] = g.files[i]
			}
		}
	}
	names := slices.Sorted(maps.Keys(of))
	if over := len(names) - gramineFiled; over > 0 {
		names = names[:gramineFiled]
		first = cmp.Or(first, fmt.Errorf("%d files match %s: the first %d are read", over+gramineFiled, g.patterns(), gramineFiled))
	}
	if len(names) == 0 && len(g.logs) == 0 && first == nil {
		first = &probe.Problem{Err: fmt.Errorf("no file matches %s", g.patterns()),
			Remedy: "set sgx.enable_stats = true in the manifest and send Gramine's error output to such a file"}
	}
	left := gramineRound
	for _, name := range names {
		n, err := g.follow(name, left)
		left -= n
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = &host.Private{Text: err.Error(), Shown: fmt.Sprintf("read a file that matches %s: %v", of[name], pe.Err), Err: err}
			if errors.Is(pe.Err, fs.ErrPermission) {
				err = &probe.Problem{Err: err, Remedy: "let teescope's user read the log, or run as root"}
			}
		}
		first = cmp.Or(first, err)
	}
	g.emit(emit)
	for _, name := range slices.Sorted(maps.Keys(g.logs)) {
		if l := g.logs[name]; l.bad != "" {
			first = cmp.Or(first, error(&host.Private{Text: fmt.Sprintf("parse %s: %.80q has no number: its counter is too low by that", name, l.bad),
				Shown: fmt.Sprintf("parse a file that matches %s: a counter has no number, and is too low by that", cmp.Or(of[name], g.patterns()))}))
		}
	}
	if first == nil && !slices.ContainsFunc(slices.Collect(maps.Values(g.logs)), func(l *gramineLog) bool { return l.counted() != nil }) {
		first = &probe.Problem{Err: &host.Private{Text: strings.Join(names, ", ") + ": no statistics of Gramine in there yet",
			Shown: fmt.Sprintf("no statistics of Gramine yet in the files that match %s", g.patterns())},
			Remedy: "set sgx.enable_stats = true in the manifest; from Gramine 1.8 on also build Gramine with --buildtype=debug and set sgx.debug = true; Gramine prints the statistics when the process ends or gets SIGUSR1"}
	}
	return first
}

func (g *gramineReader) patterns() string { return strings.Join(g.files, " or ") }

// follow reads a log's new data, up to that many bytes.
func (g *gramineReader) follow(name string, left int) (read int, err error) {
	f, st, err := g.host.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // rotated since the listing
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := g.logs[name]
	if l == nil {
		l = &gramineLog{}
		g.logs[name] = l
	}
	if l.offset > st.Size || l.inode != st.Ino {
		l.offset, l.inode, l.rest, l.missing = 0, st.Ino, nil, nil
	}
	for read < left {
		n, err := f.ReadAt(g.chunk[:min(len(g.chunk), left-read)], l.offset)
		read += n
		l.offset += int64(n)
		l.feed(g.chunk[:n])
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case err != nil:
			return read, err
		}
	}
	return read, nil
}

func (g *gramineReader) emit(out emitter) {
	sums := map[string]*gramineStats{}
	for _, name := range slices.Sorted(maps.Keys(g.logs)) {
		l := g.logs[name]
		counted := l.counted()
		if counted == nil {
			continue
		}
		process := strings.TrimSuffix(path.Base(name), path.Ext(name))
		if sums[process] == nil && len(sums) >= gramineLogs {
			process = bpf.Other
		}
		if sums[process] == nil {
			sums[process] = &gramineStats{}
		}
		for i, n := range counted {
			sums[process][i] += n
		}
	}
	for _, process := range slices.Sorted(maps.Keys(sums)) {
		s := sums[process]
		out.send(enclaveEntries, float64(s[0]), process, "gramine")
		out.send(enclaveExits, float64(s[1]), process, "gramine")
		out.send(enclaveAsyncExits, float64(s[2]), process, "gramine")
		out.send(gramineSignals, float64(s[3]), process, "sync")
		out.send(gramineSignals, float64(s[4]), process, "async")
	}
}

// gramineCounters are the lines of a block (pal/src/host/linux-sgx/host_thread.c).
var gramineCounters = [5]string{"# of EENTERs:", "# of EEXITs:", "# of AEXs:", "# of sync signals:", "# of async signals:"}

// gramineStats are their numbers.
type gramineStats [len(gramineCounters)]uint64

// gramineLog is a log and the position up to which it was read.
type gramineLog struct {
	offset int64
	inode  uint64
	rest   []byte // the start of an incomplete line
	// missing are the lines of the current block still to come, and into the sums that it
	// is added to.
	missing []string
	into    *gramineSums
	// threads and processes are the sums of the blocks of each.
	threads, processes gramineSums
	bad                string // the last line that should have a number and does not, or is not there
}

// gramineSums add up blocks.
type gramineSums struct {
	seen bool
	sum  gramineStats
}

// counted are the log's sums, or nil if it has none: those of threads where they are printed.
func (l *gramineLog) counted() *gramineStats {
	switch {
	case l.threads.seen:
		return &l.threads.sum
	case l.processes.seen:
		return &l.processes.sum
	}
	return nil
}

// gramineLine bounds a line; the start of a longer one is dropped.
const gramineLine = 4096

// feed takes the next part of the log. Other lines may appear inside a block, because
// the application writes to the same file.
func (l *gramineLog) feed(b []byte) {
	for len(b) > 0 {
		line, after, ended := bytes.Cut(b, []byte("\n"))
		l.rest = append(l.rest, line...)
		if over := len(l.rest) - gramineLine; over > 0 {
			l.rest = l.rest[:copy(l.rest, l.rest[over:])]
		}
		if !ended {
			return
		}
		l.line(string(l.rest))
		l.rest = l.rest[:0]
		b = after
	}
}

func (l *gramineLog) line(s string) {
	thread, process := strings.Contains(s, "----- SGX stats for thread "), strings.Contains(s, "----- Total SGX stats for process ")
	if thread || process {
		l.missing, l.into = gramineCounters[:], &l.threads
		if process {
			l.into = &l.processes
		}
		return
	}
	next := slices.IndexFunc(l.missing, func(counter string) bool { return strings.Contains(s, counter) })
	if next < 0 {
		return
	}
	if next > 0 {
		l.bad = l.missing[0]
	}
	l.missing = l.missing[next:]
	_, value, _ := strings.Cut(s, l.missing[0])
	// A counter of 53 bits is more than any machine counts; it keeps sums exact.
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 53)
	if err != nil { // the others are right
		n, l.bad = 0, s
	}
	l.into.sum[len(gramineCounters)-len(l.missing)] += n
	l.missing = l.missing[1:]
	l.into.seen = true
}
