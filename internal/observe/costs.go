package observe

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// UnitCostDesc is what an explanation multiplies rates with.
var UnitCostDesc = &metric.Desc{Name: explain.UnitCost, Kind: metric.Gauge, Labels: []string{"event", "bound"},
	Help: "Cost of one event on this host in seconds, measured before anything was attached: bound is median, or low and high, between which 95 % of the batches lie. Events are syscall (a null system call), syscall_unseen (its part that sampling takes for the program's), fault_CAUSE by the causes of tee_page_faults_total, fault_unseen (the part of a fault that sampling takes for the program's), fault_file, switch_same_core, switch_cross_core, wakeup, copy_page (4 KiB), vm_exit_cpuid and, on a machine with SGX, enclave_transition; `teescope calibrate` says how each is measured."}

// Protection is the TEE of a machine as far as costs depend on it.
func Protection(found []tee.Detection) string {
	var out []string
	for _, f := range tee.Found(found) {
		out = append(out, strings.TrimSpace(f.Kind+" "+f.Variant)+" "+string(f.Role))
	}
	return strings.Join(out, ", ")
}

// UnitCosts are the current calibration, or the reason why there is none.
type UnitCosts struct {
	*prices.Calibration
	Err error
}

// Calibrated returns the unit costs stored in a data folder. If it has none for this
// machine, they are measured and stored; with "" they are not stored. It must run
// before anything is attached.
func (o *Observer) Calibrated(ctx context.Context, dir string) UnitCosts {
	return Calibrated(ctx, o.Host, o.Found, dir, o.Log)
}

// Calibrated returns the unit costs of a machine with these TEEs, as Observer.Calibrated does.
func Calibrated(ctx context.Context, h *host.Host, found []tee.Detection, dir string, log *slog.Logger) UnitCosts {
	local, now := host.Local(), machine.Identify(h, Protection(found))
	if dir != "" {
		c, err := prices.Load(local, dir)
		switch {
		case err == nil && c.Stale(now) == "":
			return UnitCosts{c, nil}
		case err == nil:
			log.Warn("the unit costs are measured again", "because", c.Stale(now))
		case !errors.Is(err, fs.ErrNotExist):
			log.Warn("the unit costs are measured again", "because", contain.OneLine(err))
		}
	}
	c, err := prices.Measure(ctx, local, now, Traced())
	if err == nil && len(c.Traced) > 0 {
		log.Warn("the unit costs are higher than this host's own and will be measured again at the next start", "because programs run on", strings.Join(c.Traced, ", "))
	}
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("no unit costs: explanations have counts, but no costs", "error", contain.OneLine(err))
		}
		return UnitCosts{Err: err}
	}
	if dir != "" {
		if err := c.Store(local, dir); err != nil {
			log.Warn("the unit costs will be measured again at the next start", "error", contain.OneLine(err))
		}
	}
	return UnitCosts{c, nil}
}

// Traced are the tracepoints that other monitors and tracers have programs on, as far
// as this process can see.
func Traced() []string {
	names, err := bpf.Tracers()
	if err != nil {
		return nil
	}
	return names
}

// Samples appends the costs.
func (u UnitCosts) Samples(out []metric.Sample) []metric.Sample {
	if u.Calibration == nil {
		return out
	}
	for _, x := range u.Units {
		for _, b := range []struct {
			name  string
			value float64
		}{{"median", x.Seconds}, {"low", x.Low}, {"high", x.High}} {
			out = append(out, metric.Sample{Desc: UnitCostDesc, Labels: []string{x.Event, b.name}, Value: b.value})
		}
	}
	return out
}

// ForResult is the calibration as stored in a result.
func (u UnitCosts) ForResult() *result.UnitCosts {
	if u.Calibration == nil {
		return &result.UnitCosts{Reason: u.Absent()}
	}
	out := &result.UnitCosts{MeasuredAt: u.MeasuredAt, Traced: u.Traced}
	for _, x := range u.Units {
		out.Units = append(out.Units, result.UnitCost{Event: x.Event, Seconds: x.Seconds, Low: x.Low, High: x.High})
	}
	return out
}

// Absent says why there are no unit costs.
func (u UnitCosts) Absent() string {
	switch {
	case u.Err != nil:
		return contain.OneLine(u.Err)
	case u.Calibration == nil:
		return "calibration was not requested"
	}
	return ""
}
