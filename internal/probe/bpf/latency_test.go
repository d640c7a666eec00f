package bpf

import (
	"math"
	"math/bits"
	"testing"
)

// cellOf is hist_cell of common.h.
func cellOf(ns uint64) int {
	v := ns >> histLeastBits
	if v == 0 {
		return 0
	}
	b := bits.Len64(v) - 1
	if b >= histOctaves {
		return histOver
	}
	return 1 + b<<histSubBits + int(ns>>(b+histLeastBits-histSubBits)&(1<<histSubBits-1))
}

func TestLatency(t *testing.T) {
	for _, ns := range []uint64{0, 1, 255, 256, 257, 319, 320, 1023, 1024, 1025, 2047, 2048, 1e6, 268435455, 268435456, 17e9, 1 << 62} {
		var l Latency
		l.cells[cellOf(ns)]++
		l.cells[histSum] = ns
		s := float64(ns) / 1e9
		bucket := 0
		for bucket < len(LatencyBounds) && s >= LatencyBounds[bucket] {
			bucket++
		}
		got := l.Buckets()
		if got[bucket] != 1 {
			t.Errorf("%d ns is in none of bucket %d of %v", ns, bucket, got)
		}
		if ns >= 256 && ns < 17e9 {
			for _, q := range []float64{0, 0.5, 1} {
				if e := l.Quantile(q)/s - 1; math.Abs(e) > 0.125 {
					t.Errorf("quantile %g of %d ns is %g s, %.1f %% away", q, ns, l.Quantile(q), 100*e)
				}
			}
		}
		if l.Sum() != s || l.Count() != 1 {
			t.Errorf("%d ns: sum %g, count %d", ns, l.Sum(), l.Count())
		}
		later := l
		later.Sub(&l)
		if later.Count() != 0 || !math.IsNaN(later.Quantile(0.5)) {
			t.Errorf("nothing counted since, but %d with median %g", later.Count(), later.Quantile(0.5))
		}
	}
}
