// Package kinds holds the TEE families that teescope can tell, one file each.
//
// The rule they share: "here" needs one witness and no contradiction; "not
// here" needs every witness to have been heard and to deny it; anything else is
// "could not tell". A witness that lies (a hypervisor forging CPUID) is not
// noticed: that takes attestation.
package kinds

import "github.com/teescope/teescope/internal/tee"

// All lists every kind, in the order in which reports show them.
var All = []*tee.Kind{&sgx, &tdx, &tdxHost, &sev, &cca, &sevHost, &nitro, &ibmSE, &ibmPEF, &nvidiaCC}
