package mutate

import (
	"fmt"
	"runtime/debug"
	"testing"
)

// mostTried bounds the damages to one input, so that each list of inputs takes seconds; those of a larger one are
// tried evenly.
const mostTried = 200

// Try calls check with each damage to an input. An error or a panic of check fails the test with what was damaged, at
// most a few times for an input.
func Try(t testing.TB, name string, data []byte, separators string, check func(Mutation) error) {
	t.Helper()
	total := 0
	for range damages(data, separators) {
		total++
	}
	step, failed := 1+total/mostTried, 0
	for gcd(step, len(cells)+len(numbers)) > 1 || gcd(step, len(cells)+len(words)) > 1 { // or not all kinds would be among them
		step++
	}
	at := 0
	try := func(m Mutation) {
		if err := contained(check, m); err != nil {
			if failed++; failed <= 3 {
				t.Errorf("%s: %s: %v", name, m.Name, err)
			}
		}
	}
	for d := range damages(data, separators) {
		if at++; at%step != 0 {
			continue
		}
		try(d.mutation())
	}
	for m := range Documents(data) {
		try(m)
	}
	if failed > 3 {
		t.Errorf("%s: %d damages fail", name, failed)
	}
	if at < step {
		t.Errorf("%s: nothing to damage", name)
	}
}

func contained(check func(Mutation) error, m Mutation) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return check(m)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
