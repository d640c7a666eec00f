package sources

import (
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
)

func TestWrapping(t *testing.T) {
	const top = 1<<32 - 1
	for name, c := range map[string]struct {
		readings []uint32
		want     []uint64
	}{
		"forward":     {[]uint32{0, 5, 5, 9}, []uint64{0, 5, 5, 9}},
		"wrap":        {[]uint32{top - 10, 5, 6}, []uint64{top - 10, 1<<32 + 5, 1<<32 + 6}},
		"wrap twice":  {[]uint32{top, 1, 2e9, top, 3}, []uint64{top, 1<<32 + 1, 1<<32 + 2e9, 1<<32 + top, 2<<32 + 3}},
		"reload":      {[]uint32{1e9, 7, 8}, []uint64{1e9, 7, 8}},
		"late reload": {[]uint32{top, 1, 1e9, 2}, []uint64{top, 1<<32 + 1, 1<<32 + 1e9, 2}},
		"race":        {[]uint32{1000, 990, 1001}, []uint64{1000, 1000, 1001}},
	} {
		var w wrapping
		for i, v := range c.readings {
			if got := w.add(v); got != c.want[i] {
				t.Errorf("%s: reading %d of %d: %d, want %d", name, i, v, got, c.want[i])
			}
		}
	}
}

// TestLegacyWraps reads twice, with a counter that wrapped in between.
func TestLegacyWraps(t *testing.T) {
	f := hosttest.Open(t, "testdata/sgx_legacy.txtar")
	r, err := sgxLegacy.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	marked := func() (v float64) {
		if err := r.Read(t.Context(), func(s metric.Sample) {
			if s.Desc.Name == "tee_sgx_epc_pages_marked_old_total" {
				v = s.Value
			}
		}); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := marked()
	if err := f.Host.WriteFile("/sys/module/isgx/parameters/sgx_nr_marked_old", []byte("100\n")); err != nil {
		t.Fatal(err)
	}
	if after := marked(); before != 4e9 || after != 1<<32+100 {
		t.Errorf("%v, then %v", before, after)
	}
}

func FuzzParam(f *testing.F) {
	f.Add([]byte("24064\n"))
	f.Add([]byte("4294967296\n"))
	f.Add([]byte("N\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseParam("p", b); err == nil && strings.TrimLeft(strings.TrimSpace(string(b)), "0") != strings.TrimLeft(strconv.FormatUint(uint64(v), 10), "0") {
			t.Errorf("%q read as %d", b, v)
		}
	})
}

func FuzzThread(f *testing.F) {
	f.Add("77 (ksgxd) S 2 0 0")
	f.Add("500 (ksgxd) S 1 500")
	f.Add("3 (x (ksgxd) ) S 2 0")
	f.Fuzz(func(t *testing.T, s string) {
		if pid, ok := parseThread(s, "ksgxd"); ok && (pid <= 0 || !strings.Contains(s, "(ksgxd)")) {
			t.Errorf("%q read as process %d", s, pid)
		}
	})
}
