package store

import (
	"strings"
	"testing"
)

func TestNesting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr string
		want int
	}{
		{"up", 0},
		{`sum by (job) (rate(x{a="b"}[5m]))`, 3},
		{`x{a="((((", b='[[[\'[', c=` + "`{{{\\`" + `}`, 1},
		{"x # ((((\n + (y)", 2},
		{"- - -1", 3},
		{"1+1+1+1", 1},
		{")))(", 1},
		{`"never closed ((`, 0},
		{`"ends in a backslash\`, 0},
		{strings.Repeat("(", 50_000), 50_000},
	} {
		if got := nesting(c.expr); got != c.want {
			t.Errorf("nesting(%.30s) = %d, want %d", c.expr, got, c.want)
		}
	}
	for depth, want := range map[int]bool{maxNesting: false, maxNesting + 1: true} {
		if tooDeep(strings.Repeat("(", depth)+"1"+strings.Repeat(")", depth)) != want {
			t.Errorf("tooDeep at %d brackets is not %v", depth, want)
		}
	}
}
