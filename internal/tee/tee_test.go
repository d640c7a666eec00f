package tee

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

func TestDetect(t *testing.T) {
	broken := errors.New("cut")
	answer := func(name string, err error) *Kind {
		return &Kind{Name: name, Detect: func(*host.Host) (Facts, error) { return Facts{Variant: "v", Role: Guest}, err }}
	}
	ds := Detect(&host.Host{}, []*Kind{
		answer("here", nil),
		answer("absent", fmt.Errorf("no bit: %w", errors.ErrUnsupported)),
		answer("unknown", fmt.Errorf("read: %w", broken)),
		{Name: "breaks", Detect: func(*host.Host) (Facts, error) { var none []int; return Facts{}, fmt.Errorf("%d", none[len("one")]) }},
		answer("after", nil),
	})
	for i, want := range []State{Here, NotHere, Unknown, Unknown, Here} {
		if ds[i].State != want {
			t.Errorf("%s: %s, want %s", ds[i].Kind.Name, ds[i].State, want)
		}
	}
	if !errors.Is(ds[2].Err, broken) {
		t.Errorf("the reason is lost: %v", ds[2].Err)
	}
	if want := "detecting breaks crashed: runtime error: index out of range [3]"; !strings.HasPrefix(ds[3].Err.Error(), want) {
		t.Errorf("%v, want %s", ds[3].Err, want)
	}
	if got, want := Found(ds), []Facts{{Kind: "here", Variant: "v", Role: Guest}, {Kind: "after", Variant: "v", Role: Guest}}; !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

func TestEPC(t *testing.T) {
	cpu := func(last, features uint32, section func(sub uint32) (eax, ecx, edx uint32)) *host.Host {
		return &host.Host{CPUID: func(leaf, sub uint32) (uint32, uint32, uint32, uint32) {
			switch leaf {
			case 0:
				return last, 0, 0, 0
			case 7:
				return 0, features, 0, 0
			case 0x12:
				a, c, d := section(sub)
				return a, 0, c, d
			}
			return 0, 0, 0, 0
		}}
	}
	two := func(sub uint32) (eax, ecx, edx uint32) {
		return map[uint32]uint32{2: 0x70000001, 3: 1}[sub], 0x07f80001, sub - 2 // the second is 4 GiB larger
	}
	endless := func(uint32) (eax, ecx, edx uint32) { return 1, 0x1000, 0 }
	for name, c := range map[string]struct {
		host *host.Host
		want int
		sum  uint64
	}{
		"two sections": {cpu(0x1f, 1<<2, two), 2, 2*0x7f80000 + 1<<32},
		"no SGX bit":   {cpu(0x1f, 0, two), 0, 0},
		"no leaf 0x12": {cpu(0xf, 1<<2, two), 0, 0},
		"endless":      {cpu(0x1f, 1<<2, endless), 64, 64 << 12},
	} {
		t.Run(name, func(t *testing.T) {
			got := EPC(c.host)
			var sum uint64
			for _, n := range got {
				sum += n
			}
			if len(got) != c.want || sum != c.sum {
				t.Errorf("%s: %d sections of %d bytes, want %d of %d", name, len(got), sum, c.want, c.sum)
			}
		})
	}
}
