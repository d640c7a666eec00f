package load

import "testing"

// TestWindowsWiden: where the length of a stretch is not known before, windows become wider and no request is lost from
// them, whichever thread counted it.
func TestWindowsWiden(t *testing.T) {
	times := newHistogram()
	of := func(step, n int64) *record {
		r := newRecord()
		r.measure(counted(1))
		for i := range n {
			r.answer(request{}, i*step, false, times)
		}
		return r
	}
	total := newRecord()
	for _, part := range []*record{of(1e6, 10), of(1e7, 10_000), of(3e6, 100)} { // the second for 100 s
		total.merge(part)
	}
	sum := 0.0
	for _, n := range total.windows {
		sum += n
	}
	if sum != 10_110 || total.width != 1024e6 || len(total.windows) != 98 || total.last != 9999*1e7 {
		t.Errorf("%g requests in %d windows of %d ns, the last at %d", sum, len(total.windows), total.width, total.last)
	}
	if total.windows[1] != 102 { // from 1.024 to 2.048 s: every 10 ms
		t.Errorf("the second has %g", total.windows[1])
	}
	if total.complete(); len(total.windows) != 97 {
		t.Errorf("%d windows are complete", len(total.windows))
	}
}
