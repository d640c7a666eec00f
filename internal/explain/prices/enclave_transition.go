package prices

import "github.com/teescope/teescope/internal/explain"

var enclaveTransition = Price{
	Price: explain.Price{Event: "enclave_transition", Literature: &EnclaveTransition},
	unit:  absent("entering an enclave takes a program of the enclave's own runtime, and none is started for this"),
}

// EnclaveTransition is one call into an enclave, or out of it, and back through the
// SDK's interface.
var EnclaveTransition = explain.Literature{Low: 8_200, High: 17_000, Each: "a call", Name: "HotCalls", On: "a Skylake processor (2017, before the microcode against side channels)",
	Source: "Weisse, Bertacco, Austin: Regaining Lost Cycles with HotCalls (ISCA 2017), https://doi.org/10.1145/3140659.3080208"}
