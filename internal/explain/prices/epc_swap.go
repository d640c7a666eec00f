package prices

import "github.com/teescope/teescope/internal/explain"

var epcSwap = Price{
	Price: explain.Price{Event: "epc_swap", Metric: explain.LoadedBack, Literature: &EPCSwap},
	unit:  absent("paging needs an enclave larger than the EPC, and the calibration makes none"),
}

// EPCSwap is one page of the EPC written out and another one loaded back, with its fault.
var EPCSwap = explain.Literature{Low: 40_000, High: 40_000, Each: "for a page written out and loaded back", Name: "VAULT", On: "a processor with first-generation SGX (2018)",
	Source: "Taassori, Shafiee, Balasubramonian: VAULT: Reducing Paging Overheads in SGX (ASPLOS 2018), https://doi.org/10.1145/3296957.3177155"}
