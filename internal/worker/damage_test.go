package worker

import (
	"fmt"
	"math"
	"testing"

	"github.com/teescope/teescope/internal/mutate"
)

// TestDamagedCounts: whatever is wrong with a kernel's counts, a time is a number that can be, or there is a reason.
func TestDamagedCounts(t *testing.T) {
	sound := func(v float64, err error) error {
		switch {
		case err != nil && err.Error() == "":
			return fmt.Errorf("no reason")
		case err == nil && (!(v >= 0) || math.IsInf(v, 0)):
			return fmt.Errorf("%v s", v)
		}
		return nil
	}
	mutate.Try(t, "stat of the machine", []byte("cpu  600 0 400 9000 10 6 30 70 0 0\ncpu0 100 1 200 3000 5 2 10 60 0 0\ncpu1 500 0 200 6000 5 4 20 10 0 0\nintr 1 2 3\n"), " ", func(m mutate.Mutation) error {
		use, err := parseMachine(m.Data)
		for _, v := range append(use.softirq, use.busy) {
			if err := sound(v, err); err != nil {
				return err
			}
		}
		return nil
	})
	mutate.Try(t, "stat of a process", []byte("42 (a) R 9) S 8 42 42 0 -1 4194560 1 2 3 4 150 250 50 50 20 0 1 0 99 1 1"), " ", func(m mutate.Mutation) error {
		l, err := parseStat(m.Data)
		return sound(l.seconds, err)
	})
	mutate.Try(t, "an answer of a server", []byte(`{"id":1,"took_ms":0.25}`), `{}:,"`, func(m mutate.Mutation) error {
		if sameAnswer(m.Data, []byte(`{"id":1,"took_ms":`+string(timeMark)+`}`)) && string(m.Data) != `{"id":1,"took_ms":0.25}` && !digits(string(m.Data)) {
			return fmt.Errorf("%.60q is taken", m.Data)
		}
		return nil
	})
}

// digits reports whether an answer is the right one but for the digits of its time.
func digits(s string) bool {
	const before, after = `{"id":1,"took_ms":`, "}"
	if len(s) < len(before)+len(after) || s[:len(before)] != before || s[len(s)-1:] != after {
		return false
	}
	for _, r := range s[len(before) : len(s)-1] {
		if r != '.' && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
