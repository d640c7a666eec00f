package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestReason: a missing file is named, however deep its error is; all other errors keep their words.
func TestReason(t *testing.T) {
	missing, denied := &fs.PathError{Op: "open", Path: "/sys/x", Err: fs.ErrNotExist}, &fs.PathError{Op: "open", Path: "/sys/x", Err: fs.ErrPermission}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{missing, "/sys/x does not exist"},
		{denied, "outer: inner: open /sys/x: permission denied"},
		{fs.ErrNotExist, "outer: inner: file does not exist"},
		{errors.New("not a number"), "outer: inner: not a number"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if got := reason(fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", tc.err))); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
