package measured

import "testing"

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		bound  float64
		values []float64
		want   Answer
	}{
		{"all below", 1, []float64{0.1, 0.2, 0.3, 0.2, 0.1, 0.3, 0.2}, Holds},
		{"all above", 1, []float64{1.1, 1.2, 1.3, 1.2, 1.1, 1.3, 1.2}, Broken},
		{"on both sides", 1, []float64{0.1, 1.2, 0.3, 1.2, 0.1, 1.3, 0.2}, CannotTell},
		{"too few, however far above", 1, []float64{9, 9, 9}, CannotTell},
		{"none", 1, nil, CannotTell},
	} {
		r := judge("it costs little", "s", c.bound, c.values)
		if r.Answer != c.want || (r.Need == "") != (r.Answer != CannotTell) {
			t.Errorf("%s: %+v, want %s", c.name, r, c.want)
		}
		if (r.Low == nil) != (len(c.values) < 6) {
			t.Errorf("%s: the interval is %v", c.name, r.Low)
		}
	}
}
