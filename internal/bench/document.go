package bench

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// document is everything known before the first run.
func document(p *Plan, o Options) (*result.Experiment, error) {
	if err := o.Client.refuses(p); err != nil {
		return nil, err
	}
	kind := result.Interleaved
	if len(p.Arms) == 1 {
		kind = result.Single
	}
	w := p.Workload
	doc := &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: newID(), Name: p.Name, StartedAt: o.Host.Now().UTC(),
		Tool:   result.Tool{Name: "teescope", Version: o.Version, Go: runtime.Version(), Command: o.Command},
		Commit: o.Commit,
		Design: result.Design{Kind: kind, Seed: p.Seed, PairsPlanned: p.Pairs, SparePairs: p.Spare, Order: p.Schedule(), Alpha: 0.05, Margin: p.Margin,
			Primary: p.Primary, Subject: subject(p), Calibration: p.Calibration, Ceilings: p.Ceilings, Client: o.Client.place(p),
			NoCounters: p.NoCounters, Then: passesOf(p.Then), LeftOut: p.LeftOut},
		Workload:   result.Workload{Name: w.Name, Version: w.Version, Doc: w.Doc, OutputPerArm: w.PerArm},
		Origin:     p.Origin,
		References: p.References,
		UnitCosts:  o.UnitCosts,
	}
	if ownKernels(p, o) {
		doc.UnitCosts = &result.UnitCosts{Reason: "the counters come from the kernels inside the environments, where the costs of events were not measured"}
	}
	for _, d := range p.metrics() {
		doc.Workload.Metrics = append(doc.Workload.Metrics, result.Describe(d))
	}
	if w.Operations != nil {
		doc.Workload.Operations = w.Operations.Name
	}
	for i := range p.Cases {
		c, err := identify(o.Host, p, &p.Cases[i])
		if err != nil {
			return nil, err
		}
		doc.Cases = append(doc.Cases, c)
	}
	for i, a := range p.Arms {
		doc.Environments = append(doc.Environments, result.Environment{
			ID: a.Label, Role: role(i, len(p.Arms)), Launcher: a.Launcher.Name, StandsFor: a.StandsFor, Params: a.Params, Subject: a.Subject})
	}
	return doc, nil
}

// planOf makes the plan of a document to be continued.
func planOf(doc *result.Experiment, l Lists, o Options) (*Plan, error) {
	w, err := l.Workload(doc.Workload.Name)
	if err != nil {
		return nil, err
	}
	if w.Version != doc.Workload.Version {
		return nil, fmt.Errorf("the experiment was started with version %d of workload %s, but this program has version %d: finish it with the program that started it", doc.Workload.Version, w.Name, w.Version)
	}
	d := &doc.Design
	p := &Plan{Name: doc.Name, Workload: w, Pairs: d.PairsPlanned, Spare: d.SparePairs, Seed: d.Seed, Primary: d.Primary, Margin: d.Margin, Calibration: d.Calibration, Ceilings: d.Ceilings,
		Origin: doc.Origin, References: doc.References, Then: plannedOf(d.Then), NoCounters: d.NoCounters, LeftOut: d.LeftOut}
	for _, c := range doc.Cases {
		p.Cases = append(p.Cases, Case{c.ID, c.Params})
	}
	for _, e := range doc.Environments {
		x, err := l.launcher(e.Launcher)
		if err != nil {
			return nil, err
		}
		p.Arms = append(p.Arms, Arm{Label: e.ID, Launcher: x, Params: e.Params, Subject: e.Subject, StandsFor: e.StandsFor})
	}
	if err := p.checkSecretsPresent(); err != nil {
		return nil, err
	}
	for i := range p.Cases {
		c, err := identify(o.Host, p, &p.Cases[i])
		if err != nil {
			return nil, err
		}
		if c.Identity != doc.Cases[i].Identity {
			return nil, fmt.Errorf("case %s: the data have changed since the experiment started; start a new experiment", c.ID)
		}
	}
	return p, nil
}

// checkSecretsPresent fails if a parameter lacks its secret, because it was read from a result.
func (p *Plan) checkSecretsPresent() error {
	all := []Params{}
	for _, c := range p.Cases {
		all = append(all, c.Params)
	}
	for _, a := range p.Arms {
		all = append(all, a.Params, a.Subject)
	}
	for _, params := range all {
		for _, name := range slices.Sorted(maps.Keys(params)) {
			if strings.Contains(params[name], printable.Redacted) {
				return fmt.Errorf("results do not record secrets, and parameter %s had one: start the experiment again (keep the secret in a file to be able to resume)", name)
			}
		}
	}
	return nil
}

// subject names the one declared difference of the arms.
func subject(p *Plan) string {
	var names []string
	for _, a := range p.Arms {
		for k, v := range a.Subject {
			if v != p.Arms[0].Subject[k] && !slices.Contains(names, k) {
				names = append(names, k)
			}
		}
		if a.Launcher != p.Arms[0].Launcher || !sameParams(a.Params, p.Arms[0].Params) {
			if !slices.Contains(names, "environment") {
				names = append(names, "environment")
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, "+")
}

func sameParams(a, b Params) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func role(i, n int) result.Role {
	switch {
	case i == 0:
		return result.Baseline
	case i < n-1:
		return result.Intermediate
	}
	return result.Treatment
}

// newID is a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
