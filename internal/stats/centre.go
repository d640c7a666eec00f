package stats

// Centre returns the exact signed-rank interval of the centre of differences, in their own unit; ok is false if there
// are too few for the confidence (at 0.95, below six).
func Centre(differences []float64, confidence float64) (low, high float64, ok bool) {
	if len(differences) == 0 {
		return 0, 0, false
	}
	low, high, _, ok = walsh(differences).interval(confidence)
	return low, high, ok
}
