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
		want := "reading source network broke off: runtime error: index out of range [1] with length 1 (contain_test.go:"
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
