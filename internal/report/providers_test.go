package report

import (
	"math"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// clusters are a confidential and a managed cluster at each of two providers, with two cases. One arm has a ceiling, and one
// has no runs of the second case.
func clusters() *result.Experiment {
	e := &result.Experiment{Name: "k8s-storage", Workload: result.Workload{Name: "fio", Metrics: []result.MetricDesc{{Name: "operations_per_second", Unit: "operations_per_second", Better: "higher"}}},
		Cases: []result.Case{{ID: "rw=randread"}, {ID: "rw=randwrite"}}}
	e.Design = result.Design{Kind: result.Interleaved, Primary: "operations_per_second", Ceilings: []result.Ceiling{
		{Metric: "operations_per_second", Env: "aks", Value: 600, Source: "Standard SSD of 512 GiB"}, {Metric: "another", Value: 1, Source: "not meant"}}}
	for _, v := range []struct {
		id, provider string
		rate         float64
	}{{"aks", "azure", 590}, {"confidential-azure", "azure", 580}, {"gke", "gcp", 2400}, {"confidential-gcp", "gcp", 2200}} {
		e.Environments = append(e.Environments, result.Environment{ID: v.id, Cloud: &result.Cloud{Provider: v.provider}})
		for _, kase := range []string{"rw=randread", "rw=randwrite"} {
			for pair, factor := range []float64{0.9, 1, 1.2} {
				if v.id == "gke" && kase == "rw=randwrite" {
					continue
				}
				rate := v.rate * factor
				e.Runs = append(e.Runs, result.Run{ID: v.id, Env: v.id, Case: kase, Pair: pair, Status: result.OK, Metrics: []result.Metric{{Name: "operations_per_second", Value: &rate}}})
			}
		}
	}
	return e
}

func TestProviders(t *testing.T) {
	e := clusters()
	p, ok := providers(e, primary(e))
	if !ok {
		t.Fatal("no drawing of two providers")
	}
	want := "rw=randread: azure: aks 590 of at most 600 operations/s, confidential-azure 580 operations/s; gcp: gke 2.4 k operations/s, confidential-gcp 2.2 k operations/s. " +
		"rw=randwrite: azure: aks 590 of at most 600 operations/s, confidential-azure 580 operations/s; gcp: gke missing: nothing ran in gke, confidential-gcp 2.2 k operations/s."
	if p.Alt != want {
		t.Errorf("it shows %q\nwant %q", p.Alt, want)
	}
	if !strings.HasSuffix(p.Title, "higher is better") {
		t.Errorf("its title is %q", p.Title)
	}
	for _, w := range []float64{wide, narrow} {
		s := p.scene(w)
		bars, ceilings := map[string]float64{}, 0
		for _, m := range s.marks {
			switch {
			case m.closed && m.tip != "":
				bars[m.tip] = max(bars[m.tip], m.at[1].x-m.at[0].x)
			case m.tip == "Standard SSD of 512 GiB":
				ceilings++
			}
			for _, at := range m.at {
				if at.x < 0 || at.x > w || at.y < 0 || at.y > s.h {
					t.Errorf("at %v: %+v is outside of %v by %v", w, m, w, s.h)
				}
			}
		}
		if slow, fast := bars["azure, confidential-azure: 580 operations/s"], bars["gcp, confidential-gcp: 2.2 k operations/s"]; len(bars) != 4 || math.Abs(fast/slow-2200.0/580) > 1e-9 { // the longest of both cases
			t.Errorf("at %v: bars %v, want lengths as the values", w, bars)
		}
		if ceilings != 2 {
			t.Errorf("at %v: %d ceilings, want one in each case", w, ceilings)
		}
	}
}

// TestOneProvider: arms of one provider have no groups; those of joined results, whose cloud is not known, have their result's.
func TestOneProvider(t *testing.T) {
	e := clusters()
	for i := range e.Environments {
		e.Environments[i].Cloud = &result.Cloud{Provider: "gcp"}
	}
	if _, ok := providers(e, primary(e)); ok {
		t.Error("one provider is drawn as several")
	}
	for i := range e.Environments {
		e.Environments[i].Cloud = nil
	}
	if _, ok := providers(e, primary(e)); ok {
		t.Error("no known provider is drawn as several")
	}
	for i, name := range []string{"a", "a", "b", "b"} {
		e.Environments[i].Joined = &result.Joined{Name: name}
	}
	p, ok := providers(e, primary(e))
	if !ok || !strings.HasPrefix(p.Alt, "rw=randread: a: aks 590") || !strings.Contains(p.Alt, "; b: gke") {
		t.Errorf("two results: %q", p.Alt)
	}
	e.Runs = nil
	if _, ok := providers(e, primary(e)); ok {
		t.Error("no values are drawn")
	}
}

// TestLimitsOfBars: of several limits the nearest counts, and where lower is better none is below it.
func TestLimitsOfBars(t *testing.T) {
	for better, want := range map[string]string{"higher": "aks 590 of at most 600 operations/s", "lower": "aks 590 of at least 700 operations/s"} {
		t.Run(better, func(t *testing.T) {
			e := clusters()
			e.Workload.Metrics[0].Better = better
			for _, v := range []float64{700, 600, 650} {
				e.Design.Ceilings = append(e.Design.Ceilings, result.Ceiling{Metric: "operations_per_second", Value: v})
			}
			if p, _ := providers(e, primary(e)); !strings.Contains(p.Alt, want) {
				t.Errorf("%s is better: %q, want %q", better, p.Alt, want)
			}
		})
	}
}
