package workloads

import (
	"math"
	"regexp"
	"testing"
)

// TestForeignNumber: a number that the load generator does not print is unknown, not 0. A
// program that omits failures if there are none needs a pattern that always matches a line.
func TestForeignNumber(t *testing.T) {
	const ab, wrk = `(?m)^(?:Failed requests|Non-2xx responses):\s+(\d+)`, `(?m)^(?:\s+Non-2xx or 3xx responses: (\d+)|Requests/sec:)`
	for _, c := range []struct {
		pattern, text string
		most          int
		want          float64
	}{
		{ab, "Failed requests:        2\nNon-2xx responses:      3\n", -1, 5},
		{ab, "Complete requests:      9\n", -1, math.NaN()},
		{wrk, "  20 requests in 1s\nRequests/sec:     20.0\n", -1, 0},
		{wrk, "  20 requests in 1s\n  Non-2xx or 3xx responses: 7\nRequests/sec:     20.0\n", -1, 7},
		{wrk, "unable to connect\n", -1, math.NaN()},
		{`(?m)^Rate:(?: (\d+))?`, "Rate:\n", 1, math.NaN()},
		{`(?m)^Rate: (\d+)`, "Rate: 1\nRate: 2\n", 1, math.NaN()},
	} {
		got := foreignNumber(regexp.MustCompile(c.pattern), c.text, c.most)
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s in %q: %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
}
