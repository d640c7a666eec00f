package quota_test

import (
	"errors"
	"testing"

	"github.com/teescope/teescope/internal/quota"
)

// TestGrowing: a reservation grows within its share. What it refuses says whether others have the memory, or nobody could.
func TestGrowing(t *testing.T) {
	s := quota.NewShare("results", 100<<10)
	a, b := s.Growing(), s.Growing()
	for range 3 {
		if err := a.Add(20 << 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(30 << 10); err != nil || s.UsedBytes() != 90<<10 {
		t.Fatal(s.UsedBytes(), err)
	}
	var full *quota.Exceeded
	if err := b.Add(20 << 10); !errors.As(err, &full) || full.Status() != 503 || full.Used != 60<<10 || full.Want != 50<<10 {
		t.Errorf("others have it: %v", err)
	}
	if err := b.Add(71 << 10); !errors.As(err, &full) || full.Status() != 422 || full.Want != 101<<10 {
		t.Errorf("more than all: %v", err)
	}
	a.Release()
	a.Release() // gives nothing back
	if s.UsedBytes() != 30<<10 {
		t.Error(s.UsedBytes())
	}
	b.Release()
	if s.UsedBytes() != 0 {
		t.Error(s.UsedBytes())
	}
	var none *quota.Share
	g := none.Growing()
	if err := g.Add(1 << 60); err != nil {
		t.Error(err)
	}
	g.Release()
}
