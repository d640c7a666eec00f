package explain

import "math"

// z is the normal quantile of a 95 % interval.
const z = 1.959964

// exactly returns an amount without uncertainty.
func exactly(v float64) Amount { return Amount{v, v, v} }

// counted returns the amount of n samples of equal worth, with the score interval of a Poisson mean (Barker, A
// Comparison of Nine Confidence Intervals for a Poisson Parameter, The American Statistician 56, 2002). It is right
// for few samples too.
func counted(n, worth float64) Amount {
	middle, half := n+z*z/2, z*math.Sqrt(n+z*z/4)
	return Amount{n * worth, max(0, middle-half) * worth, (middle + half) * worth}
}

func (a Amount) lowSide() float64  { return a.Value - a.Low }
func (a Amount) highSide() float64 { return a.High - a.Value }

// amountAround returns v with a deviation to either side. The methods below treat amounts as independent: deviations add in
// quadrature, weighted by the derivatives (JCGM 100:2008, section 5.1.2), each side separately.
func amountAround(v, below, above float64) Amount { return Amount{v, v - below, v + above} }

func (a Amount) plus(b Amount) Amount {
	return amountAround(a.Value+b.Value, math.Hypot(a.lowSide(), b.lowSide()), math.Hypot(a.highSide(), b.highSide()))
}

func (a Amount) minus(b Amount) Amount {
	return amountAround(a.Value-b.Value, math.Hypot(a.lowSide(), b.highSide()), math.Hypot(a.highSide(), b.lowSide()))
}

// times returns the product of amounts that cannot be negative.
func (a Amount) times(b Amount) Amount {
	p := amountAround(a.Value*b.Value,
		math.Hypot(a.lowSide()*b.Value, b.lowSide()*a.Value),
		math.Hypot(a.highSide()*b.Value, b.highSide()*a.Value))
	p.Low = max(0, p.Low)
	return p
}

// scaled returns the amount times an exact number.
func (a Amount) scaled(f float64) Amount { return Amount{a.Value * f, a.Low * f, a.High * f} }

// dividedBy returns the quotient of amounts that cannot be negative; b's value must be above 0.
func (a Amount) dividedBy(b Amount) Amount {
	q := a.Value / b.Value
	r := amountAround(q, math.Hypot(a.lowSide(), q*b.highSide())/b.Value, math.Hypot(a.highSide(), q*b.lowSide())/b.Value)
	r.Low = max(0, r.Low)
	return r
}

// shareBeside returns a's share of the sum of a and rest, which vary independently. Each is moved to its bounds while
// the other stays fixed, and the resulting changes of the share add in quadrature: derivatives understate the error
// of an interval as wide as its value. A rest below 0 gives a share above 1, on purpose: more is explained than was
// measured.
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
	r := amountAround(s,
		math.Hypot(s-share(a.Low, rest.Value), s-share(a.Value, rest.High)),
		math.Hypot(share(a.High, rest.Value)-s, share(a.Value, rest.Low)-s))
	r.Low, r.High = max(0, r.Low), max(s, min(1, r.High))
	return r
}

// withHalfWidth returns the amount with an interval of half of its value to either side.
func (a Amount) withHalfWidth(half float64) Amount {
	r := amountAround(a.Value, half*a.Value, half*a.Value)
	r.Low = max(0, r.Low)
	return r
}

// overlaps reports whether two amounts may be equal.
func (a Amount) overlaps(b Amount) bool { return a.Low <= b.High && b.Low <= a.High }

// sum adds amounts.
func sum(list ...Amount) (s Amount) {
	for _, a := range list {
		s = s.plus(a)
	}
	return s
}
