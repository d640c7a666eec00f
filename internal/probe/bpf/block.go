package bpf

// The user-space side of block.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// requests to block devices by device and operation, with their latency.

//go:generate ./compile.sh block block.bpf.c

// Sizes and cells of block.bpf.c.
const (
	blockLost = iota
	blockFirst

	blockRequests = 0
	blockBytes    = 1
	blockErrors   = 2
	blockLatency  = 3
	blockCells    = blockLatency + histCells

	blockDevices = 33
	noDevice     = 0
)

// BlockOperations are the label values of block operations, in the order of
// block.bpf.c.
var BlockOperations = [...]string{"read", "write", "flush", "discard", Other}

// Block counts requests to block devices by device and operation.
var Block = &Program{
	Name: "block",
	spec: spec{
		load: loadBlock,
		// Before the completions, so no request completes without an issue.
		hooks: []hook{
			{name: "block:block_rq_issue", variants: []variant{{"issue_btf", typed}, {"issue_raw", raw("block_rq_issue")}}},
			{name: "block:block_rq_complete", variants: []variant{{"complete_btf", typed}, {"complete_raw", raw("block_rq_complete")}}},
		},
	},
	layout: layout{
		row:   blockFirst + blockDevices*len(BlockOperations)*blockCells,
		read:  []string{"counts", "devices"},
		reset: []string{"since"},
	},
}

// BlockIO is the I/O of a block device by one operation since the program was attached.
// Latency only has requests issued since then.
type BlockIO struct {
	Requests, Bytes, Errors uint64
	Latency                 Latency
}

// BlockCounts reads the counters of Block.
type BlockCounts struct{ *Counters }

// ByDevice emits the I/O of each device and operation; operation is an index of
// BlockOperations. It returns how many requests of devices without a place in the table
// were folded, and how many have no latency because too many were in flight. The value
// passed to emit is valid until emit returns.
func (c BlockCounts) ByDevice(emit func(device string, operation int, io *BlockIO)) (folded, lost uint64) {
	cells, names := c.counts(), c.maps["devices"]
	if !c.has("block:block_rq_complete") {
		return 0, cells.sum(blockLost)
	}
	for device := range blockDevices {
		for operation := range BlockOperations {
			first := blockFirst + (device*len(BlockOperations)+operation)*blockCells
			io := BlockIO{Requests: cells.sum(first + blockRequests), Bytes: cells.sum(first + blockBytes), Errors: cells.sum(first + blockErrors)}
			if io.Requests == 0 {
				continue
			}
			cells.addTo(&io.Latency, first+blockLatency)
			name := Other
			if device == noDevice {
				folded += io.Requests
			} else {
				name = label(names, device)
			}
			emit(name, operation, &io)
		}
	}
	return folded, cells.sum(blockLost)
}
