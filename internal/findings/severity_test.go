package findings

import "testing"

// TestSeverityOfHarm: severity follows the share of a service's active time, and does not waver near a limit.
func TestSeverityOfHarm(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		was, want Severity
	}{
		{0.84, 0.92, "", Critical}, {0.4, 0.6, "", Critical}, {0.40, 0.58, "", Warning}, {0.03, 0.07, "", Warning}, {0, 0.04, "", Info},
		{0.46, 0.46, Critical, Critical}, {0.44, 0.44, Critical, Warning}, {0.46, 0.46, Warning, Warning}, {0.046, 0.046, Warning, Warning}, {0.04, 0.04, Warning, Info},
		{0, 0, Critical, Info}, {1, 1, Info, Critical},
	} {
		if got := severityOfHarm([2]float64{c.low, c.high}, High, c.was); got != c.want {
			t.Errorf("share %g to %g after %q: %s, want %s", c.low, c.high, c.was, got, c.want)
		}
	}
	if got := severityOfHarm([2]float64{0.9, 1}, Low, Critical); got != Warning {
		t.Errorf("a guess is %s", got)
	}
}
