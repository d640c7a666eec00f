package workloads

import (
	"bytes"
	"debug/elf"
	"slices"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/workloads/micro"
)

// TestForms: a workload of the tiny worker brings the form that is asked for, and the two differ in that alone.
func TestForms(t *testing.T) {
	if micro.In(micro.Dynamic) == nil {
		t.Skip("no worker was built for this architecture")
	}
	for _, name := range []string{"syscall", "startup", "wakeup"} {
		t.Run(name, func(t *testing.T) {
			w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == name })]
			for form, interpreter := range map[string]bool{"": false, micro.Static: false, micro.Dynamic: true} {
				given := bench.Params{}
				if form != "" {
					given["form"] = form
				}
				p, err := bench.Complete("workload", w.Params, given)
				if err != nil {
					t.Fatal(err)
				}
				job, err := w.Job(p)
				if err != nil || len(job.Files) != 1 || job.Inside.Argv[0] != "{work}/"+job.Files[0].Name {
					t.Fatalf("%s, %s: %+v, %v", name, form, job.Inside, err)
				}
				f, err := elf.NewFile(bytes.NewReader(job.Files[0].Data))
				if err != nil {
					t.Fatal(err)
				}
				if got := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }); got != interpreter {
					t.Errorf("%s, form %q: the program names an interpreter: %v", name, form, got)
				}
			}
		})
	}
}
