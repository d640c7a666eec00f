package sources

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
)

func TestSteady(t *testing.T) {
	last := procfs.CPUStat{User: 10, Idle: 100, Iowait: 5, Steal: 2}
	for name, c := range map[string]struct{ now, want procfs.CPUStat }{
		"forward":    {procfs.CPUStat{User: 11, Idle: 101, Iowait: 5, Steal: 2}, procfs.CPUStat{User: 11, Idle: 101, Iowait: 5, Steal: 2}},
		"jitter":     {procfs.CPUStat{User: 11, Idle: 99.5, Iowait: 4.9, Steal: 1.9}, procfs.CPUStat{User: 11, Idle: 100, Iowait: 5, Steal: 2}},
		"hot-plug":   {procfs.CPUStat{User: 0.1, Idle: 0.2}, procfs.CPUStat{User: 0.1, Idle: 0.2}},
		"just there": {procfs.CPUStat{User: 10, Idle: 97}, procfs.CPUStat{User: 10, Idle: 97}},
	} {
		if got := steady(last, c.now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLateAnswer: an available answer counts even when the patience is over.
func TestLateAnswer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := &mounts{pending: map[string]chan statfsResult{}}
	for range 100 {
		q := question{mount: &procfs.MountInfo{MountPoint: "/"}, result: make(chan statfsResult, 1)}
		q.result <- statfsResult{stat: unix.Statfs_t{Blocks: 7}}
		if st, err := m.answer(ctx, q); err != nil || st.Blocks != 7 {
			t.Fatalf("%d blocks, error %v", st.Blocks, err)
		}
	}
}

// TestStuckMount lets one statfs hang, as when an NFS server is away: the others are read, the
// hanging one is named, is not asked twice, and comes back. The bubble's clock makes the others
// answer in no time, however busy the machine.
func TestStuckMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosttest.Open(t, "testdata/filesystem.txtar").Host
		inner, release, asked := h.Statfs, make(chan struct{}), make(chan string, 10)
		h.Statfs = func(name string) (unix.Statfs_t, error) {
			if name == "/run" {
				asked <- name
				<-release
			}
			return inner(name)
		}
		m := &mounts{host: h, pending: map[string]chan statfsResult{}, patience: 20 * time.Millisecond}
		round := func() (sizes, failures map[string]bool, err error) {
			sizes, failures = map[string]bool{}, map[string]bool{}
			err = m.read(t.Context(), func(s metric.Sample) {
				switch {
				case s.Desc == fsSize:
					sizes[s.Labels[1]] = true
				case s.Desc == fsError && s.Value == 1:
					failures[s.Labels[1]] = true
				}
			})
			return sizes, failures, err
		}
		for range 2 {
			sizes, failures, err := round()
			if !sizes["/"] || !sizes["/mnt/with space"] || sizes["/run"] || !failures["/run"] || len(failures) != 1 {
				t.Errorf("sizes %v, failures %v", sizes, failures)
			}
			if err == nil || !strings.Contains(err.Error(), "/run") {
				t.Errorf("error %v", err)
			}
		}
		if len(asked) != 1 {
			t.Errorf("asked %d times while it hung", len(asked))
		}
		close(release)
		m.patience = time.Minute // longer than any test waits
		for len(m.pending) > 0 {
			if _, _, err := round(); err == nil {
				break
			}
		}
		if sizes, failures, err := round(); !sizes["/run"] || len(failures) != 0 || err != nil {
			t.Errorf("after it came back: sizes %v, failures %v, %v", sizes, failures, err)
		}
	})
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte("MemTotal:       16384000 kB\nHugePages_Total:      16\nActive(anon): 1 kB\n"))
	f.Add([]byte("MemFree:"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		err := parseMeminfo(b, func(name string, v float64) {
			n++
			sane(t, name, v)
		})
		if err == nil && n == 0 {
			t.Error("no field and no error")
		}
	})
}

func FuzzFlat(f *testing.F) {
	f.Add([]byte("usage_usec 1\nuser_usec 2\n"))
	f.Add([]byte("usage_usec"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := pickFlat(b, []string{"usage_usec", "user_usec"})
		for _, x := range v {
			sane(t, "value", x)
		}
		if err == nil && !strings.Contains(string(b), "user_usec ") {
			t.Error("a field out of nothing")
		}
	})
}

func FuzzNetstat(f *testing.F) {
	f.Add([]byte("Tcp: MaxConn InSegs\nTcp: -1 5\n"))
	f.Add([]byte("Ip: A"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parseNetstat(b, func(name string, v float64) {
			if !strings.Contains(name, "_") || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", name, v)
			}
		})
	})
}

func FuzzSockstat(f *testing.F) {
	f.Add([]byte("sockets: used 240\nTCP: inuse 27 mem 3\n"))
	f.Add([]byte("TCP: inuse"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parseSockstat(b, func(name string, v float64) { sane(t, name, v) })
	})
}

func sane(t *testing.T, name string, v float64) {
	t.Helper()
	if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		t.Errorf("%s is %v", name, v)
	}
}
