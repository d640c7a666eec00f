package sources

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// TestUnknownWords: a word that is not known gives no value, and a reason with the word.
func TestUnknownWords(t *testing.T) {
	card := tee.GPU{MIG: "Disabled", DRAM: "Disabled"}
	with := func(change func(*tee.GPU, *tee.ConfCompute)) func(*host.Host, emitter) error {
		return func(_ *host.Host, out emitter) error {
			g, conf := card, tee.ConfCompute{State: "ON", DevTools: "OFF", MultiGPU: "None", Ready: "Ready"}
			change(&g, &conf)
			return cards{NVIDIA: tee.NVIDIA{GPUs: []tee.GPU{g}}, conf: conf}.send(out)
		}
	}
	for name, c := range map[string]struct {
		fixture, file string
		read          func(*host.Host, emitter) error
		metric        *metric.Desc
		label         string // of the value that is missing
		word          string
	}{
		"SEV-SNP":      {"sev_host", "sys/module/kvm_amd/parameters/sev_snp", readSEVHost, sevEnabled, "sev_snp", "auto"},
		"SEV":          {"sev_host", "sys/module/kvm_amd/parameters/sev", readSEVHost, sevEnabled, "sev", "auto"},
		"TDX":          {"tdx_host", "sys/module/kvm_intel/parameters/tdx", readTDXHost, tdxEnabled, "", "auto"},
		"GPU's mode":   {read: with(func(_ *tee.GPU, c *tee.ConfCompute) { c.DevTools = "auto" }), metric: gpuMode, label: "0", word: "DevTools Mode: auto"},
		"GPU's state":  {read: with(func(_ *tee.GPU, c *tee.ConfCompute) { c.State = "auto" }), metric: gpuMode, label: "0", word: "CC State: auto"},
		"GPU, ready":   {read: with(func(_ *tee.GPU, c *tee.ConfCompute) { c.Ready = "auto" }), metric: gpuReady, word: "CC GPUs Ready State: auto"},
		"GPU's memory": {read: with(func(g *tee.GPU, _ *tee.ConfCompute) { g.DRAM = "auto" }), metric: gpuMemoryEncrypted, label: "0", word: "auto"},
		"GPU's slices": {read: with(func(g *tee.GPU, _ *tee.ConfCompute) { g.MIG = "auto" }), metric: gpuMIG, label: "0", word: "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			var h *host.Host
			check := func() {
				others := 0
				err := c.read(h, func(s metric.Sample) {
					others++
					if s.Desc == c.metric && strings.Join(s.Labels, " ") == c.label {
						t.Errorf("%s: %s%q is %v", name, s.Desc.Name, s.Labels, s.Value)
					}
				})
				if err == nil || !strings.Contains(err.Error(), "unknown") || !strings.Contains(err.Error(), c.word) {
					t.Errorf("%s: the reason is %v", name, err)
				}
				if others == 0 {
					t.Errorf("%s: the other values are missing, too", name)
				}
			}
			if c.fixture == "" {
				check()
				return
			}
			f := hosttest.Open(t, "testdata/"+c.fixture+".txtar")
			h = f.Host
			f.ReplaceDuring(t, c.file, []byte("auto\n"), check)
		})
	}
}
