package kinds

import (
	"errors"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
)

// nitro is AWS Nitro Enclaves, seen from the instance that starts them (host) or
// from the inside of an enclave (guest). Intel, AMD and Graviton instances have
// it, so no CPU is asked.
var nitro = tee.Kind{
	Name:   "nitro",
	Doc:    "AWS Nitro Enclaves: device nitro_enclaves and its CPU pool on the parent instance, device nsm inside an enclave",
	Detect: detectNitro,
}

func detectNitro(h *host.Host) (tee.Facts, error) {
	c := &clues{Host: h}
	// The security module is the only device that an enclave has and nothing else has.
	nsm := c.checkFile("/dev/nsm") || c.checkFile("/sys/class/misc/nsm")
	device := c.checkFile("/dev/nitro_enclaves")
	driver := c.checkFile("/sys/module/nitro_enclaves")
	switch {
	case nsm && (device || driver):
		return tee.Facts{}, errors.New("there are both the security module of an enclave and the driver of a parent instance; no machine is both")
	case nsm:
		return tee.Facts{Role: tee.Guest, Active: true, Evidence: c.evidence}, nil
	case !device && !driver:
		return c.absent("neither device nitro_enclaves nor nsm is there")
	}
	// A pool of no CPUs reads as an empty line or as "(null)", by kernel version.
	pool, known := c.text("/sys/module/nitro_enclaves/parameters/ne_cpus")
	f := tee.Facts{Role: tee.Host, Evidence: c.evidence}
	switch {
	case !device:
		f.Why = "the driver is loaded but there is no device /dev/nitro_enclaves; in a container, pass it in, elsewhere see the kernel log"
	case known && (pool == "" || pool == "(null)"):
		f.Why = "no CPUs are set aside for enclaves; start nitro-enclaves-allocator.service"
	case len(c.doubts) > 0:
		return c.absent("")
	default:
		f.Active = true
	}
	return f, nil
}
