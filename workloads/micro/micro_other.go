//go:build !amd64

package micro

// None was built for this architecture.
var static, dynamic []byte
