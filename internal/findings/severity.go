package findings

// ActiveTime is the whole of a share of a process's time, everywhere: what its threads ran, or waited for a CPU, a disk
// or a lock. Explanations divide by it, too.
const ActiveTime = "its active time"

// timeInUse is the whole of a share of a machine, where its rule names no other.
const timeInUse = "the CPU time in use"

// Harm limits: the share of its active time that a cause costs a service. At one half it takes at least twice as long
// as without the cause; below a twentieth explanations leave a cause out.
const (
	criticalHarm = 0.50
	warningHarm  = 0.05
	// steady: a severity falls back when the share is a tenth below its limit, so a share near the limit sends no
	// messages.
	steady = 0.9
)

// severityOfHarm is the severity of a finding whose cause costs a service a share of its active time: the middle of the
// interval decides. A guess is never critical. was is the severity of before, "" for a new finding.
func severityOfHarm(share [2]float64, sure Confidence, was Severity) Severity {
	harm := (share[0] + share[1]) / 2
	limit := func(s Severity, least float64) bool {
		if was.AtLeast(s) {
			least *= steady
		}
		return harm >= least
	}
	switch {
	case sure != Low && limit(Critical, criticalHarm):
		return Critical
	case limit(Warning, warningHarm):
		return Warning
	}
	return Info
}

// harmful reports whether the severity of a finding follows its share: of a note it does not, since that is no fault.
func harmful(f Finding) bool { return f.Share != nil && f.ShareOf == ActiveTime && f.Severity != Info }
