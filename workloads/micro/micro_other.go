//go:build !amd64

package micro

// Program is the static worker for this architecture, or nil where none was built.
var Program []byte

var dynamic []byte // compressed by gzip
