// Package gpu carries the script that measures a GPU through the machine's PyTorch.
package gpu

import _ "embed"

// Script is gpu.py.
//
//go:embed gpu.py
var Script []byte
