package result

import (
	"github.com/teescope/teescope/internal/stats"
)

// Bound says that a ratio is only a limit, because an arm stood at a ceiling.
type Bound string

// The bounds.
const (
	Exact   Bound = "none"
	AtMost  Bound = "le"
	AtLeast Bound = "ge"
)

// Comparison is one treatment against one baseline for one metric of one case.
type Comparison struct {
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
	Case      string `json:"case"`
	Metric    string `json:"metric"`
	Primary   bool   `json:"primary"`
	// Headline is the verdict in one sentence of at most 25 words, made from the fields below.
	Headline string `json:"headline"`
	// Details are the sentences below the headline: medians, and in what else the arms differ.
	Details []string `json:"details,omitempty"`
	// StandIn says why the ratio is not what an environment of this name costs: an arm is emulated or stands in
	// for another, or the measured device is simulated. "" for a real measurement.
	StandIn string `json:"stand_in,omitempty"`
	// Open says what keeps an inconclusive comparison from a verdict: how many pairs would probably decide it if the
	// spread does, or else what blocks it. "" if nothing is open.
	Open string `json:"open,omitempty"`
	// Changed names what differs between the arms, as JSON paths of Environment.
	Changed   []Difference `json:"changed_dimensions"`
	Estimator string       `json:"estimator"`
	// Ratio is treatment divided by baseline, of the values as measured; its
	// interval has Confidence. Null when there is no ratio.
	Ratio      *float64 `json:"ratio"`
	Low        *float64 `json:"ci_low"`
	High       *float64 `json:"ci_high"`
	Confidence float64  `json:"confidence"`
	// Cost is the ratio, inverted if needed so that above 1 is worse: 1.25 takes 25 %
	// more time, or does the work of 1 in 1.25 times the time.
	Cost     *float64 `json:"cost_ratio"`
	CostLow  *float64 `json:"cost_ci_low"`
	CostHigh *float64 `json:"cost_ci_high"`
	// BootLow and BootHigh are the pair bootstrap's interval of Ratio, the second opinion.
	BootLow  *float64 `json:"boot_ci_low"`
	BootHigh *float64 `json:"boot_ci_high"`
	Pairs    int      `json:"n_pairs"`
	// BaseMedian and TreatMedian are medians of the values that were compared.
	BaseMedian  *float64 `json:"baseline_median"`
	TreatMedian *float64 `json:"treatment_median"`
	SDLog       *float64 `json:"sd_log"`
	// MDE is the smallest ratio minus 1 that this many pairs would find four times in five.
	MDE *float64 `json:"mde"`
	// PairsNeeded would probably decide a comparison that its spread leaves open; 0 where nothing is open, or
	// something else blocks it.
	PairsNeeded int      `json:"pairs_needed"`
	Margin      float64  `json:"margin"`
	NoiseFloor  *float64 `json:"noise_floor"`
	Bound       Bound    `json:"bound"`
	Grade       Grade    `json:"grade"`
	// Verdict is empty for a metric that is not the primary one.
	Verdict stats.Verdict `json:"verdict"`
	// Material: a cost or gain whose whole interval lies beyond the margin.
	Material bool     `json:"material"`
	Reasons  []string `json:"reasons"`
	// Cause says in one sentence what causes most of a cost and what fixes it, as far
	// as counters and their prices show; "" if they do not.
	Cause string `json:"cause,omitempty"`
	// Rung is the place on a ladder, from 1; 0 when it is not one.
	Rung int `json:"ladder_step"`
}

// Difference is one field in which two environments differ.
type Difference struct {
	Field     string `json:"field"`
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
}

// Dearer is the counter of rows about the system calls of both arms, which cost more in one of them.
const Dearer = `tee_syscalls_total{each="dearer"}`

// Attribution is what a cause explains of a cost.
type Attribution struct {
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
	Case      string `json:"case"`
	// Counter is the counter as PromQL writes it, for people; Metric and Labels say the
	// same to programs, and are missing in documents before version 1.2.
	Counter string            `json:"counter"`
	Metric  string            `json:"metric,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Base is the baseline's count per operation, Delta how much more the treatment
	// has. For the counter Dearer, Delta is how many system calls both arms make per
	// operation, and UnitCost the extra cost of one in the treatment.
	Base  *float64 `json:"baseline_per_operation,omitempty"`
	Delta float64  `json:"delta_per_operation"`
	// DeltaLow and DeltaHigh are the 95 % interval of the pairs' centre, if there are
	// enough of them.
	DeltaLow  *float64 `json:"delta_low_per_operation,omitempty"`
	DeltaHigh *float64 `json:"delta_high_per_operation,omitempty"`
	// Seconds is Delta times UnitCost, or Delta itself for a counter of waiting time.
	// The largest come first.
	UnitCost *float64 `json:"unit_cost_seconds"`
	// UnitLow and UnitHigh are, for the counter Dearer, the minimum and maximum extra
	// cost of a call: the extremes of the few jobs measured in each arm. They bound the
	// observations and are not a confidence interval.
	UnitLow  *float64 `json:"unit_cost_low_seconds,omitempty"`
	UnitHigh *float64 `json:"unit_cost_high_seconds,omitempty"`
	Seconds  *float64 `json:"seconds_per_operation,omitempty"`
	// Share is the part that Seconds are of the time by which an operation takes
	// longer: on CPUs, and waiting for locks and disks. Unexplained is the part that
	// no row has; it is below 0 where prices explain too much.
	Share       *float64 `json:"explained_share"`
	Unexplained *float64 `json:"unexplained_share"`
	// Cause names the rule that is about such events; "" for none.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"missing_reason,omitempty"`
}

// Level of a guard's message.
type Level string

// The levels. Refuse makes a comparison invalid.
const (
	Note   Level = "info"
	Warn   Level = "warn"
	Refuse Level = "invalid"
)

// Guard is a guard that tripped: a reason to refuse or doubt a verdict.
type Guard struct {
	ID      string `json:"id"`
	Level   Level  `json:"level"`
	Message string `json:"message"` // what was seen
	Help    string `json:"help"`    // what would help
	// Scope limits it to comparisons of a case, treatment or metric; "" is all.
	Case      string             `json:"case,omitempty"`
	Treatment string             `json:"treatment,omitempty"`
	Metric    string             `json:"metric,omitempty"`
	Values    map[string]float64 `json:"values,omitempty"`
}

// Reference is a published figure shown next to ours; it never decides a verdict. A
// Unit of "cost_ratio" (above 1 is worse) is drawn next to our cost ratios.
type Reference struct {
	ID       string     `json:"id"`
	Citation string     `json:"citation"`
	Workload string     `json:"workload"`
	TEE      string     `json:"tee"`
	Low      float64    `json:"low"`
	High     float64    `json:"high"`
	Unit     string     `json:"unit"`
	Caveat   string     `json:"caveat"`
	Source   Provenance `json:"source"`
}
