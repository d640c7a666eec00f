package causes

import "github.com/teescope/teescope/internal/explain"

// Conversions are changes of a confidential guest's memory from private to shared with the hypervisor, and back.
var Conversions = explain.Cause{
	Name: "conversions",
	Remedy: "Keep shared buffers instead of making and freeing them: conversions come from drivers that allocate DMA memory over and over. Larger and longer-lived pools " +
		"(swiotlb=N, page pools of network drivers) avoid them.",
}
