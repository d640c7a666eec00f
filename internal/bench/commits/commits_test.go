package commits

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestThinned(t *testing.T) {
	all := strings.Fields("a b c d e f g h i j")
	for n, want := range map[int]string{2: "a j", 3: "a e j", 4: "a d g j", 10: "a b c d e f g h i j", 20: "a b c d e f g h i j"} {
		if got := thinned(all, n); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%d of ten: %v, want %s", n, got, want)
		}
	}
}

func TestLater(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range [][3]int{{10, 5, 10}, {5, 5, 6}, {1, 5, 6}} {
		if got := Later(at(c[0]), at(c[1])); !got.Equal(at(c[2])) {
			t.Errorf("%d after %d is %v, want %d", c[0], c[1], got.Unix(), c[2])
		}
	}
}
