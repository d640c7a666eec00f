package explain

import "math"

// z is the normal quantile of a 95 % interval.
const z = 1.959964

// exactly is an amount that is known.
func exactly(v float64) Amount { return Amount{v, v, v} }

// counted is n samples, each worth so much: the score interval of a Poisson mean
// (Barker, A Comparison of Nine Confidence Intervals for a Poisson Parameter, The
// American Statistician 56, 2002). It is right for few samples too.
func counted(n, worth float64) Amount {
	middle, half := n+z*z/2, z*math.Sqrt(n+z*z/4)
	return Amount{n * worth, max(0, middle-half) * worth, (middle + half) * worth}
}

func (a Amount) below() float64 { return a.Value - a.Low }
func (a Amount) above() float64 { return a.High - a.Value }

// around is v with the deviations to either side. The methods below take amounts
// as independent: deviations add in quadrature, after the derivatives (JCGM
// 100:2008, section 5.1.2), each side for itself.
func around(v, below, above float64) Amount { return Amount{v, v - below, v + above} }

func (a Amount) plus(b Amount) Amount {
	return around(a.Value+b.Value, math.Hypot(a.below(), b.below()), math.Hypot(a.above(), b.above()))
}

func (a Amount) minus(b Amount) Amount {
	return around(a.Value-b.Value, math.Hypot(a.below(), b.above()), math.Hypot(a.above(), b.below()))
}

// times is the product of amounts that cannot be negative.
func (a Amount) times(b Amount) Amount {
	p := around(a.Value*b.Value,
		math.Hypot(a.below()*b.Value, b.below()*a.Value),
		math.Hypot(a.above()*b.Value, b.above()*a.Value))
	p.Low = max(0, p.Low)
	return p
}

// scaled is the amount times a number that is known.
func (a Amount) scaled(f float64) Amount { return Amount{a.Value * f, a.Low * f, a.High * f} }

// over is the quotient of amounts that cannot be negative; b's value is above 0.
func (a Amount) over(b Amount) Amount {
	q := a.Value / b.Value
	r := around(q, math.Hypot(a.below(), q*b.above())/b.Value, math.Hypot(a.above(), q*b.below())/b.Value)
	r.Low = max(0, r.Low)
	return r
}

// shareBeside is the part that a has of itself and of the rest, which vary
// independently: each is moved to its bounds while the other stays, and what that
// makes of the share adds in quadrature, as derivatives say too little where an
// interval is as wide as its value. A rest below 0 makes a share above 1: more is
// explained than was measured, and that is to be seen.
func (a Amount) shareBeside(rest Amount) Amount {
	all := a.Value + rest.Value
	if all <= 0 {
		return Amount{}
	}
	s := a.Value / all
	share := func(part, beside float64) float64 {
		if part+beside <= 0 {
			return s
		}
		return part / (part + beside)
	}
	r := around(s,
		math.Hypot(s-share(a.Low, rest.Value), s-share(a.Value, rest.High)),
		math.Hypot(share(a.High, rest.Value)-s, share(a.Value, rest.Low)-s))
	r.Low, r.High = max(0, r.Low), max(s, min(1, r.High))
	return r
}

// within is the amount with an interval of so much of its value to either side.
func (a Amount) within(half float64) Amount {
	r := around(a.Value, half*a.Value, half*a.Value)
	r.Low = max(0, r.Low)
	return r
}

// overlaps says whether two amounts may be the same.
func (a Amount) overlaps(b Amount) bool { return a.Low <= b.High && b.Low <= a.High }

// sum adds amounts up.
func sum(list ...Amount) (s Amount) {
	for _, a := range list {
		s = s.plus(a)
	}
	return s
}
