package micro

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestMissing: where no worker was built, one error says which architecture has one and what to do.
func TestMissing(t *testing.T) {
	defer func(static, dyn []byte) { Program, dynamic = static, dyn }(Program, dynamic)
	Program, dynamic = []byte("a program"), nil
	if err := Missing(Static); err != nil {
		t.Errorf("a worker is there: %v", err)
	}
	check := func(form string) {
		t.Helper()
		err := Missing(form)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("%s: %v", form, err)
		}
		for _, want := range []string{form, "for " + runtime.GOARCH, "only for amd64", "add micro_" + runtime.GOARCH + ".go"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", form, err, want)
			}
		}
	}
	check(Dynamic)
	Program = nil
	check(Static)
}
