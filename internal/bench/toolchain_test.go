package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

func TestToolchain(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if got := toolchain(own); !strings.HasPrefix(got, "go1.") {
		t.Errorf("this test was built with %q", got)
	}
	if micro.Program != nil {
		if got := toolchain(micro.Program); !strings.Contains(got, "GCC") {
			t.Errorf("the worker was built with %q", got)
		}
	}
	for _, bad := range []string{"", "#!/bin/sh\n", "\x7fELF"} {
		t.Run(bad, func(t *testing.T) {
			if got := toolchain([]byte(bad)); got != "" {
				t.Errorf("toolchain(%q) = %q", bad, got)
			}
		})
	}
	got := workers(host.Local(), Job{Files: []File{{Name: "a", From: "/proc/self/exe", Exec: true}, {Name: "b", Data: []byte("x"), Exec: true}, {Name: "c", Data: []byte("x")}}})
	if len(got) != 2 || !strings.Contains(got["a"], "file of 20") || got["b"] != "part of this program" {
		t.Errorf("workers %q", got)
	}
}
