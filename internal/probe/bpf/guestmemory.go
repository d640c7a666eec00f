package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf guestMemory guestmemory.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import "slices"

// Functions of guestmemory.bpf.c, in its order.
var memoryFunctions = [...]string{"set_memory_decrypted", "set_memory_encrypted", "accept_memory"}

// GuestMemory counts how memory of a confidential VM changes hands. With
// acceptance it also counts the calls that take memory into use, which kernels
// have that accept it while they run (CONFIG_UNACCEPTED_MEMORY).
func GuestMemory(acceptance bool) *Program {
	hooks := slices.Concat(spanHooks("to_shared", memoryFunctions[0], true), spanHooks("to_private", memoryFunctions[1], true))
	if acceptance {
		hooks = slices.Concat(hooks, spanHooks("accept", memoryFunctions[2], true))
	}
	return &Program{
		Name:   "guestmemory",
		load:   loadGuestMemory,
		row:    len(memoryFunctions) * spanCells,
		read:   []string{"counts"},
		reset:  []string{"begun"},
		hooks:  hooks,
		events: spanEvents,
	}
}

// ToShared are the calls that made private pages shared, in pages.
func (c *Counters) ToShared() Span { return c.span(0, memoryFunctions[0]) }

// ToPrivate are the calls that made shared pages private, in pages.
func (c *Counters) ToPrivate() Span { return c.span(1, memoryFunctions[1]) }

// Accepted are the calls that took memory into use, of no unit.
func (c *Counters) Accepted() Span { return c.span(2, memoryFunctions[2]) }
