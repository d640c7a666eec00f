package bpf

// Each program's own file says how its object is built: one for every little-endian
// machine, because machine-specific values are resolved at load time.
//go:generate go run gennames.go
