package sources

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
)

func TestSteady(t *testing.T) {
	times := func(user, idle, iowait, steal uint64) (c machine.CPUTimes) {
		c.Ticks = [len(machine.CPUModes)]uint64{0: user, 3: idle, 4: iowait, 7: steal}
		for i := range c.Known {
			c.Known[i] = true
		}
		return c
	}
	idleUnknown := times(1100, 0, 500, 200)
	idleUnknown.Known[3] = false
	still := idleUnknown
	still.Ticks[3] = 10000
	for name, c := range map[string]struct{ now, want machine.CPUTimes }{
		"forward":    {times(1100, 10100, 500, 200), times(1100, 10100, 500, 200)},
		"jitter":     {times(1100, 9950, 490, 190), times(1100, 10000, 500, 200)},
		"hot-plug":   {times(10, 20, 0, 0), times(10, 20, 0, 0)},
		"just there": {times(1000, 9700, 500, 200), times(1000, 9700, 500, 200)},
		"a bad cell": {idleUnknown, still},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steady(times(1000, 10000, 500, 200), c.now); got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		})
	}
}

// TestLateAnswer: an available answer counts even when the patience is over.
func TestLateAnswer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := &mounts{pending: map[string]chan statfsResult{}}
	for range 100 {
		q := &question{mounts: []machine.Mount{{Point: "/"}}, result: make(chan statfsResult, 1)}
		q.result <- statfsResult{fs: host.Filesystem{Device: "8:1"}}
		if r, err := m.answer(ctx, q); err != nil || r.fs.Device != "8:1" {
			t.Fatalf("device %q, error %v", r.fs.Device, err)
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
		h.Statfs = func(name string) (host.Filesystem, error) {
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

// TestMountedTwice: what is mounted twice on a path is shown once, as the upper mount has it. What another hides is not.
func TestMountedTwice(t *testing.T) {
	const nfs, other = "50 22 0:60 / /mnt/nfs rw - nfs4 nas:/share rw\n", "50 22 0:60 / /mnt/nfs rw - nfs4 old:/share rw\n"
	const again = "51 50 0:61 / /mnt/nfs ro - nfs4 nas:/share rw\n"
	const lower, upper = "50 22 0:62 / /mnt/memory rw - tmpfs tmpfs rw\n", "51 50 0:57 / /mnt/memory ro - tmpfs tmpfs rw\n"
	const over, top = "51 50 0:63 / /mnt/memory rw - overlay overlay rw\n", "52 51 0:57 / /mnt/memory ro - tmpfs tmpfs rw\n"
	const beside, first = "51 22 0:57 / /mnt/memory rw - tmpfs tmpfs rw\n", "22 22 8:1 / / rw - ext4 /dev/sda1 rw\n"
	for mounts, want := range map[string]string{
		nfs:                "shown rw ",
		nfs + again:        "shown ro ",
		again + nfs:        "shown ro ",
		other + again:      "shown ro ",
		lower + upper:      "shown ro ",
		upper + lower:      "shown ro ",
		lower + over + top: "shown ro ",
		lower + over:       "",
		beside + lower:     "shown hidden rw ",
		first:              "shown rw ",
	} {
		t.Run(mounts, func(t *testing.T) {
			f, got := hosttest.Open(t, "testdata/filesystem-view.txtar"), ""
			f.ReplaceDuring(t, "proc/1/mountinfo", []byte(mounts), func() {
				samples, _ := readOnce(t, &filesystem, f)
				for _, s := range samples {
					switch s.Desc {
					case fsError:
						got += map[float64]string{0: "shown ", 1: "hidden "}[s.Value]
					case fsReadonly:
						got += map[float64]string{0: "rw ", 1: "ro "}[s.Value]
					}
				}
			})
			if got != want {
				t.Errorf("%s: %q, want %q", mounts, got, want)
			}
		})
	}
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
		v, err := pickFlat("cpu.stat", b, []string{"usage_usec", "user_usec"})
		for _, x := range v {
			if !math.IsNaN(x) {
				sane(t, "value", x)
			} else if err == nil {
				t.Error("a field is missing, and no error")
			}
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
		_ = parseNetstat("netstat", b, func(name string, v float64) {
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
		_ = parseSockstat("sockstat", b, func(name string, v float64) { sane(t, name, v) })
	})
}

func sane(t *testing.T, name string, v float64) {
	t.Helper()
	if why := (&metric.Desc{Name: "x_total"}).Impossible(v); why != "" {
		t.Errorf("%s is %v, %s", name, v, why)
	}
}
