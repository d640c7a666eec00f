package locked

import (
	"sync"
	"testing"
)

// TestValue: changes by several goroutines are not lost; under the race detector
// it also fails where two of them are inside at once.
func TestValue(t *testing.T) {
	type counts struct{ even, odd int }
	c := New(counts{even: 1})
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			v := c.Lock()
			defer c.Unlock()
			if i%2 == 0 {
				v.even++
			} else {
				v.odd++
			}
		})
	}
	all.Wait()
	if got, want := *c.Lock(), (counts{501, 500}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c.TryLock() != nil {
		t.Error("locked twice")
	}
	c.Unlock()
	if c.TryLock() == nil {
		t.Error("not locked although it was free")
	}
}
