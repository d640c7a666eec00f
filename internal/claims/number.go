package claims

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// number is a printed decimal number with the weight of its last digit.
type number struct {
	text   string
	v, ulp float64
	digits int // significant ones
}

// mostDigits is far more than any table prints, and less than a number can have.
const mostDigits = 32

// leadingNumber reads the number at the start of s and returns the rest.
func leadingNumber(s string) (number, string, error) {
	v, plain, rest, err := metric.LeadingNumber(s)
	if err != nil {
		return number{}, s, err
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(plain, "-"), ".")
	if strings.Contains(plain, "e") || len(whole)+len(fraction) > mostDigits {
		return number{}, s, fmt.Errorf("%.40q is not a number", s)
	}
	return number{text: strings.Replace(s[:len(s)-len(rest)], "\u2212", "-", 1), v: v, ulp: math.Pow10(-len(fraction)), digits: len(strings.TrimLeft(whole+fraction, "0"))}, rest, nil
}

// quantity is a value in base units, with the interval of its possible values.
type quantity struct {
	v, lo, hi float64
	noun      string
	dims
}

func exact(v float64, d dims) quantity { return quantity{v: v, lo: v, hi: v, dims: d} }

// rounded returns the range of a measured cell: half a last digit either way.
func (n number) rounded(u unit) quantity {
	return quantity{v: n.v * u.scale, lo: (n.v - n.ulp/2) * u.scale, hi: (n.v + n.ulp/2) * u.scale, noun: u.noun, dims: u.dims}
}

// stated returns the range of a printed result: rounded or truncated.
func (n number) stated(u unit) quantity {
	lo, hi := n.v-n.ulp/2, n.v+n.ulp
	if n.v < 0 || n.v == 0 && strings.HasPrefix(n.text, "-") {
		lo, hi = n.v-n.ulp, n.v+n.ulp/2
	}
	return quantity{v: n.v * u.scale, lo: lo * u.scale, hi: hi * u.scale, noun: u.noun, dims: u.dims}
}

// prints reports whether x may have been printed as n, rounded or truncated.
func (n number) prints(x float64) bool {
	if n.v < 0 || strings.HasPrefix(n.text, "-") {
		x, n.v = -x, -n.v
	}
	const tiny = 1e-6
	return x >= n.v-n.ulp/2*(1+tiny) && x < n.v+n.ulp*(1-tiny)
}

// widen grows the interval by a share of its value.
func (q quantity) widen(share float64) quantity {
	q.lo -= math.Abs(q.lo) * share
	q.hi += math.Abs(q.hi) * share
	return q
}

func (q quantity) finite() bool {
	return !math.IsInf(q.lo, 0) && !math.IsInf(q.hi, 0)
}

func add(a, b quantity) quantity {
	a.v, a.lo, a.hi = a.v+b.v, a.lo+b.lo, a.hi+b.hi
	return a
}

func sub(a, b quantity) quantity {
	a.v, a.lo, a.hi = a.v-b.v, a.lo-b.hi, a.hi-b.lo
	return a
}

func mul(a, b quantity) quantity {
	p := []float64{a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi}
	q := quantity{v: a.v * b.v, dims: dims{a.time + b.time, a.bytes + b.bytes, a.money + b.money}}
	q.lo, q.hi = bounds(p)
	return q
}

// div returns the quotient; ok is false if the divisor may be zero.
func div(a, b quantity) (quantity, bool) {
	if b.lo <= 0 && b.hi >= 0 {
		return quantity{}, false
	}
	p := []float64{a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi}
	q := quantity{v: a.v / b.v, dims: dims{a.time - b.time, a.bytes - b.bytes, a.money - b.money}}
	q.lo, q.hi = bounds(p)
	return q, true
}

func bounds(p []float64) (lo, hi float64) {
	lo, hi = p[0], p[0]
	for _, v := range p[1:] {
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	return lo, hi
}

// areDisjoint reports whether two intervals have no value in common, with a relative slack
// for numbers computed before rounding.
func areDisjoint(a, b quantity, slack float64) bool {
	s := slack * math.Max(math.Abs(a.v), math.Abs(b.v))
	return a.lo > b.hi+s || b.lo > a.hi+s
}

// show prints a value in a unit with enough digits to see the difference.
func show(v float64, u unit) string {
	return group(v/u.scale) + u.suffix(v/u.scale)
}

// suffix returns the unit after a number; counted things have a plural.
func (u unit) suffix(v float64) string {
	switch {
	case u.name == "" || u.name == "1":
		return ""
	case u.name == u.noun && u.dims == dims{} && v != 1:
		return " " + u.name + "s"
	}
	return " " + u.name
}

// signed is show with a plus sign, for changes.
func signed(v float64, u unit) string {
	if v > 0 {
		return "+" + show(v, u)
	}
	return show(v, u)
}

// group prints four or five significant digits with thousands separated.
func group(v float64) string {
	a := math.Abs(v)
	if a != 0 && (a < 1e-4 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	decimals := 0
	for x := a; x < 1000 && decimals < 8; x *= 10 {
		decimals++
		if x == 0 {
			decimals = 0
			break
		}
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, frac, dot := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + frac
	}
	return sign + whole
}
