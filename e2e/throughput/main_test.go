package main

import (
	"context"
	"testing"
)

func TestBadNames(t *testing.T) {
	o := options{bin: "/nonexistent", rounds: 1}
	for _, c := range []struct{ servers, arms []string }{
		{[]string{"redis"}, []string{"off", "no-such"}},
		{[]string{"redis"}, []string{"off"}},
		{[]string{"redis"}, []string{"off", "agent"}}, // no binary
	} {
		if err := o.run(context.Background(), c.servers, c.arms); err == nil {
			t.Errorf("%v are taken", c)
		}
	}
}

func TestBadParts(t *testing.T) {
	for _, names := range []string{"no-such", "only-cpu", "user,"} {
		if list, err := (options{}).chosenParts(names); err == nil {
			t.Errorf("%q are %v", names, list)
		}
	}
}
