// Package tee says which Trusted Execution Environment a machine has. A Kind
// describes one family and how to detect it; the members are in tee/kinds.
//
// Detection reads what the kernel and CPUID say. It is not attestation: a
// hypervisor can lie in both, so a detected TEE is "detected", never "verified".
package tee

import (
	"errors"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
)

// Role says from which side the TEE is seen.
type Role string

// Host creates enclaves or confidential VMs, Guest runs inside one. Device is an
// accelerator that protects what it computes; what uses it is protected by
// something else.
const (
	Host   Role = "host"
	Guest  Role = "guest"
	Device Role = "device"
)

// Evidence is one thing that was read: where, and what it said.
type Evidence struct {
	Source string `json:"source"`
	Value  string `json:"value"`
}

// DebugBit is the source of evidence that says why it is not known whether a TEE is open for debugging; Debug is false then.
const DebugBit = "debug bit"

// Facts are what Detect found out about one TEE.
type Facts struct {
	// Kind is the Kind's Name ("sgx", "tdx", "sev"), filled in by the package's Detect.
	Kind string `json:"kind"`
	// Variant distinguishes members of a family ("in-tree", "isgx", "sev-es", "sev-snp").
	Variant string `json:"variant,omitempty"`
	Role    Role   `json:"role"`
	// Active: usable now. A capable CPU with the driver absent is not active.
	Active bool `json:"active"`
	// Debug: the TEE runs with its protection opened for debugging.
	Debug bool `json:"debug,omitempty"`
	// Why explains an inactive TEE and what would activate it.
	Why      string     `json:"why,omitempty"`
	Evidence []Evidence `json:"evidence"`
}

// Kind describes a family of TEEs. Detect returns facts and nil when it is
// here, an error that wraps errors.ErrUnsupported when it is not here, and any
// other error when it could not tell.
type Kind struct {
	Name, Doc string
	Detect    func(*host.Host) (Facts, error)
}

// State is one of the three answers.
type State string

// The three answers.
const (
	Here    State = "here"
	NotHere State = "not here"
	Unknown State = "could not tell"
)

// Detection is the answer for one kind. Err holds the reason when State is not Here.
type Detection struct {
	Kind  *Kind
	State State
	Facts Facts
	Err   error
}

// Detect asks every kind, in the order of the list.
func Detect(h *host.Host, kinds []*Kind) []Detection {
	out := make([]Detection, len(kinds))
	for i, k := range kinds {
		var f Facts
		err := contain.Call("detecting "+k.Name, func() (err error) { f, err = k.Detect(h); return err })
		f.Kind = k.Name
		d := Detection{Kind: k, State: Here, Facts: f, Err: err}
		switch {
		case err == nil:
		case errors.Is(err, errors.ErrUnsupported):
			d.State = NotHere
		default:
			d.State = Unknown
		}
		out[i] = d
	}
	return out
}

// Found keeps the facts of what is here.
func Found(ds []Detection) []Facts {
	var out []Facts
	for _, d := range ds {
		if d.State == Here {
			out = append(out, d.Facts)
		}
	}
	return out
}
