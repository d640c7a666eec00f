package proof

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/attest"
)

// GPU is the name of NVIDIA's GPUs in a policy. Their reports say nothing of the machine around them, so only a policy
// that names them accepts one.
const gpu = "nvidia-gpu"

// addUnboundGPUs says that evidence of GPUs is not evidence of an environment.
func (r *Report) addUnboundGPUs() {
	r.add("environment", NotChecked, true, "a GPU's report says nothing about the CPU, the memory or the programs, so it does not prove where the benchmark ran; a policy with tee: ["+gpu+"] accepts that")
}

// manifests compares the measurements of GPUs with those that NVIDIA publishes.
func (r *Report) manifests(f *attest.Facts, manifests []*attest.RIM) {
	const name = "firmware"
	switch {
	case len(f.GPUs) == 0:
		r.add(name, Fails, true, "manifests of NVIDIA's firmware were named, but the evidence is not of a GPU")
		return
	case len(manifests) == 0:
		r.add(name, NotChecked, false, "the GPU's measurements were not compared, because no manifest was named (--rim)")
		return
	}
	equal := 0
	var missing []string
	for n, g := range f.GPUs {
		c := g.Compare(manifests)
		if len(c.Other) > 0 {
			r.add(name, Fails, true, fmt.Sprintf("GPU %d (%s) differs from the manifests of driver %s and VBIOS %s in these measurements: %s", n, g.Serial, g.Driver, g.VBIOS, strings.Trim(fmt.Sprint(c.Other), "[]")))
			return
		}
		equal += c.Equal
		for _, m := range c.Missing {
			missing = append(missing, fmt.Sprintf("%s of GPU %d", m, n))
		}
	}
	if len(missing) > 0 {
		r.add(name, NotChecked, true, fmt.Sprintf("%d measurements equal those in the manifests; no manifest was named for %s", equal, strings.Join(missing, ", ")))
		return
	}
	r.add(name, Holds, true, fmt.Sprintf("%d measurements equal those in the manifests of driver and VBIOS; the signatures of these manifests were not verified", equal))
}

// ofGPUs says what the reports of GPUs prove, and what not.
func ofGPUs(all []attest.GPU, state func(check string) State) (proved, open []string) {
	var each []string
	for _, g := range all {
		text := fmt.Sprintf("%s %s, driver %s, VBIOS %s", g.Device, g.Serial, g.Driver, g.VBIOS)
		if g.Mode != "" {
			text += ", mode " + g.Mode
		}
		each = append(each, text)
	}
	who := "an NVIDIA GPU"
	if len(all) > 1 {
		who = fmt.Sprintf("%d NVIDIA GPUs", len(all))
	}
	proved = []string{who + " (" + strings.Join(each, "; ") + ") signed a report about exactly this result"}
	open = []string{"where it was made (a GPU's report says nothing about the CPU)"}
	if state("measurement") == Holds {
		proved = append(proved, "its registers are those of the policy")
	}
	if state("firmware") == Holds {
		proved = append(proved, "its firmware is that of the named manifests")
	} else {
		open = append(open, "which firmware the GPU ran (name NVIDIA's manifests with --rim)")
	}
	return proved, append(open, "that confidential mode was on and debugging off", "that no certificate was revoked")
}
