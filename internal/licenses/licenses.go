// Package licenses holds what of others is in the programs, and under which terms: Go, its modules, the packages of the page, and the C
// library of the small worker.
package licenses

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

//go:generate go -C ../../tools/release run . -notices internal/licenses/others.txt.gz

//go:embed others.txt.gz
var packed []byte

// Others returns the list of these works with the text of each license, equal ones once. An error is one of the program's build.
func Others() ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}
