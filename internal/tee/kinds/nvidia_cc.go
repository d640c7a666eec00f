package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

// nvidiaCC is NVIDIA cards in confidential mode (Hopper and later). Variants are
// "on", "devtools" and "protected-pcie".
var nvidiaCC = tee.Kind{
	Name:   "nvidia-cc",
	Doc:    "NVIDIA GPUs in confidential-compute mode: the driver's answer, from nvidia-smi conf-compute",
	Detect: detectNVIDIA,
}

// nvidiaPatience is for what takes some tenths of a second, and seconds where no
// persistence daemon keeps the cards initialized.
const nvidiaPatience = 5 * time.Second

func detectNVIDIA(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	if !c.checkFile("/proc/driver/nvidia") {
		if card := c.nvidiaCard(); card != "" {
			return tee.Facts{}, fmt.Errorf("there is an NVIDIA card (%s) but no driver, and only the driver knows the card's mode; load the module nvidia, or run this in the VM that has the card", card)
		}
		return c.absent("no NVIDIA driver and no compute card of NVIDIA")
	}
	ctx, cancel := context.WithTimeout(context.Background(), nvidiaPatience)
	defer cancel()
	return c.confidentialCards(ctx)
}

func (c *clues) confidentialCards(ctx context.Context) (tee.Facts, error) {
	out, err := c.outputOf(ctx, tee.ConfComputeQuery)
	said := tee.ParseConfCompute(out)
	if said.State == "" && ctx.Err() == nil { // a driver that knows the older question only
		var status []byte
		status, err = c.outputOf(ctx, tee.ConfComputeStatus)
		out = append(out, status...)
	}
	if tools, terr := c.outputOf(ctx, tee.ConfComputeDevTools); terr == nil {
		out = append(out, tools...)
	}
	said = tee.ParseConfCompute(out)
	switch mode := said.Mode(); {
	case mode == tee.GPUOff:
		return c.absent("the driver says that confidential computing is off")
	case mode != "":
		c.addEvidence("nvidia-smi conf-compute", "mode %s, cards %s", mode, said.Ready)
		f := tee.Facts{Variant: mode, Role: tee.Device, Debug: mode == tee.GPUDevTools, Evidence: c.evidence}
		// A driver that does not know the question has cards that are always ready.
		ready, known := said.IsReady()
		f.Active = said.Ready == "" || ready
		switch {
		case !f.Active && !known:
			f.Why = fmt.Sprintf("whether the cards take work is unknown: %q", said.Ready)
		case !f.Active:
			f.Why = "the cards take no work yet: attest them, then run nvidia-smi conf-compute -srs 1"
		}
		return f, nil
	case said.Unknown() != "":
		return tee.Facts{}, fmt.Errorf("the NVIDIA driver's mode is unknown: %q", said.Unknown())
	case ctx.Err() != nil:
		return tee.Facts{}, fmt.Errorf("the NVIDIA driver is loaded but nvidia-smi does not answer: %w", ctx.Err())
	case errors.Is(err, fs.ErrNotExist):
		return tee.Facts{}, errors.New("the NVIDIA driver is loaded but nvidia-smi, which asks it for its mode, is not installed")
	case err != nil:
		return tee.Facts{}, fmt.Errorf("ask the NVIDIA driver for its mode: %w: %.200q", err, strings.TrimSpace(string(out)))
	}
	return tee.Facts{}, errors.New("nvidia-smi conf-compute reports no state, which needs driver 535 or later and a card of Hopper or later")
}

// outputOf runs a command for what it prints. Its error does not say "not here":
// where a command is missing nothing has been denied.
func (c *clues) outputOf(ctx context.Context, argv []string) ([]byte, error) {
	out, err := c.Exec(ctx, host.Cmd{Argv: argv})
	return out.Stdout, err
}

// nvidiaCard is the address of a compute card of NVIDIA, or "". Confidential
// cards are 3D controllers (PCI class 0302), not displays.
func (c *clues) nvidiaCard() string {
	files, _ := c.Glob("/sys/bus/pci/devices/*/class")
	for _, f := range files {
		dir := path.Dir(f)
		class, err := c.ReadString(f)
		vendor, verr := c.ReadString(dir + "/vendor")
		if err != nil || verr != nil {
			continue // unplugged while we looked
		}
		if strings.HasPrefix(class, "0x0302") && vendor == "0x10de" {
			return path.Base(dir)
		}
	}
	return ""
}
