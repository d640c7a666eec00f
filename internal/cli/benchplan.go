//go:build linux

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// target is a platform on which an experiment can run.
type target struct {
	name, needs string
	// setup is done by hand, once, before the run.
	setup []string
	// envs are the environments there, in the notation of --env; the user replaces
	// values in capitals.
	envs  []string
	notes []string
	// own: the environments are the experiment's own.
	own bool
}

// targets are the platforms that `bench plan` writes commands for.
var targets = []target{
	{
		name: "SGX host", needs: "CPU with SGX2 and flexible launch control, Linux 5.11 or newer (/dev/sgx_enclave), Gramine, and a signing key (gramine-sgx-gen-private-key)",
		envs:  []string{"native", "gramine-direct", "gramine-sgx"},
		notes: []string{"the ladder separates the cost of the library OS (gramine-direct against native) from that of the enclave (gramine-sgx against gramine-direct)"},
	},
	{
		name: "TDX guest", needs: "a TDX host with its KVM and QEMU, or two machines of one instance type in a cloud, one of them a TD",
		setup: []string{"on one TDX host, both guests from one image:  --env vm=qemu,accel=kvm --env bounce=qemu,accel=kvm,bounce=on --env tdx=qemu,accel=kvm,cvm=tdx"},
		envs:  []string{"vm=ssh:USER@PLAIN_VM", "tdx=ssh:USER@TD_GUEST"},
		notes: []string{"two rented machines are two hosts: grade C at best, a platform difference and not overhead; the qemu ladder on one host is grade A"},
	},
	{
		name: "SEV-SNP guest", needs: "an AMD host with SNP enabled (kvm_amd sev_snp=Y) and QEMU 9.1 or newer, or two machines of one instance type in a cloud, one of them confidential",
		setup: []string{"on one SNP host, both guests from one image:  --env vm=qemu,accel=kvm --env bounce=qemu,accel=kvm,bounce=on --env snp=qemu,accel=kvm,cvm=snp"},
		envs:  []string{"vm=ssh:USER@PLAIN_VM", "snp=ssh:USER@SNP_GUEST"},
		notes: []string{"two rented machines are two hosts: grade C at best; the qemu ladder on one host is grade A"},
	},
	{
		name: "H200 in confidential-compute mode", needs: "an NVIDIA H100 or H200, a CPU TEE, and permission to switch the GPU's mode (a reset each time)",
		setup: []string{
			"boot with confidential computing off (nvidia-smi conf-compute -f says OFF), run, and keep the file as off.json",
			"switch the mode on with the vendor's tool, boot the confidential guest, run the same command, and keep the file as on.json",
			"teescope compare off.json on.json",
		},
		envs:  []string{"native"},
		notes: []string{"the mode cannot change between the runs of a pair, so the files are unpaired: grade B on one host"},
	},
}

func benchPlanCommand(env Env) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "plan NAME",
		Short: "Print the commands that run a workload or experiment on an SGX host, a TDX or SEV-SNP guest, or an H200",
		Example: "  teescope bench plan startup\n" +
			"  teescope bench plan memory --param size=1GiB",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			choices, err := f.choices(args, false)
			if err != nil {
				return err
			}
			all := targets
			e := choices[0].Experiment
			envs := e.Environments
			if w, err := lists().Workload(e.Workload); err == nil && len(envs) == 0 {
				envs = w.Environments
			}
			if len(envs) > 1 {
				all = []target{{name: args[0], needs: "what the environments need (an environment that lacks something is left out):", envs: envs, own: true}}
			}
			for _, t := range all {
				if err := t.print(env.Stdout, args[0], f, choices[0]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&f.params, "param", nil, "parameter of the workload, as K=V")
	return c
}

// print prints the commands for each result that the choice makes there.
func (t target) print(w io.Writer, name string, f benchFlags, c bench.Choice) error {
	c.Envs, c.Pairs = t.envs, bench.PublishPairs
	plans, err := bench.NewPlans(c, lists())
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	fmt.Fprintf(w, "## %s\n\n", t.name)
	p := plans[0]
	for i := range p.Arms {
		if err := p.Refused(&p.Arms[i]); err != nil && !t.own {
			fmt.Fprintf(w, "%s cannot run there: environment %s: %s\n\n", name, p.Arms[i].Label, contain.OneLine(err))
			return nil
		}
	}
	fmt.Fprintf(w, "needs: %s\n", t.needs)
	if t.own {
		for _, x := range p.Lacking(host.Local()) {
			fmt.Fprintf(w, "  %s, not on this machine: %s\n", x.Env, contain.OneLine(errors.New(x.Why)))
		}
	}
	for i, s := range t.setup {
		fmt.Fprintf(w, "step %d: %s\n", i+1, s)
	}
	out := strings.ReplaceAll(strings.ToLower(t.name), " ", "-")
	line := []string{"teescope", "bench", "run", name, "--publish"}
	if !t.own {
		for _, e := range t.envs {
			line = append(line, "--env", quoted(e))
		}
	}
	for _, kv := range f.params {
		line = append(line, "--param", quoted(kv))
	}
	files, command := out+".json", strings.Join(line, " ")
	if len(plans) > 1 {
		files = out + "/*.json"
		command += " --out " + out
	} else {
		command += " --out " + files
	}
	fmt.Fprintf(w, "\n  teescope doctor\n  %s\n  teescope report %s --out %s.html\n\n", command, files, out)
	for _, p := range plans {
		if err := t.started(w, p); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "files: %s (the result), %s (the output of every run), %s.html (the report)\n", files, strings.TrimSuffix(files, ".json")+".raw/", out)
	for _, n := range t.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	fmt.Fprintln(w)
	return nil
}

// started prints the commands that a plan starts, and how long it takes.
func (t target) started(w io.Writer, p *bench.Plan) error {
	for i := range p.Arms {
		a := &p.Arms[i]
		commands, err := p.Commands(a, &p.Cases[0])
		if err != nil {
			return fmt.Errorf("%s: environment %s: %w", t.name, a.Label, err)
		}
		fmt.Fprintf(w, "%s starts in %s:\n", p.Name, a.Label)
		for _, c := range commands {
			fmt.Fprintf(w, "  %s\n", shellLine(c))
		}
	}
	took, disk := p.Estimate()
	fmt.Fprintf(w, "%s of %s, about %s plus launching, %s of disk\n\n", metric.Plural(p.Pairs*len(p.Arms)*len(p.Cases), "run"), metric.Plural(len(p.Cases), "case"), round(took), metric.Value(float64(disk), "bytes"))
	return nil
}
