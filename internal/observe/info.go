package observe

import (
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

var (
	// InfoDesc tells a monitor elsewhere what GET platform says here.
	InfoDesc = &metric.Desc{Name: "teescope_info", Kind: metric.Gauge, Labels: fleet.InfoLabels,
		Help: "Always 1, with teescope's version and its machine as labels; tee_unknown lists the kinds of TEE of which it could not tell whether they are here."}
	// BudgetDesc lets rules and dashboards compare the cost with the budget.
	BudgetDesc = &metric.Desc{Name: "teescope_budget_ratio", Kind: metric.Gauge,
		Help: "Share of each core that teescope may use, as a ratio (--budget)."}
)

// AppendInfo adds what teescope says of itself and its machine.
func (o *Observer) AppendInfo(samples []metric.Sample) []metric.Sample {
	p := o.Platform
	return append(samples,
		metric.Sample{Desc: InfoDesc, Value: 1, Labels: []string{p.Version, p.Hostname, p.Kernel, p.Arch, p.OS, p.CPUModel, p.Lockdown, strconv.FormatBool(p.Privileged), Unsure(o.Found)}},
		metric.Sample{Desc: BudgetDesc, Value: float64(o.Budget)})
}

// Unsure lists the kinds of TEE of which it could not be told whether they are here, separated by commas.
func Unsure(found []tee.Detection) string {
	var kinds []string
	for _, d := range found {
		if d.State == tee.Unknown {
			kinds = append(kinds, d.Kind.Name)
		}
	}
	return strings.Join(kinds, ",")
}

// DetectedTEEs are the TEEs of this machine as the list of machines has them.
func DetectedTEEs(found []tee.Detection) []fleet.TEE {
	var out []fleet.TEE
	for _, f := range tee.Found(found) {
		out = append(out, fleet.TEE{Kind: f.Kind, Variant: f.Variant, Role: string(f.Role), Active: f.Active, Debug: f.Debug})
	}
	return out
}
