package tee

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/document"
)

// The commands whose output ParseNVIDIA and ParseConfCompute read. They are asked
// for because the driver's files in /proc and /sys do not name the mode of
// confidential computing.
var (
	NVIDIAQuery = []string{"nvidia-smi", "-q", "-x"}
	// ConfComputeQuery says most; the others say, in one line each, what it
	// leaves out, which depends on the driver.
	ConfComputeQuery       = []string{"nvidia-smi", "conf-compute", "-q"}
	ConfComputeStatus      = []string{"nvidia-smi", "conf-compute", "-f"}
	ConfComputeDevTools    = []string{"nvidia-smi", "conf-compute", "-d"}
	ConfComputeEnvironment = []string{"nvidia-smi", "conf-compute", "-e"}
)

// NVIDIA is the part of "nvidia-smi -q -x" that teescope uses. The element names
// are those of nvsmi_device_v12.dtd (drivers 535 to 555) and v13 (560 and later).
type NVIDIA struct {
	Driver string `xml:"driver_version"`
	// GPUs are in the order of their index.
	GPUs []GPU `xml:"gpu"`
}

// GPU is one card. Quantities are in base units, and absent where the driver
// says "N/A" or does not know the element.
type GPU struct {
	PCI       string       `xml:"id,attr"`
	Name      string       `xml:"product_name"`
	UUID      string       `xml:"uuid"`
	VBIOS     string       `xml:"vbios_version"`
	Memory    GPUMemory    `xml:"fb_memory_usage"`
	Protected GPUMemory    `xml:"cc_protected_memory_usage"`
	Used      GPUUse       `xml:"utilization"`
	Link      GPULink      `xml:"pci"`
	Thermal   GPUThermal   `xml:"temperature"`
	Power     GPUPower     `xml:"gpu_power_readings"`
	OldPower  GPUPower     `xml:"power_readings"` // before driver 530
	Clocks    GPUClocks    `xml:"clocks"`
	Limited   GPULimited   `xml:"clocks_event_reasons_counters"`
	ECC       GPUErrors    `xml:"ecc_errors>volatile"`
	MIG       string       `xml:"mig_mode>current_mig"`
	Slices    []struct{}   `xml:"mig_devices>mig_device"`
	DRAM      string       `xml:"dram_encryption_mode>current_dram_encryption"`
	Processes []GPUProcess `xml:"processes>process_info"`
}

// GPUMemory is memory in bytes.
type GPUMemory struct {
	Total Quantity `xml:"total"`
	Used  Quantity `xml:"used"`
}

// GPUUse is the share of the last sample period, of a sixth of a second to one
// second, in which a part of the card was busy.
type GPUUse struct {
	GPU     Quantity `xml:"gpu_util"`
	Memory  Quantity `xml:"memory_util"`
	Encoder Quantity `xml:"encoder_util"`
	Decoder Quantity `xml:"decoder_util"`
}

// GPULink is the PCIe link. Rates are in bytes per second over the 20 ms before
// the query, and seen from the card: Sent went to the host.
type GPULink struct {
	Generation Quantity `xml:"pci_gpu_link_info>pcie_gen>current_link_gen"`
	Width      Quantity `xml:"pci_gpu_link_info>link_widths>current_link_width"`
	Replays    Quantity `xml:"replay_counter"`
	Sent       Quantity `xml:"tx_util"`
	Received   Quantity `xml:"rx_util"`
}

// GPUThermal is temperatures in degrees Celsius.
type GPUThermal struct {
	GPU    Quantity `xml:"gpu_temp"`
	Memory Quantity `xml:"memory_temp"`
}

// GPUPower is power in watts. Which of the draws a driver has depends on its version.
type GPUPower struct {
	Average Quantity `xml:"average_power_draw"`
	Instant Quantity `xml:"instant_power_draw"`
	Draw    Quantity `xml:"power_draw"`
	Limit   Quantity `xml:"current_power_limit"`
	Limit12 Quantity `xml:"power_limit"`
}

// GPUClocks is frequencies in hertz.
type GPUClocks struct {
	Graphics Quantity `xml:"graphics_clock"`
	SM       Quantity `xml:"sm_clock"`
	Memory   Quantity `xml:"mem_clock"`
	Video    Quantity `xml:"video_clock"`
}

// GPULimited is the time in seconds for which clocks were held down, by reason,
// since the driver was loaded.
type GPULimited struct {
	PowerCap   Quantity `xml:"clocks_event_reasons_counters_sw_power_cap"`
	SyncBoost  Quantity `xml:"clocks_event_reasons_counters_sync_boost"`
	Thermal    Quantity `xml:"clocks_event_reasons_counters_sw_therm_slowdown"`
	HWThermal  Quantity `xml:"clocks_event_reasons_counters_hw_therm_slowdown"`
	PowerBrake Quantity `xml:"clocks_event_reasons_counters_hw_power_brake"`
}

// GPUErrors is memory errors since the driver was loaded, as drivers from Ampere
// on count them.
type GPUErrors struct {
	SRAMCorrected   Quantity `xml:"sram_correctable"`
	SRAMUncorrected Quantity `xml:"sram_uncorrectable"`        // before driver 550
	SRAMParity      Quantity `xml:"sram_uncorrectable_parity"` // and in two parts since
	SRAMSECDED      Quantity `xml:"sram_uncorrectable_secded"`
	DRAMCorrected   Quantity `xml:"dram_correctable"`
	DRAMUncorrected Quantity `xml:"dram_uncorrectable"`
}

// GPUProcess is a process that has memory on the card.
type GPUProcess struct {
	PID    string   `xml:"pid"`
	Name   string   `xml:"process_name"`
	Memory Quantity `xml:"used_memory"`
}

// ParseNVIDIA reads the output of NVIDIAQuery.
func ParseNVIDIA(out []byte) (NVIDIA, error) {
	var log struct {
		XMLName xml.Name `xml:"nvidia_smi_log"`
		NVIDIA
	}
	// A process may call itself anything, and one odd name must not hide the cards.
	d := xml.NewDecoder(bytes.NewReader(bytes.Map(legible, document.Text(out))))
	d.Strict = false
	if err := d.Decode(&log); err != nil {
		return NVIDIA{}, fmt.Errorf("parse nvidia-smi -q -x: %w", err)
	}
	return log.NVIDIA, nil
}

// legible replaces what XML 1.0 has no place for.
func legible(r rune) rune {
	if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xfffe || r == 0xffff {
		return '?'
	}
	return r
}

// Quantity is a number with a unit as nvidia-smi writes it ("81559 MiB",
// "502 KB/s", "16x"), in base units. The zero value is absent.
type Quantity struct {
	value float64
	said  bool
	bad   string
}

// Bad is the driver's text where it should be a number and is not, "" otherwise: "N/A" is an answer.
func (q Quantity) Bad() string { return q.bad }

// Value returns the number, and false where the driver did not say it.
func (q Quantity) Value() (float64, bool) { return q.value, q.said }

// unit is how to come to the base unit: two numbers, as a hundredth is no float64.
type unit struct{ times, over float64 }

var units = map[string]unit{
	"": {1, 1}, "W": {1, 1}, "C": {1, 1}, "x": {1, 1}, "%": {1, 100},
	"KiB": {1 << 10, 1}, "MiB": {1 << 20, 1}, "GiB": {1 << 30, 1},
	"KB/s": {1e3, 1}, "MB/s": {1e6, 1}, "GB/s": {1e9, 1},
	"MHz": {1e6, 1}, "us": {1, 1e6},
}

func isUnit(unit string) bool { _, ok := units[unit]; return ok }

// UnmarshalText implements encoding.TextUnmarshaler. Text that is no quantity
// ("N/A", "[Unknown Error]") leaves it absent.
func (q *Quantity) UnmarshalText(b []byte) error {
	*q = Quantity{}
	text := strings.TrimSpace(string(b))
	number := strings.TrimRightFunc(text, func(r rune) bool { return !unicode.IsDigit(r) })
	unit, ok := units[strings.TrimSpace(text[len(number):])]
	v, err := strconv.ParseFloat(number, 64)
	if v *= unit.times; err != nil || !ok || math.IsInf(v, 0) || math.IsNaN(v) {
		words := strings.Fields(text)
		if last := words[max(0, len(words)-1):]; number != "" || slices.Contains(words, "NaN") || len(last) > 0 && isUnit(last[0]) {
			q.bad = text
		}
		return nil
	}
	*q = Quantity{value: v / unit.over, said: true}
	return nil
}

// ConfCompute is what nvidia-smi says of confidential computing. It speaks for
// all cards of the machine, as the driver takes them in one mode only. A field is
// empty where nothing was said.
type ConfCompute struct {
	State, DevTools, MultiGPU, Ready, Environment string
	// CPU and GPU are what processor and card are capable of, in the driver's words.
	CPU, GPU string
}

// ParseConfCompute reads the outputs of the conf-compute commands together.
func ParseConfCompute(outs ...[]byte) ConfCompute {
	var c ConfCompute
	field := map[string]*string{
		"CC State": &c.State, "CC status": &c.State,
		"DevTools Mode":       &c.DevTools,
		"Multi-GPU Mode":      &c.MultiGPU,
		"CC GPUs Ready State": &c.Ready, "Confidential Compute GPUs Ready state": &c.Ready,
		"CC Environment":      &c.Environment,
		"CPU CC Capabilities": &c.CPU, "GPU CC Capabilities": &c.GPU,
	}
	for _, out := range outs {
		for line := range strings.Lines(string(bytes.Map(legible, out))) {
			key, value, ok := strings.Cut(line, ":")
			if f := field[strings.TrimSpace(key)]; ok && f != nil {
				value = strings.TrimSpace(value)
				*f = strings.ToValidUTF8(value[:min(len(value), 64)], "")
			}
		}
	}
	return c
}

// The modes of confidential computing on NVIDIA cards.
const (
	GPUOff           = "off"
	GPUOn            = "on"
	GPUDevTools      = "devtools"       // on, with debuggers and profilers let in
	GPUProtectedPCIe = "protected-pcie" // several Hopper cards whose links among each other are in the clear
)

// is reports whether a word of the driver is one of some, in any case.
func is(word string, some ...string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return strings.EqualFold(word, s) })
}

// Mode is one of the modes, or "" where the driver did not say, or said a word that is not known (see Unknown).
func (c ConfCompute) Mode() string {
	switch {
	case c.Unknown() != "":
		return ""
	case is(c.State, "ON") && is(c.DevTools, "ON"):
		return GPUDevTools
	case is(c.State, "ON"):
		return GPUOn
	// With protected PCIe the state reads OFF.
	case is(c.MultiGPU, "Protected PCIe"):
		return GPUProtectedPCIe
	case is(c.State, "OFF"):
		return GPUOff
	}
	return ""
}

// Unknown is the driver's line that decides the mode and has a word that is not known, else "". A newer driver's word must not
// read as off, or as closed to debuggers.
func (c ConfCompute) Unknown() string {
	switch {
	case !is(c.State, "", "N/A", "ON", "OFF"):
		return "CC State: " + c.State
	case is(c.State, "ON") && !is(c.DevTools, "", "N/A", "ON", "OFF"):
		return "DevTools Mode: " + c.DevTools
	case is(c.State, "OFF") && !is(c.MultiGPU, "", "N/A", "None", "OFF", "Protected PCIe"):
		return "Multi-GPU Mode: " + c.MultiGPU
	}
	return ""
}

// IsReady reports whether the cards take work; known is false for a word that is not known.
func (c ConfCompute) IsReady() (ready, known bool) {
	return is(c.Ready, "ready"), is(c.Ready, "ready", "not ready", "not-ready", "notready")
}

// Mode is the card's mode: the driver's word for all, or on where memory is
// protected, which needs it.
func (g GPU) Mode(c ConfCompute) string {
	if m := c.Mode(); m != "" || c.Unknown() != "" {
		return m
	}
	if n, ok := g.Protected.Total.Value(); ok && n > 0 {
		return GPUOn
	}
	return ""
}
