package tee

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/mutate"
)

func TestParseNVIDIA(t *testing.T) {
	b, err := os.ReadFile("testdata/nvidia-h100.xml")
	if err != nil {
		t.Fatal(err)
	}
	log, err := ParseNVIDIA(b)
	if err != nil {
		t.Fatal(err)
	}
	if log.Driver != "580.105.08" || len(log.GPUs) != 1 {
		t.Fatalf("%+v", log)
	}
	g := log.GPUs[0]
	if g.PCI != "00000000:53:00.0" || g.Name != "NVIDIA H100 80GB HBM3" || g.VBIOS != "96.00.99.00.01" || g.MIG != "Disabled" || len(g.Slices) != 0 {
		t.Errorf("%+v", g)
	}
	for what, q := range map[string]struct {
		got  Quantity
		want float64
	}{
		"memory":          {g.Memory.Total, 81559 << 20},
		"protected":       {g.Protected.Total, 0},
		"link generation": {g.Link.Generation, 5},
		"link width":      {g.Link.Width, 16},
		"sent":            {g.Link.Sent, 502e3},
		"received":        {g.Link.Received, 578e3},
		"replays":         {g.Link.Replays, 150},
		"temperature":     {g.Thermal.Memory, 37},
		"power":           {g.Power.Instant, 68.92},
		"clock":           {g.Clocks.Memory, 2619e6},
		"limited":         {g.Limited.PowerCap, 7015.662857},
		"errors":          {g.ECC.SRAMSECDED, 0},
		"busy":            {g.Used.GPU, 0},
	} {
		t.Run(what, func(t *testing.T) {
			if v, ok := q.got.Value(); !ok || math.Abs(v-q.want) > 1e-9*q.want {
				t.Errorf("%s: %v, %v, want %v", what, v, ok, q.want)
			}
		})
	}
	if v, ok := g.OldPower.Draw.Value(); ok {
		t.Errorf("an element that is not there is %v", v)
	}
}

func TestOddProcessNames(t *testing.T) {
	log, err := ParseNVIDIA([]byte("<nvidia_smi_log><gpu id=\"1\"><processes><process_info><pid>7</pid>" +
		"<process_name>a\x01b\xff & c</process_name><used_memory>N/A</used_memory></process_info></processes></gpu></nvidia_smi_log>"))
	if err != nil || len(log.GPUs) != 1 || len(log.GPUs[0].Processes) != 1 {
		t.Fatalf("%+v, %v", log, err)
	}
	if p := log.GPUs[0].Processes[0]; p.PID != "7" || p.Name != "a?b? & c" {
		t.Errorf("%+v", p)
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{"81559 MiB": 81559 << 20, " 7 % ": 0.07, "-8 C": -8, "68.57 W": 68.57, "16x": 16, "0": 0, "2 KB/s": 2000} {
		t.Run(text, func(t *testing.T) {
			var q Quantity
			if err := q.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if v, ok := q.Value(); !ok || math.Abs(v-want) > 1e-9 {
				t.Errorf("%q: %v, %v, want %v", text, v, ok, want)
			}
		})
	}
	for _, text := range []string{"", "N/A", "[Unknown Error]", "Requested functionality has been deprecated", "5 parsecs", "inf W", "NaN", "1e400 W", "0x10", "%"} {
		t.Run(text, func(t *testing.T) {
			q := Quantity{value: 1, said: true}
			if err := q.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if v, ok := q.Value(); ok {
				t.Errorf("%q is %v", text, v)
			}
		})
	}
}

func TestConfCompute(t *testing.T) {
	for _, tt := range []struct {
		name, mode string
		out        []string
		ready      string
	}{
		// H100 NVL in an SEV-SNP guest on Azure, driver 595.71.05, and H20 with
		// confidential computing off, as people have published them.
		{"on", GPUOn, []string{"CC State                   : ON\nMulti-GPU Mode             : None\nCPU CC Capabilities        : AMD SEV-SNP(vTOM Mode)\nGPU CC Capabilities        : CC Capable\nCC GPUs Ready State        : Ready\nDevTools Mode              : OFF\n"}, "Ready"},
		{"off", GPUOff, []string{"CC State                   : OFF\nGPU CC Capabilities        : CC Capable\nCC GPUs Ready State        : Ready\n", "CC status: OFF\n", "DevTools Mode: OFF\n"}, "Ready"},
		// Eight H100 in a TDX guest: the state alone would mislead.
		{"protected PCIe", GPUProtectedPCIe, []string{"\n==============NVSMI CONF-COMPUTE LOG==============\n\n    CC State                   : OFF\n    Multi-GPU Mode             : Protected PCIe\n    CPU CC Capabilities        : INTEL TDX\n    GPU CC Capabilities        : CC Capable\n    CC GPUs Ready State        : Ready\n"}, "Ready"},
		{"devtools", GPUDevTools, []string{"CC State : ON\nCC GPUs Ready State : Not Ready\n", "DevTools Mode: ON\n"}, "Not Ready"},
		{"old driver", GPUOn, []string{"CC status: ON\n", "Confidential Compute GPUs Ready state: not-ready\n"}, "not-ready"},
		// Words that are not known, of which none may read as off or as closed to debuggers.
		{"other state", "", []string{"CC State : PARTIAL\nCC GPUs Ready State : Ready\n"}, "Ready"},
		{"other tools", "", []string{"CC State : ON\nCC GPUs Ready State : Ready\n", "DevTools Mode: PROFILING\n"}, "Ready"},
		{"other link", "", []string{"CC State : OFF\nMulti-GPU Mode : Secret NVLink\nCC GPUs Ready State : Ready\n"}, "Ready"},
		{"other link, on", GPUOn, []string{"CC State : ON\nMulti-GPU Mode : NVLE\nCC GPUs Ready State : Ready\n"}, "Ready"},
		{"no answer", "", []string{"No devices were found\n", "", ": :\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var outs [][]byte
			for _, o := range tt.out {
				outs = append(outs, []byte(o))
			}
			c := ParseConfCompute(outs...)
			if c.Mode() != tt.mode || c.Ready != tt.ready {
				t.Errorf("%s: mode %q of %+v", tt.name, c.Mode(), c)
			}
			if other := strings.HasPrefix(tt.name, "other") && tt.mode == ""; (c.Unknown() != "") != other {
				t.Errorf("%s: %q is unknown", tt.name, c.Unknown())
			}
		})
	}
	for word, want := range map[string][2]bool{"Ready": {true, true}, "ready": {true, true}, "Not Ready": {false, true}, "not-ready": {false, true}, "Warming": {false, false}} {
		t.Run(word, func(t *testing.T) {
			if ready, known := (ConfCompute{Ready: word}).IsReady(); ready != want[0] || known != want[1] {
				t.Errorf("%s: %v, %v; want %v", word, ready, known, want)
			}
		})
	}
	if m := (GPU{Protected: GPUMemory{Total: Quantity{value: 1, said: true}}}).Mode(ConfCompute{State: "ON", DevTools: "PROFILING"}); m != "" {
		t.Errorf("protected memory, and a word that is not known: mode %q", m)
	}
	if m := (GPU{Protected: GPUMemory{Total: Quantity{value: 1, said: true}}}).Mode(ConfCompute{}); m != GPUOn {
		t.Errorf("protected memory, and no answer: mode %q", m)
	}
	if m := (GPU{}).Mode(ConfCompute{}); m != "" {
		t.Errorf("nothing said: mode %q", m)
	}
}

func FuzzNVIDIA(f *testing.F) {
	if b, err := os.ReadFile("testdata/nvidia-h100.xml"); err == nil {
		f.Add(b)
	}
	for _, s := range []string{"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "<nvidia_smi_log><gpu><pci><tx_util>-1 KB/s</tx_util></pci></gpu></nvidia_smi_log>", "CC State : ON\nDevTools Mode: \xff", "<!DOCTYPE x [<!ENTITY a \"b\">]><nvidia_smi_log>&a;</nvidia_smi_log>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := soundNVIDIA(b); err != nil {
			t.Fatal(err)
		}
	})
}

// soundNVIDIA says what is wrong with what is read from an answer of nvidia-smi.
func soundNVIDIA(b []byte) error {
	log, err := ParseNVIDIA(b)
	if err != nil && (log.GPUs != nil || err.Error() == "") {
		return fmt.Errorf("cards %v beside %w", log.GPUs, err)
	}
	for _, g := range log.GPUs {
		for _, q := range []Quantity{g.Memory.Total, g.Link.Sent, g.Power.Draw, g.Limited.PowerCap} {
			if v, _ := q.Value(); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("quantity %v", v)
			}
		}
	}
	c := ParseConfCompute(b)
	for _, s := range []string{c.State, c.Ready, c.CPU, c.GPU, c.Environment, c.MultiGPU} {
		if len(s) > 64 || s != strings.ToValidUTF8(s, "") {
			return fmt.Errorf("field %q", s)
		}
	}
	return nil
}

// TestDamagedNVIDIA: whatever is wrong with an answer of nvidia-smi, what is read is text and numbers.
func TestDamagedNVIDIA(t *testing.T) {
	b, err := os.ReadFile("testdata/nvidia-h100.xml")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ParseNVIDIA(b)
	if err != nil {
		t.Fatal(err)
	}
	mutate.Try(t, "nvidia-smi -q -x", b, "<> \t", func(m mutate.Mutation) error {
		if log, err := ParseNVIDIA(m.Data); m.Same && (err != nil || !reflect.DeepEqual(log, whole)) {
			return fmt.Errorf("it is %+v: %w", log, err)
		}
		return soundNVIDIA(m.Data)
	})
	mutate.Try(t, "conf-compute", []byte("CC State : ON\nCPU CC Capabilities : AMD SEV-SNP\nConfidential Compute GPUs Ready state: ready\n"), ": ", func(m mutate.Mutation) error { return soundNVIDIA(m.Data) })
}
