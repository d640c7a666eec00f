package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
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
		envs:  []string{"vm=ssh,host=USER@PLAIN_VM", "tdx=ssh,host=USER@TD_GUEST"},
		notes: []string{"two rented machines are two hosts: grade C at best, a platform difference and not overhead; the qemu ladder on one host is grade A"},
	},
	{
		name: "SEV-SNP guest", needs: "an AMD host with SNP enabled (kvm_amd sev_snp=Y) and QEMU 9.1 or newer, or two machines of one instance type in a cloud, one of them confidential",
		setup: []string{"on one SNP host, both guests from one image:  --env vm=qemu,accel=kvm --env bounce=qemu,accel=kvm,bounce=on --env snp=qemu,accel=kvm,cvm=snp"},
		envs:  []string{"vm=ssh,host=USER@PLAIN_VM", "snp=ssh,host=USER@SNP_GUEST"},
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
		Short: "Print the commands to run on hardware that is not here",
		Example: "  teescope bench plan startup\n" +
			"  teescope bench plan memory --param size=1GiB",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			choices, err := f.choices(args, false)
			if err != nil {
				return err
			}
			for _, t := range targets {
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

func (t target) print(w io.Writer, name string, f benchFlags, c bench.Choice) error {
	c.Envs, c.Pairs = t.envs, bench.PublishPairs
	p, err := bench.NewPlan(c, lists())
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	fmt.Fprintf(w, "## %s\n\nneeds: %s\n", t.name, t.needs)
	for i, s := range t.setup {
		fmt.Fprintf(w, "step %d: %s\n", i+1, s)
	}
	out := strings.ReplaceAll(strings.ToLower(t.name), " ", "-")
	line := []string{"teescope", "bench", "run", name, "--publish"}
	for _, e := range t.envs {
		line = append(line, "--env", quoted(e))
	}
	for _, kv := range f.params {
		line = append(line, "--param", quoted(kv))
	}
	fmt.Fprintf(w, "\n  teescope doctor\n  %s --out %s.json\n  teescope report %s.json --out %s.html\n\n", strings.Join(line, " "), out, out, out)
	for i := range p.Arms {
		a := &p.Arms[i]
		commands, err := p.Commands(a, &p.Cases[0])
		if err != nil {
			return fmt.Errorf("%s: environment %s: %w", t.name, a.Label, err)
		}
		fmt.Fprintf(w, "this starts in %s:\n", a.Label)
		for _, c := range commands {
			fmt.Fprintf(w, "  %s\n", shellLine(c))
		}
	}
	took, disk := p.Estimate()
	fmt.Fprintf(w, "\n%d runs of %d case(s), about %s plus launching, %s of disk\n", p.Pairs*len(p.Arms)*len(p.Cases), len(p.Cases), round(took), metric.Value(float64(disk), "bytes"))
	fmt.Fprintf(w, "files: %s.json (the result), %s.raw/ (the output of every run), %s.html (the report)\n", out, out, out)
	for _, n := range t.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	fmt.Fprintln(w)
	return nil
}
