package bpf

// The user-space side of guestmemory.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// and times memory of a confidential VM that is shared, made private or accepted.

//go:generate ./compile.sh guestMemory guestmemory.bpf.c

import "slices"

// Functions of guestmemory.bpf.c, in its order.
var memoryFunctions = [...]string{"set_memory_decrypted", "set_memory_encrypted", "accept_memory"}

// GuestMemory counts memory of a confidential VM that is shared, made private or
// accepted. With acceptance it also counts the calls that accept memory; only kernels
// that accept memory at run time have them (CONFIG_UNACCEPTED_MEMORY).
func GuestMemory(acceptance bool) *Program {
	hooks := slices.Concat(spanHooks("to_shared", memoryFunctions[0], true), spanHooks("to_private", memoryFunctions[1], true))
	if acceptance {
		hooks = slices.Concat(hooks, spanHooks("accept", memoryFunctions[2], true))
	}
	return &Program{
		Name: "guestmemory",
		spec: spec{
			load:  loadGuestMemory,
			hooks: hooks,
		},
		layout: layout{
			row:   len(memoryFunctions) * spanCells,
			read:  []string{"counts"},
			reset: []string{"begun"},
		},
	}
}

// GuestMemoryCounts reads the counters of GuestMemory.
type GuestMemoryCounts struct{ *Counters }

// ToShared are the calls that made private pages shared, in pages.
func (c GuestMemoryCounts) ToShared() Span { return c.span(0, memoryFunctions[0]) }

// ToPrivate are the calls that made shared pages private, in pages.
func (c GuestMemoryCounts) ToPrivate() Span { return c.span(1, memoryFunctions[1]) }

// Accepted are the calls that accepted memory, without a unit.
func (c GuestMemoryCounts) Accepted() Span { return c.span(2, memoryFunctions[2]) }
