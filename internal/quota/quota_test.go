package quota_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/quota"
)

func TestReserve(t *testing.T) {
	s := quota.NewShare("answers", 100<<10)
	first, err := s.Reserve(60 << 10)
	if err != nil || s.UsedBytes() != 60<<10 {
		t.Fatal(s.UsedBytes(), err)
	}
	var full *quota.Exceeded
	if _, err := s.Reserve(41 << 10); !errors.As(err, &full) || !full.Busy() || full.Status() != 503 ||
		err.Error() != "this needs about 41 KiB of memory; other answers have 60 KiB of the 100 KiB that all may have: try again later" {
		t.Errorf("beyond what is left: %v", err)
	}
	if _, err := s.Reserve(101 << 10); !errors.As(err, &full) || full.Busy() || full.Status() != 422 ||
		err.Error() != "this needs about 101 KiB of memory; all answers together may have 100 KiB" {
		t.Errorf("beyond the share: %v", err)
	}
	first()
	first() // a second release gives nothing back
	all, err := s.Reserve(100 << 10)
	if err != nil || s.UsedBytes() != 100<<10 {
		t.Fatal(s.UsedBytes(), err)
	}
	if _, err := s.Reserve(1); err == nil {
		t.Error("more than all")
	}
	all()
	var none *quota.Share
	if release, err := none.Reserve(1 << 60); err != nil || release == nil {
		t.Errorf("no share: %v", err)
	}
}

func TestWait(t *testing.T) {
	s := quota.NewShare("queries", 100)
	first, err := s.Wait(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Wait(ended, 30); !errors.Is(err, context.Canceled) {
		t.Errorf("its context has ended: %v", err)
	}
	if _, err := s.Wait(t.Context(), 101); !errors.As(err, new(*quota.Exceeded)) { // it would never come
		t.Errorf("more than the share: %v", err)
	}
	got := make(chan error)
	go func() {
		release, err := s.Wait(t.Context(), 30)
		if err == nil {
			release()
		}
		got <- err
	}()
	first()
	if err := <-got; err != nil || s.UsedBytes() != 0 {
		t.Error(s.UsedBytes(), err)
	}
}

// TestBody: a body takes memory as it arrives, and gives it back when it is closed.
func TestBody(t *testing.T) {
	s := quota.NewShare("requests", 50<<10)
	b := s.Body(io.NopCloser(bytes.NewReader(make([]byte, 5<<10))))
	if n, err := io.Copy(io.Discard, b); n != 5<<10 || err != nil {
		t.Fatal(n, err)
	}
	held := s.UsedBytes()
	if held < 5<<10 || held > 40<<10 {
		t.Errorf("%d bytes are reserved for 5 KiB", held)
	}
	other := s.Body(io.NopCloser(bytes.NewReader(make([]byte, 100<<10))))
	if n, err := io.Copy(io.Discard, other); !errors.As(err, new(*quota.Exceeded)) || n == 0 || n > 20<<10 {
		t.Errorf("%d bytes of a body that does not fit: %v", n, err)
	}
	for _, b := range []io.Closer{b, other, b} {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s.UsedBytes() != 0 {
		t.Errorf("%d bytes are still reserved", s.UsedBytes())
	}
}

// TestFind: the least limit counts, of both versions of control groups and of all groups above.
func TestFind(t *testing.T) {
	const (
		v1 = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		v2 = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for name, c := range map[string]struct {
		mounts, groups string
		files          map[string]string
		want           int64
		from           string
	}{
		"v2": {v2, "0::/a/b\n", map[string]string{"/sys/fs/cgroup/a/b/memory.max": "268435456\n"}, 256 << 20, "control group"},
		"v2, a group above": {v2, "0::/a/b\n", map[string]string{"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "134217728\n"},
			128 << 20, "control group"},
		"v2, throttled": {v2, "0::/a\n", map[string]string{"/sys/fs/cgroup/a/memory.max": "268435456\n", "/sys/fs/cgroup/a/memory.high": "201326592\n"}, 192 << 20, "control group"},
		"v1": {v1, "5:memory:/x\n", map[string]string{"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "268435456\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
			256 << 20, "control group"},
		"both": {v1 + v2, "5:memory:/x\n0::/y\n", map[string]string{"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "536870912\n", "/sys/fs/cgroup/y/memory.max": "268435456\n"},
			256 << 20, "control group"},
		"no limit":              {v2, "0::/a\n", map[string]string{"/sys/fs/cgroup/a/memory.max": "max\n"}, 512 << 20, "half"},
		"more than the machine": {v2, "0::/a\n", map[string]string{"/sys/fs/cgroup/a/memory.max": "4294967296\n"}, 512 << 20, "half"},
		"no control groups":     {"", "", nil, 512 << 20, "half"},
		"nonsense":              {v2, "0::/a\n", map[string]string{"/sys/fs/cgroup/a/memory.max": "-17\n"}, 512 << 20, "half"},
		"nothing":               {"", "", map[string]string{"/proc/meminfo": ""}, 2 << 30, "guess"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host.At(t.TempDir())
			files := map[string]string{"/proc/self/cgroup": c.groups, "/proc/self/mountinfo": c.mounts, "/proc/meminfo": "MemTotal: 1048576 kB\n"}
			for file, text := range c.files {
				files[file] = text
			}
			for file, text := range files {
				if err := h.Install(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, from := quota.Find(h); got != c.want || !strings.Contains(from, c.from) {
				t.Errorf("%s: %d from %s, want %d from %s", name, got, from, c.want, c.from)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	b := quota.New(256<<20, "a test")
	sum := int64(0)
	for _, s := range []*quota.Share{b.Queries, b.Answers, b.Requests, b.Results} {
		sum += s.Limit
	}
	if sum+int64(b.Series)*2900 > 220<<20 { // the rest is the monitor's own
		t.Errorf("the shares have %d MiB of 256, and series %d MiB", sum>>20, b.Series*2900>>20)
	}
	if _, err := b.Requests.Reserve(1 << 40); err == nil {
		t.Fatal("a terabyte was taken")
	}
	got := map[string]float64{}
	b.Collect(func(s metric.Sample) { got[s.Desc.Name+strings.Join(s.Labels, ",")] = s.Value })
	for name, want := range map[string]float64{"teescope_memory_limit_bytes": 256 << 20, "teescope_memory_refused_totalrequests": 1, "teescope_memory_refused_totalqueries": 0, "teescope_memory_share_used_bytesanswers": 0} {
		t.Run(name, func(t *testing.T) {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v, %v; want %v", name, v, ok, want)
			}
		})
	}
}

// TestReserveWithin: who does not fit tries again until there is room or its time is over, and meanwhile keeps out nobody who fits.
func TestReserveWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quota.NewShare("requests", 100)
		first, err := s.Reserve(60)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			release, err := s.ReserveWithin(t.Context(), 80, time.Second)
			if err == nil {
				release()
			}
			done <- err
		}()
		synctest.Wait()
		if small, err := s.Reserve(40); err != nil {
			t.Error(err)
		} else {
			small()
		}
		first()
		if err := <-done; err != nil || s.UsedBytes() != 0 {
			t.Errorf("%v, %d bytes are reserved", err, s.UsedBytes())
		}
		if _, err := s.Reserve(60); err != nil {
			t.Fatal(err)
		}
		began, full := time.Now(), new(quota.Exceeded)
		if _, err := s.ReserveWithin(t.Context(), 80, time.Second); !errors.As(err, &full) || !full.Busy() || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want that others have it after 1s", err, time.Since(began))
		}
		began = time.Now()
		if _, err := s.ReserveWithin(t.Context(), 101, time.Second); !errors.As(err, &full) || full.Busy() || time.Since(began) != 0 {
			t.Errorf("%v after %v, want that it is too much at once", err, time.Since(began))
		}
	})
}
