package prices

import (
	"encoding/hex"
	"errors"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/host"
)

// enclaveTransition is bare: what a runtime does around it in a call is its own.
var enclaveTransition = Price{
	Price: explain.Price{Event: "enclave_transition", Literature: &EnclaveTransition,
		How: "entering a minimal enclave and leaving it, timed on this machine; what the runtime does in each call comes on top"},
	method:  "entering an enclave whose code only returns, and leaving it (EENTER and EEXIT), without any runtime",
	prepare: enclaveJobs, unit: direct("enclave"),
}

// enclaveJobs signs the worker's enclave, or says why this machine can have none.
func enclaveJobs(h *host.Host) (map[string][]string, error) {
	switch there, err := h.Exists("/dev/sgx_enclave"); {
	case err != nil:
		return nil, err
	case !there:
		return nil, errors.New("this machine has no active SGX driver: there is no /dev/sgx_enclave")
	}
	signature, err := sigstruct(measurement(enclavePages()))
	if err != nil {
		return nil, err
	}
	return map[string][]string{"enclave": timed("thread", "enclave", hex.EncodeToString(signature))}, nil
}

// EnclaveTransition is one call into an enclave, or out of it, and back through the
// SDK's interface.
var EnclaveTransition = explain.Literature{Low: 8_200, High: 17_000, Each: "a call", Name: "HotCalls", On: "a Skylake processor (2017, before the microcode against side channels)",
	Source: "Weisse, Bertacco, Austin: Regaining Lost Cycles with HotCalls (ISCA 2017), https://doi.org/10.1145/3140659.3080208"}
