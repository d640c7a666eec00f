package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/host"
)

// TestQuick: --quick is one short case of any workload, with spare pairs, and of redis and nginx in two arms at most two minutes
// by its plan, which the dry run says before anything else.
func TestQuick(t *testing.T) {
	for _, w := range workloads.All {
		plans, err := bench.NewPlans(bench.Choice{Experiment: &bench.Experiment{Name: w.Name, Workload: w.Name}, Envs: []string{"native", "container"}, Quick: true}, lists())
		if err != nil {
			if strings.Contains(err.Error(), bench.ErrAsks.Error()) || strings.Contains(err.Error(), "must") || strings.Contains(err.Error(), "want") {
				continue // it asks for a parameter
			}
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		if len(plans) != 1 || len(plans[0].Cases) != 1 || plans[0].Pairs != bench.QuickPairs || plans[0].Spare == 0 {
			t.Errorf("%s: %d plans, the first with %d cases, %d pairs and %d spare ones", w.Name, len(plans), len(plans[0].Cases), plans[0].Pairs, plans[0].Spare)
		}
		took, _ := plans[0].Estimate()
		if longest := took + plans[0].Spared(); (w.Name == "redis" || w.Name == "nginx") && longest > 2*time.Minute {
			t.Errorf("%s takes %v with all its spare pairs", w.Name, longest)
		}
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: &bench.Experiment{Name: "redis", Workload: "redis"}, Envs: []string{"native", "container"}, Quick: true,
		Params: map[string]string{"connections": "8|320", "measure": "3s"}}, lists())
	if err != nil || len(plans[0].Cases) != 2 || plans[0].Cases[0].Params["measure"] != "3s" || plans[0].Cases[0].Params["keys"] != "20000" {
		t.Errorf("with parameters of the user: %+v, %v", plans, err)
	}
	experiment := &bench.Experiment{Name: "mine", Workload: "redis", Params: map[string]string{"keys": "5000"}, Sweep: map[string][]string{"connections": {"4", "16"}},
		Then: []bench.Pass{{Name: "later", Loads: []bench.Share{0.5}}}}
	plans, err = bench.NewPlans(bench.Choice{Experiment: experiment, Envs: []string{"native", "container"}, Quick: true}, lists())
	if err != nil {
		t.Fatal(err)
	}
	if p := plans[0]; len(p.Cases) != 1 || p.Cases[0].Params["keys"] != "5000" || p.Cases[0].Params["connections"] != "4" || len(p.Then) > 0 {
		t.Errorf("an experiment keeps its parameters and the first of its sweep, without what follows: %+v", p)
	}
	var b strings.Builder
	_ = dryRun(&b, host.At(t.TempDir()), plans, true) // which has no redis
	if line, _, _ := strings.Cut(b.String(), "\n"); !strings.HasPrefix(line, "mine: about ") || !strings.Contains(line, " with 2 spare pairs") {
		t.Errorf("the length is not said first: %s", line)
	}
}

// TestUsualNames: names that users know run, or the error says what to type.
func TestUsualNames(t *testing.T) {
	plan := func(env string) (*bench.Plan, error) {
		plans, err := bench.NewPlans(bench.Choice{Experiment: &bench.Experiment{Name: "startup", Workload: "startup"}, Envs: []string{"native", env}}, lists())
		if err != nil {
			return nil, err
		}
		return plans[0], nil
	}
	for env, want := range map[string][3]string{
		"docker": {"container", "runtime", "docker"}, "podman": {"container", "runtime", "podman"}, "vm": {"qemu", "cvm", "none"}, "tdx": {"qemu", "cvm", "tdx"},
		"snp": {"qemu", "cvm", "snp"}, "gvisor": {"runsc", "platform", "systrap"}, "tdx,memory=2GiB": {"qemu", "memory", "2GiB"}, "mine=docker": {"container", "runtime", "docker"},
	} {
		t.Run(env, func(t *testing.T) {
			p, err := plan(env)
			if err != nil {
				t.Errorf("%s: %v", env, err)
				return
			}
			label, _, _ := strings.Cut(strings.Split(env, ",")[0], "=")
			if a := p.Arms[1]; a.Launcher.Name != want[0] || a.Params[want[1]] != want[2] || a.Label != label {
				t.Errorf("%s is %s as %s with %v", env, a.Label, a.Launcher.Name, a.Params)
			}
		})
	}
	for env, want := range map[string]string{"sgx": "type gramine-sgx", "k8s": "type pod", "cvm": "tdx or snp", "tdx,cvm=snp": "cvm=snp cannot be set", "nosuch": "bench list", "native,stands_for=": "stands_for=tdx"} {
		t.Run(env, func(t *testing.T) {
			if _, err := plan(env); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", env, err, want)
			}
		})
	}
}

// TestDryRunSaysStandIn: on a machine without KVM the dry run says that a guest will be emulated, with the accelerator that it
// will have, and names what an arm is declared to stand in for. The same arm without that is real.
func TestDryRunSaysStandIn(t *testing.T) {
	e := &bench.Experiment{Name: "startup", Workload: "startup", Environments: []string{"native", "plain=runsc", "tee=runsc", "guest=vm", "sgx=runsc,stands_for=sgx"},
		StandsFor: map[string]string{"tee": "tdx"}}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	_ = dryRun(&b, host.At(t.TempDir()), plans, true)
	out := b.String()
	for _, want := range []string{"stand-in: environment guest (qemu) will be emulated in software (no /dev/kvm)", "-accel tcg", "stand-in: environment tee (runsc) stands in for tdx",
		"stand-in: environment sgx (runsc) stands in for sgx", "  environment plain (runsc)\n", "  environment native (native)\n"} {
		t.Run(want, func(t *testing.T) {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		})
	}
	if strings.Contains(out, "-accel kvm") {
		t.Errorf("it names an accelerator that the run will not have:\n%s", out)
	}
	e.StandsFor["absent"] = "tdx"
	if _, err := bench.NewPlans(bench.Choice{Experiment: e}, lists()); err == nil || !strings.Contains(err.Error(), `stands_for: no environment "absent"`) {
		t.Errorf("an environment that is not there: %v", err)
	}
}
