package micro

import _ "embed"

// Program is the static worker for this architecture, or nil where none was built.
//
//go:embed micro_amd64
var Program []byte

// dynamic, compressed by gzip, needs version 2.34 or later of the GNU C library.
//
//go:embed micro_dynamic_amd64.gz
var dynamic []byte
