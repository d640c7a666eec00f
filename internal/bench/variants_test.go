package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestOnly(t *testing.T) {
	for _, c := range []struct {
		labels, want []string
		err          string
	}{
		{[]string{"b", "native"}, []string{"native", "b=native,cpus=1"}, ""},
		{[]string{"b"}, []string{"b=native,cpus=1"}, ""},
		{[]string{"b", "x"}, nil, `no variant "x"; the variants are native, b, runsc`},
	} {
		t.Run(c.err, func(t *testing.T) {
			e := Experiment{Name: "e", Environments: []string{"native", "b=native,cpus=1", "runsc,platform=ptrace"}}
			err := e.SelectEnvironments(c.labels)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%q: error %v, want %q in it", c.labels, err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(e.Environments, c.want) {
				t.Errorf("%q leave %q, %v; want %q", c.labels, e.Environments, err, c.want)
			}
		})
	}
}
