package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestProblem(t *testing.T) {
	cause := errors.New("cause")
	p := fmt.Errorf("open: %w", &Problem{Err: fmt.Errorf("read: %w", cause), Remedy: "do this", Blind: true})
	if !errors.Is(p, cause) || p.Error() != "open: read: cause" {
		t.Errorf("%v does not wrap its cause", p)
	}
	if Remedy(p) != "do this" || !Blind(p) {
		t.Errorf("remedy %q, blind %v", Remedy(p), Blind(p))
	}
	if Remedy(cause) != "" || Blind(cause) || Remedy(nil) != "" || Blind(nil) {
		t.Error("advice out of nothing")
	}
}

func TestNotHere(t *testing.T) {
	err := NotHere("no %s at %d", "pool", 3)
	if !errors.Is(err, errors.ErrUnsupported) || err.Error() != "no pool at 3: unsupported operation" {
		t.Errorf("%v", err)
	}
}

func TestOwnMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Metrics {
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		if seen[d.Name] {
			t.Errorf("%s is declared twice", d.Name)
		}
		seen[d.Name] = true
	}
}

func TestDenied(t *testing.T) {
	for _, c := range []struct {
		err    error
		remedy string
	}{{nil, ""}, {fs.ErrNotExist, ""}, {fmt.Errorf("open x: %w", syscall.EACCES), "run as root"}, {syscall.EPERM, "run as root"}} {
		t.Run(c.remedy, func(t *testing.T) {
			got := Denied(c.err, "run as root")
			if !errors.Is(got, c.err) || Remedy(got) != c.remedy {
				t.Errorf("%v: %v with advice %q, want %q", c.err, got, Remedy(got), c.remedy)
			}
		})
	}
}
