package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

const device = "/dev/sgx_enclave"

var forDevice = &Waits{For: "an enclave runs", Maps: func(files []string) string {
	if slices.Contains(files, device) {
		return device
	}
	return ""
}}

// waiting is a machine whose processes come and go, with a source that waits.
type waiting struct {
	t    *testing.T
	root string
	now  time.Time
	host *host.Host
	fake fake
	e    *Engine
}

func newWaiting(t *testing.T) *waiting {
	w := &waiting{t: t, root: t.TempDir(), now: time.Unix(1000, 0), fake: fake{samples: []metric.Sample{{Desc: level, Value: 1}}}}
	w.host = host.At(w.root)
	w.host.Now = func() time.Time { return w.now }
	w.begin(1, "init", "/sbin/init")
	s := w.fake.source("x")
	s.Waits = forDevice
	w.e = Open(w.host, nil, []*Source{(&fake{}).source("first"), s}, nil)
	return w
}

// begin starts a process that maps a file.
func (w *waiting) begin(pid int, name, file string) {
	w.t.Helper()
	dir := filepath.Join(w.root, "proc", itoa(pid))
	maps := "55d0-55d1 r-xp 00000000 08:01 77    /usr/bin/" + name + "\n7f00-7f01 rw-p 00000000 00:00 0 \n7f02-7f03 rw-s 00000000 00:05 107  " + file + "\n"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/maps", []byte(maps), 0o600), os.WriteFile(dir+"/comm", []byte(name+"\n"), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *waiting) end(pid int) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.root, "proc", itoa(pid))); err != nil {
		w.t.Fatal(err)
	}
}

// after looks after a time, and compares the state.
func (w *waiting) after(d time.Duration, state State, seen string) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.e.FollowProcesses()
	w.is(state, seen)
}

func (w *waiting) is(state State, seen string) {
	w.t.Helper()
	w.e.Collect(w.t.Context())
	if s := w.status(); s.State != state || s.Seen != seen {
		w.t.Errorf("after %v: %s (%s), seen %q; want %s, seen %q", w.now.Sub(time.Unix(1000, 0)), s.State, s.Reason, s.Seen, state, seen)
	}
}

func (w *waiting) status() Status { return w.e.Status()[1] }

func (w *waiting) set(s Setting) {
	w.t.Helper()
	if err := w.e.Set("x", s); err != nil {
		w.t.Fatal(err)
	}
}

func itoa(n int) string { return string(rune('0' + n)) } // of one digit

const (
	yes  = "process app (4) maps /dev/sgx_enclave"
	gone = "process app (4) no longer maps /dev/sgx_enclave"
)

// TestWaits: a source is on while a process maps what it waits for, and a minute more.
func TestWaits(t *testing.T) {
	w := newWaiting(t)
	if s := w.status(); s.State != Off || s.Reason != "off until an enclave runs" || !s.Auto || w.fake.opened != 0 {
		t.Errorf("at first: %+v, opened %d times", s, w.fake.opened)
	}
	w.after(0, Off, "")
	w.begin(4, "app", device)
	w.after(lookEvery, Available, yes)
	w.after(lookEvery, Available, yes)
	w.end(4)
	w.after(lookEvery, Available, gone)
	w.after(linger-2*lookEvery, Available, gone)
	w.begin(4, "app", device) // it was restarted
	w.after(lookEvery, Available, yes)
	if w.fake.opened != 1 || w.fake.closed != 0 {
		t.Errorf("a restart opened the source %d times and closed it %d times", w.fake.opened, w.fake.closed)
	}
	w.end(4)
	w.after(linger-1, Available, gone)
	w.after(1, Off, "")
	if s := w.status(); s.Reason != "off until an enclave runs" || s.Series != 0 || w.fake.closed != 1 {
		t.Errorf("after the end: %+v, closed %d times", s, w.fake.closed)
	}
	w.begin(5, "tenant", device+" (deleted)")
	w.after(lookEvery, Available, "process tenant (5) maps /dev/sgx_enclave")
	w.begin(4, "app", "/usr/lib/libc.so.6")
	w.begin(5, "tenant", "/usr/lib/libc.so.6") // it executes another program
	w.after(lookEvery, Available, "process tenant (5) no longer maps /dev/sgx_enclave")
	w.begin(4, "app", device) // it opens an enclave late
	w.after(Everything, Available, yes)
	if w.fake.opened != 2 {
		t.Errorf("opened %d times", w.fake.opened)
	}
}

// TestWaitsForSettings: what a user says wins, until auto is set.
func TestWaitsForSettings(t *testing.T) {
	on, off := true, false
	w := newWaiting(t)
	w.set(Setting{On: &off})
	if s := w.status(); s.Reason != "switched off" || s.Auto {
		t.Errorf("switched off while it waits: %+v", s)
	}
	w.begin(4, "app", device)
	w.after(lookEvery, Off, yes)
	w.set(Setting{Auto: &on})
	if s := w.status(); s.Reason != "off until an enclave runs" {
		t.Errorf("auto again: %+v", s)
	}
	w.after(lookEvery, Available, yes)
	w.set(Setting{On: &off})
	w.after(lookEvery, Off, yes)
	w.set(Setting{On: &on})
	w.end(4)
	w.after(lookEvery, Available, gone)
	w.after(linger, Available, "")
	w.after(linger, Available, "")
	w.set(Setting{Auto: &on})
	w.after(lookEvery, Off, "")
	w.begin(4, "app", device)
	w.after(lookEvery, Available, yes)
	w.set(Setting{Auto: &off}) // as it is now
	w.end(4)
	w.after(2*linger, Available, "")
	plain := (&fake{}).source("plain")
	for want, s := range map[string]Setting{"does not wait for a process": {Auto: &on}, "one of them": {Auto: &on, On: &on}} {
		t.Run(want, func(t *testing.T) {
			source := w.status().Source
			if want == "does not wait for a process" {
				source = plain
			}
			if err := s.Check(source); err == nil || !strings.HasPrefix(err.Error(), "auto: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestWaitsAndFails: a source that fails to open says so, and is tried again when what
// it waits for comes back.
func TestWaitsAndFails(t *testing.T) {
	w := newWaiting(t)
	w.fake.openErr = errors.New("no uprobes")
	w.begin(4, "app", device)
	w.after(0, Unavailable, yes)
	w.after(lookEvery, Unavailable, yes)
	if w.fake.opened != 1 {
		t.Errorf("opened %d times", w.fake.opened)
	}
	w.end(4)
	w.after(linger, Off, "")
	w.fake.openErr = nil
	w.begin(4, "app", device)
	w.after(lookEvery, Available, yes)
	if err := w.e.Close(); err != nil {
		t.Error(err)
	}
}

// TestWaitsUnseen: processes that may not be looked at are no proof of absence.
func TestWaitsUnseen(t *testing.T) {
	w := newWaiting(t)
	w.begin(4, "app", device)
	w.host.Faults = map[string]error{"/proc/4/maps": unix.EACCES}
	w.after(0, Off, "")
	if s := w.status(); s.Reason != "off until an enclave runs (without CAP_SYS_PTRACE 1 of the processes cannot be inspected)" {
		t.Errorf("%q", s.Reason)
	}
	w.host.Faults = nil
	w.after(lookEvery, Available, yes)
	w.host.Faults = map[string]error{"/proc": unix.EIO}
	w.after(linger, Available, yes) // nothing is known, so nothing changes
	w.host.Faults = nil
	w.end(4)
	w.after(lookEvery, Off, "")
	w.host.Faults = map[string]error{"/proc": unix.EIO}
	w.after(lookEvery, Off, "")
	if s := w.status(); !strings.Contains(s.Reason, "off until an enclave runs (") || !strings.Contains(s.Reason, unix.EIO.Error()) {
		t.Errorf("%q", s.Reason)
	}
}

// TestWaitsForABlockedFile: a process that cannot be looked at delays nothing else, and
// the next look after it answered sees all.
func TestWaitsForABlockedFile(t *testing.T) {
	w := newWaiting(t)
	w.host.Now = time.Now
	w.begin(4, "app", device)
	fifo := filepath.Join(w.root, "proc/1/maps")
	if err := errors.Join(os.Remove(fifo), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.after(lookEvery, Off, "")
		if s := w.status(); !strings.Contains(s.Reason, "look") || !strings.Contains(s.Reason, "/proc/1/maps") {
			t.Errorf("%q", s.Reason)
		}
	}
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Remove(fifo), os.WriteFile(fifo, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the next look sees all", func() error {
		w.e.FollowProcesses()
		w.e.Collect(t.Context())
		if s := w.status(); s.State != Available || s.Seen != yes {
			return fmt.Errorf("%s (%s), seen %q", s.State, s.Reason, s.Seen)
		}
		return nil
	})
}

// TestTryWaits: doctor looks once.
func TestTryWaits(t *testing.T) {
	w := newWaiting(t)
	source := w.status().Source
	if s := Try(t.Context(), w.host, nil, []*Source{source}).Status()[0]; s.State != Off || w.fake.opened != 0 {
		t.Errorf("without an enclave: %+v", s)
	}
	w.begin(4, "app", device)
	if s := Try(t.Context(), w.host, nil, []*Source{source}).Status()[0]; s.State != Available || s.Seen != yes || s.Series != 1 || w.fake.opened != 1 || w.fake.closed != 1 {
		t.Errorf("with one: %+v, opened %d times, closed %d times", s, w.fake.opened, w.fake.closed)
	}
}

func TestParseMappings(t *testing.T) {
	got := ParseMappings([]byte("7f00-7f01 r-xp 00 08:01 5  /a b (deleted)\n1-2 rw-p 0 0:0 0\n3-4 rw-p 0 0:0 0 [stack]\n5-6 r 0 0:5 9 /not/of/this/form\n7-8 rw-s 10 0:5 9 /dev/sgx_enclave"))
	want := []Mapping{
		{FileKey: FileKey{"08:01", 5}, Start: 0x7f00, End: 0x7f01, Exec: true, Path: "/a b"},
		{FileKey: FileKey{"0:5", 9}, Start: 7, End: 8, Offset: 16, Write: true, Path: "/dev/sgx_enclave"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestMapped: the files of a process are read again when the size of its address space has changed,
// or it has ended.
func TestMapped(t *testing.T) {
	w := newWaiting(t)
	const first = "7f00-7f01 r--p 0 08:01 5 /lib/a\n7f01-7f02 r-xp 1 08:01 5 /lib/a\n7f02-7f03 r--p 2 08:01 6 /lib/b\n"
	put := func(size, maps string) {
		t.Helper()
		dir := filepath.Join(w.root, "proc/4")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/statm", []byte(size+" 1 1 1 0 1 0\n"), 0o600), os.WriteFile(dir+"/maps", []byte(maps), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, paths ...string) {
		t.Helper()
		files, err := Mapped(w.host, 4)
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		if err != nil || !slices.Equal(got, paths) {
			t.Fatalf("%s: %v, %v, want %v", what, got, err, paths)
		}
	}
	put("100", first)
	is("at first", "/lib/a", "/lib/b")
	if files, _ := Mapped(w.host, 4); !files[0].Exec || files[0].Start != 0x7f01 {
		t.Errorf("not the executable mapping: %+v", files[0])
	}
	put("100", "7f00-7f01 r-xp 0 08:01 7 /lib/c\n")
	is("the same size", "/lib/a", "/lib/b")
	put("101", "7f00-7f01 r-xp 0 08:01 7 /lib/c\n")
	is("another size", "/lib/c")
	put("101", first)
	p := Processes{Host: w.host}
	if err := os.RemoveAll(filepath.Join(w.root, "proc/4")); err != nil {
		t.Fatal(err)
	}
	p.Begin()
	if _, err := p.Each(func(int) {}); err != nil {
		t.Fatal(err)
	}
	put("101", first)
	is("another process of this id", "/lib/a", "/lib/b")
}
