package measured

import "testing"

// TestJudgeEach: one value above the bound breaks the promise, however many are below.
func TestJudgeEach(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Answer
		value  float64
	}{
		{[]float64{0.1, 1, 0.3, 0.2, 0.1, 0.3, 0.2}, Holds, 1},
		{[]float64{0.1, 0.2, 0.3, 0.2, 0.1, 0.3, 1.1}, Broken, 1.1},
		{nil, CannotTell, 0},
	} {
		if r := judgeEach("it costs little", "s", 1, c.values); r.Answer != c.want || r.Value != c.value || r.Low != nil || (r.Need == "") != (r.Answer != CannotTell) {
			t.Errorf("%v: %+v, want %s", c.values, r, c.want)
		}
	}
}

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
		t.Run(c.name, func(t *testing.T) {
			r := judge("it costs little", "s", c.bound, c.values)
			if r.Answer != c.want || (r.Need == "") != (r.Answer != CannotTell) {
				t.Errorf("%s: %+v, want %s", c.name, r, c.want)
			}
			if (r.Low == nil) != (len(c.values) < 6) {
				t.Errorf("%s: the interval is %v", c.name, r.Low)
			}
		})
	}
}
