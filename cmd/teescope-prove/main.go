// Command teescope-prove makes and verifies zero-knowledge proofs: it runs inside an environment
// under test. See internal/prove.
package main

import (
	"os"

	"github.com/teescope/teescope/internal/prove"
)

func main() { os.Exit(prove.Main(os.Args[1:], os.Stdout, os.Stderr)) }
