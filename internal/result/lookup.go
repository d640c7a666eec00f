package result

// Metric returns the run's metric of a name, or nil.
func (r *Run) Metric(name string) *Metric {
	for i := range r.Metrics {
		if r.Metrics[i].Name == name {
			return &r.Metrics[i]
		}
	}
	return nil
}

// Environment returns the arm of an id, or nil.
func (e *Experiment) Environment(id string) *Environment {
	for i := range e.Environments {
		if e.Environments[i].ID == id {
			return &e.Environments[i]
		}
	}
	return nil
}

// Desc returns the declaration of a metric of the workload, or nil.
func (e *Experiment) Desc(name string) *MetricDesc {
	for i := range e.Workload.Metrics {
		if e.Workload.Metrics[i].Name == name {
			return &e.Workload.Metrics[i]
		}
	}
	return nil
}

// GiveUp is the number of failed runs of a case in an arm, without a good one, after which the rest is left out.
const GiveUp = 3

// Barren reports whether the rest of a case's runs in an arm is left out.
func (e *Experiment) Barren(cas, env string) bool {
	failed := 0
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Case == cas && r.Env == env {
			if r.Status == OK {
				return false
			}
			failed++
		}
	}
	return failed >= GiveUp
}
