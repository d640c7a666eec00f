package findings

import (
	"regexp"
	"testing"
)

func TestLimit(t *testing.T) {
	r := &Rule{Name: "storm", Thresholds: []Threshold{{Name: "rate", Unit: "1/s", Default: 10}, {Name: "factor", Default: 4}}}
	p := &Pass{Rule: r, limits: []Limit{
		{Rule: "storm", Threshold: "rate", Value: 20},
		{Rule: "storm", Threshold: "rate", Subject: regexp.MustCompile(`^(?:redis.*)$`), Value: 5},
		{Rule: "other", Threshold: "rate", Value: 1},
	}}
	for subject, want := range map[string]float64{"nginx": 20, "redis-server": 5, "my-redis": 20} {
		t.Run(subject, func(t *testing.T) {
			if got := p.Limit("rate", subject); got != want {
				t.Errorf("%s: limit %v, want %v", subject, got, want)
			}
		})
	}
	if got := p.Least("rate"); got != 5 {
		t.Errorf("least is %v, want 5", got)
	}
	if got := p.Limit("factor", "nginx"); got != 4 {
		t.Errorf("factor is %v, want its default", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a threshold that the rule does not have was answered")
		}
	}()
	p.Limit("height", "nginx")
}
