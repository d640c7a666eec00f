package micro

import _ "embed"

// static and dynamic are the workers for this architecture, compressed by gzip.
//
//go:embed micro_amd64.gz
var static []byte

// dynamic needs version 2.34 or later of the GNU C library.
//
//go:embed micro_dynamic_amd64.gz
var dynamic []byte
