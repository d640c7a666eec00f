// Package zkvm holds the guests of the workload zkvm: programs in C for the machine that SP1 proves, with their ELF files, which
// Cargo builds into teescope-zkvm. Its tests run them without SP1.
package zkvm

//go:generate sh guests/build.sh
