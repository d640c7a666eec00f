package micro

import _ "embed"

// Program is the worker for this architecture, or nil where none was built.
//
//go:embed micro_amd64
var Program []byte
