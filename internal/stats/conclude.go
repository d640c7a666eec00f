package stats

import (
	"fmt"
	"math"
	"slices"
)

// An effect counts as detectable at 80 % power. Equivalence takes two one-sided tests
// at 5 %, that is a 90 % interval (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987).
const (
	detection      = 0.80
	tostConfidence = 0.90
)

// conclude fills the ratio, its intervals and the verdict from the ranked
// contrasts r (of logarithms) and the sorted bootstrap replicates.
func (c Comparison) conclude(r contrasts, boot []float64, o Options) Comparison {
	confidence := o.Confidence
	if confidence == 0 {
		confidence = 0.95
	}
	if !(confidence > 0 && confidence < 1) || !(o.Margin >= 0) || math.IsInf(o.Margin, 1) {
		return c.refuse(fmt.Sprintf("a confidence of %g with a margin of %g makes no sense", confidence, o.Margin))
	}
	c.Ratio = math.Exp(r.median())
	if !usable(c.Ratio) {
		c.Ratio = math.NaN()
		return c.refuse("the ratio is outside the range of numbers")
	}
	alpha := 1 - confidence
	edge := math.Log1p(o.Margin)
	c.P = r.twoSided(0)
	c.PMargin = max(0, min(1, 2*min(r.upper(edge), r.lower(-edge))))
	c.MDE = MDE(c.SDLog, c.Pairs, alpha, detection)
	low, high, attained, ok := r.interval(confidence)
	switch {
	case c.Pairs < MinPairs:
		c.Needed = MinPairs
		return c.refuse(fmt.Sprintf("%d %s are too few: at least %d are needed for a verdict", c.Pairs, r.unit, MinPairs))
	case !ok:
		c.Needed = int(math.Ceil(math.Log2(2 / alpha))) // 2/2^n is the signed rank's smallest level
		return c.refuse(fmt.Sprintf("%d %s cannot reach a confidence of %g: at least %d are needed", c.Pairs, r.unit, confidence, c.Needed))
	}
	c.Low, c.High, c.Confidence = math.Exp(low), math.Exp(high), attained
	eqLow, eqHigh, _, _ := r.interval(tostConfidence)
	c.EqLow, c.EqHigh = math.Exp(eqLow), math.Exp(eqHigh)
	second := span{Quantile(boot, alpha/2), Quantile(boot, 1-alpha/2)}
	c.BootLow, c.BootHigh = math.Exp(second.low), math.Exp(second.high)

	first := span{low, high}.orient(o.Better)
	second = second.orient(o.Better)
	eq := span{eqLow, eqHigh}
	eqBoot := span{Quantile(boot, (1-tostConfidence)/2), Quantile(boot, (1+tostConfidence)/2)}
	c.judge(first, second, eq, eqBoot, edge, o)
	if c.Verdict == Inconclusive && o.Margin > 0 && !slices.Contains(c.Reasons, WithinFloor) {
		c.Needed = pairsNeeded(c.SDLog, o.Margin, alpha, c.Pairs)
	}
	return c
}

// judge gives the verdict: the rank interval makes a claim, and the bootstrap and the
// noise floor confirm or withdraw it.
func (c *Comparison) judge(first, second, eq, eqBoot span, edge float64, o Options) {
	claim := first.claim(edge, o.Better)
	equivalent := eq.isWithin(edge)
	c.Verdict, c.Material = claim.verdict, claim.material
	if claim.verdict == Inconclusive && equivalent {
		c.Verdict = Equivalent
	}
	switch {
	case c.Verdict == Inconclusive && o.Better == 0:
		c.Reasons = append(c.Reasons, "neither more nor less of this metric is better")
	case c.Verdict == Inconclusive:
		c.Reasons = append(c.Reasons, "the interval contains 1 and reaches beyond the margin")
	case c.Verdict != Equivalent && equivalent:
		c.Reasons = append(c.Reasons, "the difference is real but lies within the margin")
	}
	if opinion := second.claim(edge, o.Better); opinion != claim {
		c.doubt(fmt.Sprintf("the bootstrap disagrees about %s", opinion.differs(claim)))
	} else if c.Verdict == Equivalent && !eqBoot.isWithin(edge) {
		c.doubt("the bootstrap disagrees about the margin")
	}
	floor := math.Log1p(o.NoiseFloor)
	if !(floor > 0) || first.high-first.low >= 2*floor {
		return
	}
	c.Reasons = append(c.Reasons, fmt.Sprintf("the interval is narrower than the noise floor of %.2g %% allows", 100*o.NoiseFloor))
	mid := math.Log(c.Ratio)
	wide := span{mid - floor, mid + floor}
	if wide.orient(o.Better).claim(edge, o.Better) != claim || c.Verdict == Equivalent && !wide.isWithin(edge) {
		c.doubt(WithinFloor)
	}
}

// WithinFloor is the reason of a comparison that the noise floor withdrew: more pairs do not decide it.
const WithinFloor = "identical arms have differed by as much on this host"

// doubt withdraws a verdict.
func (c *Comparison) doubt(why string) {
	if c.Verdict != Inconclusive {
		c.Verdict, c.Material = Inconclusive, false
		c.Reasons = append(c.Reasons, why)
	}
}

// span is an interval of log ratios.
type span struct{ low, high float64 }

// orient makes positive mean worse.
func (s span) orient(better int8) span {
	if better > 0 {
		return span{-s.high, -s.low}
	}
	return s
}

func (s span) isWithin(edge float64) bool { return s.low > -edge && s.high < edge }

// claim is what an interval says about zero and about the margin.
type claim struct {
	verdict  Verdict
	material bool
}

func (s span) claim(edge float64, better int8) claim {
	switch {
	case better == 0:
		return claim{Inconclusive, false}
	case s.low > 0:
		return claim{Cost, s.low > edge}
	case s.high < 0:
		return claim{Gain, s.high < -edge}
	}
	return claim{Inconclusive, false}
}

// differs returns how two claims differ.
func (a claim) differs(b claim) string {
	if a.verdict != b.verdict {
		return "the direction"
	}
	return "the margin"
}

// pairsNeeded returns the number of pairs that would probably decide a comparison that n did not: enough to find an effect as large
// as the margin. If n was already enough for that, the effect is near zero or near the margin, and the result is the
// number that finds half the margin.
func pairsNeeded(sdLog, margin, alpha float64, n int) int {
	for _, effect := range []float64{margin, margin / 2} {
		if k := PairsFor(sdLog, effect, alpha, detection); k > n {
			return k
		}
	}
	return 2 * n
}
