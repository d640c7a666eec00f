package launchers

import (
	"os"
	"path/filepath"
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

// TestGramineDirect runs the shipped template with stand-ins for Gramine's programs: one prints the version that Gramine 1.9post
// prints, and runs the job outside of Gramine. The manifest and the run are named after the program: Gramine's command line
// shows that name and no other.
// stand-in: gramine
func TestGramineDirect(t *testing.T) {
	bin := t.TempDir()
	version, err := filepath.Abs("testdata/gramine/version.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"gramine-manifest": `cp "$1" "$2"`,
		"gramine-direct": `if [ "$1" = --version ]; then exec cat ` + version + `; fi
echo "$(basename "$1") $(grep -c '^libos.entrypoint = "/.*/sha256sum"$' "$1.manifest")"`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	data, err := shipped.ReadFile("templates/gramine-direct.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l, err := FromFile("gramine-direct.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	env := open(t, l, nil)
	out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sha256sum", "{work}/x"}}})
	if err != nil || string(out.Inside.Stdout) != "sha256sum 1\n" {
		t.Errorf("%v: %q %q", err, out.Inside.Stdout, out.Inside.Stderr)
	}
	if got := strings.Join(out.Processes, " "); got != "loader exe sha256sum" || !out.Whole {
		t.Errorf("processes %q, the whole of them: %v", got, out.Whole)
	}
	var d result.Environment
	if err := env.Describe(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	if got := d.Software.Versions["gramine"]; got != "Gramine 1.9post~UNRELEASED (1.9post~UNRELEASED)" {
		t.Errorf("version %q", got)
	}
	if d.TEE.Type != "none" || d.TEE.Active || d.TEE.Settings["template"] != "" || d.Missing["software.kernel"] == "" {
		t.Errorf("TEE %+v, missing %v", d.TEE, d.Missing)
	}
}
