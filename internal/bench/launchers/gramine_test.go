package launchers

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestGramineDebug: whether an enclave is of the debug kind follows from gramine-sgx-sigstruct-view's TOML, and not from its
// words for people. Both were recorded of Gramine 1.9post for signatures that differ in that bit.
func TestGramineDebug(t *testing.T) {
	data, err := shipped.ReadFile("templates/gramine-sgx.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tm template
	if err := yaml.Unmarshal(data, &tm); err != nil || tm.TEE.Debug == nil {
		t.Fatalf("%+v, %v", tm.TEE, err)
	}
	for file, want := range map[string]string{
		"sigstruct-production.toml": "off",
		"sigstruct-debug.toml":      "on",
		"sigstruct-production.text": "unknown",
		"sigstruct-debug.text":      "unknown",
		"version.txt":               "unknown",
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile("testdata/gramine/" + file)
			if err != nil {
				t.Fatal(err)
			}
			on, off := tm.TEE.Debug.On.Match(text), tm.TEE.Debug.Off.Match(text)
			if got := map[[2]bool]string{{true, false}: "on", {false, true}: "off", {false, false}: "unknown"}[[2]bool{on, off}]; got != want {
				t.Errorf("%s: %s, want %s", file, got, want)
			}
			if got := tm.Evidence[0].Settings["isv_svn"].MatchString(string(text)); got != strings.HasSuffix(file, ".toml") {
				t.Errorf("%s: isv_svn found: %v", file, got)
			}
		})
	}
}

// TestGramineDirect runs the shipped template with Gramine. The manifest and the run are named after the program: Gramine's command
// line shows that name and no other.
func TestGramineDirect(t *testing.T) {
	env := openGramine(t, nil)
	out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"cat", "{work}/x"}}, Files: []bench.File{{Name: "x", Data: []byte("content\n")}}})
	if err != nil || string(out.Inside.Stdout) != "content\n" {
		t.Errorf("%v: %q %q", err, out.Inside.Stdout, out.Inside.Stderr)
	}
	if got := strings.Join(out.Processes, " "); got != "loader exe cat" || !out.Whole {
		t.Errorf("processes %q, the whole of them: %v", got, out.Whole)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	out, err = env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"uname", "-r"}}})
	if got := string(out.Inside.Stdout); err != nil || got == "" || got == string(kernel) {
		t.Errorf("the program sees the kernel %q, want Gramine's: %v", got, err)
	}
	var d result.Environment
	if err := env.Describe(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	if got := d.Software.Versions["gramine"]; !strings.HasPrefix(got, "Gramine 1.") {
		t.Errorf("version %q", got)
	}
	if d.TEE.Type != "none" || d.TEE.Active || d.TEE.Settings["template"] != "" {
		t.Errorf("TEE %+v, missing %v", d.TEE, d.Missing)
	}
}

// openGramine opens the shipped template with the Gramine on PATH, and skips the test without one.
func openGramine(t *testing.T, given bench.Params) bench.Environment {
	t.Helper()
	if _, err := exec.LookPath("gramine-direct"); err != nil {
		t.Skip("gramine-direct is not on PATH; package gramine of https://packages.gramineproject.io has it. What the launcher would start is tested without it (TestList)")
	}
	return open(t, All[slices.IndexFunc(All, func(l *bench.Launcher) bool { return l.Name == "gramine-direct" })], given)
}
