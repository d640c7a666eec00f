package findings

import (
	"fmt"
	"regexp"
	"slices"
)

// Limit is a user's setting of a threshold.
type Limit struct {
	Rule, Threshold string
	// Subject matches the whole of the subjects that it holds for; nil is all. Of
	// several settings that match, the last counts.
	Subject *regexp.Regexp
	Value   float64
}

// Limit returns the value of the rule's threshold for a subject. It panics on a name that is not the rule's own.
func (p *Pass) Limit(threshold, subject string) float64 {
	t := p.Rule.threshold(threshold)
	v := t.Default
	for _, l := range p.limits {
		if l.Rule == p.Rule.Name && l.Threshold == threshold && (l.Subject == nil || l.Subject.MatchString(subject)) {
			v = l.Value
		}
	}
	return p.raised(t, v)
}

// Least returns the lowest value that the threshold has for any subject. Queries use it to find candidates, which
// Limit then judges one by one.
func (p *Pass) Least(threshold string) float64 {
	t := p.Rule.threshold(threshold)
	v := t.Default
	for _, l := range p.limits {
		if l.Rule == p.Rule.Name && l.Threshold == threshold {
			v = min(v, l.Value)
		}
	}
	return p.raised(t, v)
}

// raised returns a limit as it is in the pass: in an early one, a user's setting is raised as the default is. Of a
// ratio, what is left to 1 shrinks by the same factor.
func (p *Pass) raised(t Threshold, v float64) float64 {
	switch {
	case !p.early || t.Early == 0:
		return v
	case t.Unit == "ratio":
		return max(v, 1-(1-v)*(1-t.Early)/(1-t.Default))
	}
	return v * t.Early / t.Default
}

func (r *Rule) threshold(name string) Threshold {
	i := slices.IndexFunc(r.Thresholds, func(t Threshold) bool { return t.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("rule %s has no threshold %q", r.Name, name))
	}
	return r.Thresholds[i]
}
