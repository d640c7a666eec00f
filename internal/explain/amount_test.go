package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLongest: a window is bounded on both sides.
func TestLongest(t *testing.T) {
	now := time.Unix(1e6, 0)
	for window, ok := range map[time.Duration]bool{0: false, -time.Hour: false, 5 * time.Second: false, 10 * time.Second: true, Longest: true, Longest + time.Second: false} {
		err := Question{Process: "x", From: now.Add(-window), To: now}.check()
		if (err == nil) != ok {
			t.Errorf("%v: %v", window, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	a, b := Amount{10, 9, 12}, Amount{5, 4, 6}
	for name, c := range map[string]struct{ got, want Amount }{
		"sum":        {a.plus(b), amountAround(15, math.Sqrt(2), math.Sqrt(5))},
		"difference": {a.minus(b), amountAround(5, math.Sqrt(2), math.Sqrt(5))},
		"product":    {a.times(b), amountAround(50, math.Hypot(5, 10), math.Hypot(10, 10))},
		"quotient":   {a.dividedBy(b), amountAround(2, math.Hypot(1, 2)/5, math.Hypot(2, 2)/5)},
		"scaled":     {a.scaled(2), Amount{20, 18, 24}},
		"no samples": {counted(0, 0.5), Amount{0, 0, z * z / 2}},
		"samples":    {counted(100, 0.01), Amount{1, 0.822_2, 1.216_2}},
		"share":      {exactly(1).shareBeside(exactly(3)), exactly(0.25)},
		"wide share": {Amount{2, 0, 6}.shareBeside(exactly(2)), Amount{0.5, 0, 0.75}},
		"nothing":    {Amount{}.shareBeside(Amount{}), Amount{}},
		"too much":   {exactly(3).shareBeside(exactly(-1)), Amount{1.5, 1.5, 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []float64{c.got.Value - c.want.Value, c.got.Low - c.want.Low, c.got.High - c.want.High} {
				if math.Abs(d) > 1e-4 {
					t.Errorf("%s is %v, want %v", name, c.got, c.want)
				}
			}
		})
	}
	if !a.overlaps(Amount{12, 11.9, 13}) || a.overlaps(Amount{13, 12.1, 14}) {
		t.Error("overlap")
	}
}

func TestDiff(t *testing.T) {
	before := Tree{Per: "second", Rows: []Row{
		{ID: "own", Title: "user code", Time: Amount{0.5, 0.4, 0.6}},
		{ID: SmallCalls, Title: "2 other system calls", Time: exactly(0.003), Rows: []Row{
			{ID: "syscall:read", Time: exactly(0.001)}, {ID: "syscall:write", Time: exactly(0.002)}}},
	}, Unexplained: Amount{0.01, -0.1, 0.1}}
	after := Tree{Per: "second", Rows: []Row{
		{ID: "syscall:read", Title: "read", Time: Amount{0.3, 0.2, 0.4}},
		{ID: "own", Title: "user code", Time: Amount{0.45, 0.35, 0.55}},
	}, Unexplained: Amount{0.02, -0.1, 0.1}}
	got, err := Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range got {
		lines = append(lines, fmt.Sprintf("%s %.3f %.3f %+.3f %v", d.ID, d.Before.Value, d.After.Value, d.Change.Value, d.Clear))
	}
	want := []string{"syscall:read 0.001 0.300 +0.299 true", "own 0.500 0.450 -0.050 false", "syscalls 0.002 0.000 -0.002 true", "unexplained 0.010 0.020 +0.010 false"}
	if !slices.Equal(lines, want) {
		t.Errorf("differences are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	// The clock sampled nothing of a call that is in one tree only: the worth of a few samples is no change.
	before.Unseen.CPU, after.Unseen.CPU = counted(0, 0.08), counted(0, 0.08)
	after.Rows = append(after.Rows, Row{ID: "interrupts", Part: Kernel, Time: counted(1, 0.08)}, Row{ID: "faults", Part: Kernel, Time: counted(12, 0.08)})
	if got, err = Diff(before, after); err != nil {
		t.Fatal(err)
	}
	for _, d := range got {
		if want := d.ID == "faults" || d.ID == "syscall:read"; d.Clear != want {
			t.Errorf("%s from %v to %v: clear %v, want %v", d.ID, d.Before, d.After, d.Clear, want)
		}
	}
	before.Unseen = Unseen{}
	if _, err := Diff(before, after); err == nil {
		t.Error("a tree of prices was compared with one of samples")
	}
	before.Unseen, after.Per = after.Unseen, "request"
	if _, err := Diff(before, after); err == nil {
		t.Error("trees per second and per request were compared")
	}
}
