package causes

import "github.com/teescope/teescope/internal/explain"

// Conversions are memory of a confidential guest that is shared with the hypervisor and
// taken back.
var Conversions = explain.Cause{
	Name: "conversions",
	Remedy: "Keep shared buffers instead of making and freeing them: conversions come from drivers that allocate DMA memory over and over. Larger and longer-lived pools " +
		"(swiotlb=N, page pools of network drivers) avoid them.",
}
