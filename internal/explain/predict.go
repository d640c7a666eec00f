package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Lever is a TEE activity of a workload that can increase or decrease.
type Lever struct {
	Name string
	// What it changes, and which counts that needs.
	What string
	of   func(Event) bool
}

// EPC is the only lever that is not an event: a small EPC makes pages load back.
const EPC = "epc"

// Levers are the inputs of Predict, besides the size of the EPC.
var Levers = []Lever{
	{"transitions", "calls into and out of enclaves", metrics(EnclaveEntries, EnclaveExits)},
	{"enclave_faults", "faults on enclave memory", metrics(EnclaveFaults)},
	{"exceptions", "exceptions that call the hypervisor", metrics(GuestExceptions)},
	{"bounces", "copies through bounce buffers", metrics(BounceTime, BouncedBytes)},
}

func metrics(names ...string) func(Event) bool {
	return func(e Event) bool { return slices.Contains(names, e.Metric) }
}

// Change is a lever and its factor.
type Change struct {
	Lever  string
	Factor float64
}

// ParseChange reads "transitions=0.1x". ok is false if the text has no factor.
func ParseChange(text string) (c Change, ok bool, err error) {
	name, value, _ := strings.Cut(text, "=")
	number, ok := strings.CutSuffix(value, "x")
	if !ok {
		return c, false, nil
	}
	c = Change{Lever: name}
	known := []string{EPC}
	for _, l := range Levers {
		known = append(known, l.Name)
	}
	if c.Factor, err = metric.ParseNumber(number); err != nil || c.Factor < 0 || name == EPC && c.Factor == 0 {
		return c, true, fmt.Errorf("%q: want a factor like 0.5x or 2x", value)
	}
	if !slices.Contains(known, name) {
		return c, true, fmt.Errorf("%q: want one of %s", name, strings.Join(known, ", "))
	}
	return c, true, nil
}

// Prediction is the cost of a treatment after a change.
type Prediction struct {
	Treatment, Baseline, Case string
	// Now is the measured cost, Cost the predicted one. Bounds: only the interval is known.
	Now, Cost Amount
	Bounds    bool
	// Assumes lists the assumptions, in sentences.
	Assumes []string
	// Refused is why there is no prediction; "" if there is one.
	Refused string
}

// Predict returns the effect of a change on the costs of an experiment's primary metric. It prices the changed number
// of events, and the cost above 1 changes in proportion to the additional time of an operation. size parses a
// parameter that is a size.
func (k *Catalog) Predict(e *result.Experiment, change Change, size func(string) (float64, error)) (out []Prediction) {
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if !c.Primary {
			continue
		}
		p := Prediction{Treatment: c.Treatment, Baseline: c.Baseline, Case: c.Case}
		if err := k.predict(e, c, change, size, &p); err != nil {
			p.Refused = err.Error()
		}
		out = append(out, p)
	}
	return out
}

func (k *Catalog) predict(e *result.Experiment, c *result.Comparison, change Change, size func(string) (float64, error), p *Prediction) error {
	if c.Verdict == stats.Invalid || c.Cost == nil || c.CostLow == nil || c.CostHigh == nil {
		return fmt.Errorf("the comparison has no cost with an interval")
	}
	p.Now = Amount{*c.Cost, *c.CostLow, *c.CostHigh}
	if p.Now.Low <= 1 {
		return fmt.Errorf("the interval of the cost, %s, includes 1x (no cost), so there is nothing to divide among events", metric.TimesOf(p.Now.Value, p.Now.Low, p.Now.High))
	}
	tree := k.Compared(e, c)
	if tree.Active.Low <= 0 {
		return fmt.Errorf("the extra time of an operation, on CPUs and waiting, was not measured, or its interval includes 0")
	}
	left := exactly(change.Factor)
	lever := change.Lever
	if lever == EPC {
		lever = "enclave_faults"
	}
	l := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.Name == lever })]
	time, each, err := k.leverTime(e, c, l)
	if err != nil {
		return err
	}
	p.Assumes = append(p.Assumes, each...)
	if change.Lever == EPC {
		if left, err = p.faultsLeft(e, c, change.Factor, size); err != nil {
			return err
		}
	}
	share := time.dividedBy(tree.Active)
	// One event more or less changes the additional time of an operation by share/number.
	part := func(share, left float64) float64 { return 1 - share*(1-left) }
	remains := Amount{Value: part(share.Value, left.Value)}
	all := []float64{remains.Value}
	for _, s := range []float64{share.Low, share.High} {
		for _, f := range []float64{left.Low, left.High} {
			all = append(all, part(s, f))
		}
	}
	remains.Low, remains.High = slices.Min(all), slices.Max(all)
	excess := p.Now.minus(exactly(1))
	p.Cost.Value = 1 + excess.Value*remains.Value
	ends := []float64{p.Cost.Value}
	for _, x := range []float64{excess.Low, excess.High} {
		for _, r := range []float64{remains.Low, remains.High} {
			ends = append(ends, 1+x*r)
		}
	}
	p.Cost.Low, p.Cost.High = slices.Min(ends), slices.Max(ends)
	p.Assumes = append(p.Assumes, fmt.Sprintf("%s are %s of the extra time of an operation, the cost above 1 is proportional to that time, and nothing else changes", l.What, share.percent()))
	if share.Value > 1 {
		p.Assumes = append(p.Assumes, "this is more than the measured time: their number or their cost is too high")
	}
	return nil
}

// leverTime returns the time of a lever's events in an operation of the treatment, and the origin of their prices.
func (k *Catalog) leverTime(e *result.Experiment, c *result.Comparison, l Lever) (time Amount, each []string, err error) {
	rows := slices.DeleteFunc(RowsOf(e.Attribution, c), func(a result.Attribution) bool { return !l.of(eventOf(&a)) })
	var unpriced []string
	found := false
	for i := range rows {
		a := &rows[i]
		ev := eventOf(a)
		if ev == ev.Total() && slices.ContainsFunc(rows, func(o result.Attribution) bool { return o.Metric == a.Metric && len(o.Labels) > 0 }) {
			continue // its kinds are listed too
		}
		row := k.compared(e, a)
		if a.Seconds == nil {
			unpriced = append(unpriced, fmt.Sprintf("%s: %s", row.Title, a.Reason))
			continue
		}
		found = true
		made := extent(a.Delta, a.DeltaLow, a.DeltaHigh)
		if a.Base != nil {
			made = made.plus(exactly(*a.Base))
		}
		made = Amount{max(0, made.Value), max(0, made.Low), max(0, made.High)}
		if row.Unit == nil { // its count is its time
			time = time.plus(made)
			continue
		}
		time = time.plus(made.times(row.Unit.Amount))
		each = append(each, fmt.Sprintf("one of %s costs as much as now, %s%s (%s)", row.Title, metric.Value(row.Unit.Value, "seconds"), row.Unit.spread(), row.Unit.Origin))
	}
	switch {
	case !found && len(unpriced) > 0:
		return time, nil, fmt.Errorf("the cost of %s is unknown: %s", l.What, strings.Join(unpriced, "; "))
	case !found:
		return time, nil, fmt.Errorf("%s were not counted in both arms", l.What)
	case time.Value == 0:
		return time, nil, fmt.Errorf("there were no %s", l.What)
	}
	return time, each, nil
}

// workingSets are the parameters that give the size of a workload's data.
var workingSets = []string{"size", "working-set"}

// faultsLeft returns the remaining part of the faults on enclave memory when the EPC changes by a factor; above 1 for
// a smaller EPC.
func (p *Prediction) faultsLeft(e *result.Experiment, c *result.Comparison, factor float64, size func(string) (float64, error)) (Amount, error) {
	faults, ok := perOperation(e, c, c.Case, event(EnclaveFaults))
	loaded, counted := perOperation(e, c, c.Case, event(EnclavePages, "operation", "loaded_back"))
	switch {
	case !ok || !counted:
		return Amount{}, fmt.Errorf("pages loaded back into the EPC were not counted in both arms")
	case loaded <= 0 || faults <= 0:
		return Amount{}, fmt.Errorf("no page was loaded back into the EPC: its size does not matter")
	}
	paging := min(1, loaded/faults)
	param, now, sizes := sweepOf(e, c, size)
	at := now / factor
	var below, above []float64 // settings
	for s := range sizes {
		if s <= at {
			below = append(below, s)
		}
		if s >= at {
			above = append(above, s)
		}
	}
	var low, high, value float64 // pages loaded back per operation
	switch {
	case len(sizes) < 2 && factor < 1, len(sizes) > 1 && len(above) == 0:
		return Amount{}, fmt.Errorf("a smaller EPC has the effect of a larger working set, and none that is %s times as large was measured", metric.Digits(1/factor))
	case len(sizes) < 2:
		low, high, p.Bounds = 0, loaded, true
		value = loaded / 2
		p.Assumes = append(p.Assumes, "with one size of the working set it is unknown how much paging remains: none to all of it")
	case len(below) == 0:
		low, high, p.Bounds = 0, sizes[slices.Min(above)], true
		value = high / 2
		p.Assumes = append(p.Assumes, fmt.Sprintf("a %s below the smallest measured one loads back between no pages and as many as that one", param))
	default:
		x, y := slices.Max(below), slices.Min(above)
		low, high = min(sizes[x], sizes[y]), max(sizes[x], sizes[y])
		value = sizes[x]
		if y > x {
			value += (sizes[y] - sizes[x]) * (at - x) / (y - x)
		}
		p.Assumes = append(p.Assumes, fmt.Sprintf("the number of pages that an operation loads back depends only on the ratio of %s to the EPC, so it is the number measured at %s", param, metric.Value(at, "bytes")))
	}
	left := func(n float64) float64 { return 1 - paging*(1-n/loaded) }
	return Amount{left(value), left(low), left(high)}, nil
}

// perOperation returns how often the treatment of a comparison has an event in a case, per operation.
func perOperation(e *result.Experiment, c *result.Comparison, of string, ev Event) (n float64, ok bool) {
	for i := range e.Attribution {
		a := &e.Attribution[i]
		if a.Baseline == c.Baseline && a.Treatment == c.Treatment && a.Case == of && eventOf(a) == ev {
			n = a.Delta
			if a.Base != nil {
				n += *a.Base
			}
			return n, true
		}
	}
	return 0, false
}

// sweepOf returns the working set sizes of the cases that differ from a comparison's in nothing else, with the pages
// that an operation loads back.
func sweepOf(e *result.Experiment, c *result.Comparison, size func(string) (float64, error)) (param string, now float64, loaded map[float64]float64) {
	params := map[string]map[string]string{}
	for _, x := range e.Cases {
		params[x.ID] = x.Params
	}
	loaded = map[float64]float64{}
	for _, param = range workingSets {
		now, err := size(params[c.Case][param])
		if err != nil {
			continue
		}
		for id, other := range params {
			same := len(other) == len(params[c.Case])
			for name, value := range params[c.Case] {
				same = same && (name == param || other[name] == value)
			}
			s, err := size(other[param])
			if n, ok := perOperation(e, c, id, event(EnclavePages, "operation", "loaded_back")); same && err == nil && ok {
				loaded[s] = n
			}
		}
		return param, now, loaded
	}
	return "", 0, loaded
}
