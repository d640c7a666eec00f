package contain_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/contain"
)

func TestCall(t *testing.T) {
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })

	own := errors.New("own")
	if err := contain.Call("x", func() error { return own }); !errors.Is(err, own) || log.Len() > 0 {
		t.Errorf("%v, log %q", err, log.String())
	}
	short := []string{"eth0"}
	var p *contain.Panic
	for range 3 { // each round
		err := contain.Call("reading source network", func() error { _ = short[len(short)]; return nil })
		want := "reading source network crashed: runtime error: index out of range [1] with length 1 (contain_test.go:"
		if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
	if n := strings.Count(log.String(), "contain_test.TestCall"); strings.Count(log.String(), "\n") != 1 || n == 0 {
		t.Errorf("want one trace, not %q", log.String())
	}
	_ = contain.Call("reading source disk", func() error { panic("other") })
	if strings.Count(log.String(), "\n") != 2 {
		t.Errorf("another member is not logged: %q", log.String())
	}
}

// TestPanicking: a deferred function can tell why it runs, and one that recovers has the same error as Call.
func TestPanicking(t *testing.T) {
	short := []string{}
	try := func(fail bool) (seen bool, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = contain.Recovered("trying", v)
			}
		}()
		defer func() { func() { seen = contain.Panicking() }() }()
		if fail {
			_ = short[len(short)]
		}
		return false, nil
	}
	if seen, err := try(false); seen || err != nil {
		t.Errorf("without a panic: %v, %v", seen, err)
	}
	seen, err := try(true)
	if want := "trying crashed: runtime error: index out of range [0] with length 0 (contain_test.go:"; !seen || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("with one: %v, %v", seen, err)
	}
	if contain.Panicking() {
		t.Error("it goes on after it was recovered")
	}
}
