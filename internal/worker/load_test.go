package worker

import (
	"strings"
	"testing"
)

// TestLoadRefuses: settings that exclude each other are refused before anything is sent.
func TestLoadRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--requests 5 --measure 1s": "leave out measure or requests",
		"--requests -5":             "-requests",
		"--requests 5 --warm 48h":   "warm-up of 48h",
		"--arrivals poisson":        "give a rate",
	} {
		t.Run(args, func(t *testing.T) {
			out, errs, code := command(t.Context(), append([]string{"load", "--address", "127.0.0.1:1"}, strings.Fields(args)...)...)
			if code == 0 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: status %d, %q, %q; want %q", args, code, out, errs, want)
			}
		})
	}
}
