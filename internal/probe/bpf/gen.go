package bpf

// Each program's own file says how its object is built: for every little-endian
// machine, as what differs between machines is looked up when it is loaded.
//
//go:generate go run gennames.go
