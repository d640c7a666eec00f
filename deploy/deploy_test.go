// Package deploy holds what runs teescope on servers. Its tests check the
// manifests against the code: flags that exist, metrics that exist, and an
// image that is built and run.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yamlv3 "gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/cli"
	"github.com/teescope/teescope/internal/probe/sources"
)

// checkArgs fails when a command line names a command or a flag that the
// binary does not have.
func checkArgs(t *testing.T, where string, args []string) {
	t.Helper()
	if len(args) == 0 {
		t.Fatalf("%s: no arguments", where)
	}
	var help, errs bytes.Buffer
	if code := cli.Main(context.Background(), cli.Env{Args: []string{args[0], "--help"}, Stdout: &help, Stderr: &errs}); code != 0 {
		t.Fatalf("%s: teescope %s --help: exit status %d: %s", where, args[0], code, &errs)
	}
	for _, a := range args[1:] {
		flag, _, _ := strings.Cut(a, "=")
		if strings.HasPrefix(flag, "--") && !regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).Match(help.Bytes()) {
			t.Errorf("%s: teescope %s has no flag %s", where, args[0], flag)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCapabilitiesAgree: the ways to run one container grant the same capabilities, those that the sources say
// they need and that README.md explains. The chart grants two of them.
func TestCapabilitiesAgree(t *testing.T) {
	var unit []string
	for _, c := range strings.Fields(unitValue(t, "CapabilityBoundingSet")) {
		unit = append(unit, strings.TrimPrefix(c, "CAP_"))
	}
	if compose := readCompose(t).Services["teescope"].CapAdd; !slices.Equal(unit, compose) {
		t.Errorf("capabilities differ: unit %v, compose %v", unit, compose)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllSubmatch(read(t, "README.md"), -1) {
		documented = append(documented, string(m[1]))
	}
	slices.Sort(documented)
	slices.Sort(unit)
	if !slices.Equal(unit, documented) || len(unit) != 6 { // "six", say the texts
		t.Errorf("capabilities differ: unit %v, table of README.md %v", unit, documented)
	}
	needed := []string{"DAC_OVERRIDE"} // README.md says why it is not granted
	for _, s := range sources.All {
		for _, n := range s.Needs {
			if c := strings.ToUpper(strings.TrimPrefix(n.Capability, "cap_")); !slices.Contains(needed, c) {
				needed = append(needed, c)
			}
		}
	}
	slices.Sort(needed)
	if all := append(unit, "DAC_OVERRIDE"); !slices.Equal(needed, slices.Sorted(slices.Values(all))) {
		t.Errorf("the sources need %v; granted, and DAC_OVERRIDE: %v", needed, all)
	}
}

type composeFile struct {
	Name     string
	Services map[string]struct {
		Image    string
		Command  []string
		Profiles []string
		Build    struct{ Context, Dockerfile string }
		Volumes  []string
		CapAdd   []string `yaml:"cap_add"`

		Environment map[string]string
		NetworkMode string `yaml:"network_mode"`
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var f composeFile
	if err := yamlv3.Unmarshal(read(t, "compose.yaml"), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCompose(t *testing.T) {
	f := readCompose(t)
	own := f.Services["teescope"]
	checkArgs(t, "compose.yaml", own.Command)
	if _, err := os.Stat(filepath.Join(own.Build.Context, own.Build.Dockerfile)); err != nil {
		t.Errorf("container file: %v", err)
	}
	// All three are in the host's network: what other machines could reach, they may not.
	for name, addresses := range map[string][]string{
		"teescope":   own.Command, // its default is loopback
		"prometheus": f.Services["prometheus"].Command,
		"grafana":    {f.Services["grafana"].Environment["GF_SERVER_HTTP_ADDR"] + ":3000"},
	} {
		t.Run(name, func(t *testing.T) {
			listens := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return name != "grafana" && !strings.Contains(a, "listen") })
			if f.Services[name].NetworkMode != "host" || slices.ContainsFunc(listens, func(a string) bool { return !strings.Contains(a, "127.0.0.1:") }) || len(listens) == 0 && name != "teescope" {
				t.Errorf("%s listens beyond loopback: %v", name, listens)
			}
		})
	}
	if e := f.Services["grafana"].Environment; e["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] != "true" || e["GF_AUTH_DISABLE_LOGIN_FORM"] != "true" || e["GF_AUTH_BASIC_ENABLED"] != "false" || e["GF_AUTH_ANONYMOUS_ORG_ROLE"] != "Viewer" {
		t.Errorf("Grafana has an admin whom all know: %v", e)
	}
	for name, s := range f.Services {
		if name != "teescope" && !slices.Equal(s.Profiles, []string{"grafana"}) {
			t.Errorf("%s runs without being asked for: profiles %v", name, s.Profiles)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: volume %s: %v", name, v, err)
				}
			} else if _, named := f.Volumes[from]; !named && from != "/" {
				t.Errorf("%s: volume %s is not declared", name, from)
			}
		}
	}
}

// TestImageDigests: an image that others made is named by its digest, which stays what it is. Ours, which are built here, have none yet.
func TestImageDigests(t *testing.T) {
	digest := regexp.MustCompile(`^\S+:\S+@sha256:[0-9a-f]{64}$`)
	for name, s := range readCompose(t).Services {
		if s.Build.Dockerfile == "" && !digest.MatchString(s.Image) {
			t.Errorf("compose.yaml: %s has the image %s, without a digest", name, s.Image)
		}
	}
	out, err := exec.Command("git", "ls-files", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if base := filepath.Base(name); base != "Containerfile" && base != "Dockerfile" {
			continue
		}
		files++
		for _, m := range regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`).FindAllSubmatch(read(t, name), -1) {
			if from := string(m[1]); from != "scratch" && !digest.MatchString(from) {
				t.Errorf("%s begins from %s, without a digest", name, from)
			}
		}
	}
	if files < 2 {
		t.Errorf("%d container files were read", files)
	}
}

func TestContainerfile(t *testing.T) {
	b := read(t, "Containerfile")
	cmd := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindSubmatch(b)
	if cmd == nil {
		t.Fatal("no CMD")
	}
	var args []string
	if err := yamlv3.Unmarshal(cmd[1], &args); err != nil {
		t.Fatal(err)
	}
	checkArgs(t, "Containerfile", args)
	if !bytes.Contains(b, []byte("\nFROM scratch\n")) {
		t.Error("the image is not made from scratch")
	}
}

func unitValue(t *testing.T, key string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindSubmatch(read(t, "systemd/teescope.service"))
	if m == nil {
		t.Fatalf("teescope.service: no %s", key)
	}
	return string(m[1])
}

// TestUnit has systemd read the unit and rate its exposure.
func TestUnit(t *testing.T) {
	checkArgs(t, "teescope.service", strings.Fields(unitValue(t, "ExecStart"))[1:])
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (package systemd)")
	}
	// The unit names /usr/bin/teescope; verify a copy that names a program that is here.
	unit := bytes.Replace(read(t, "systemd/teescope.service"), []byte("/usr/bin/teescope"), []byte("/bin/true"), 1)
	name := filepath.Join(t.TempDir(), "teescope.service")
	if err := os.WriteFile(name, unit, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", name).CombinedOutput(); err != nil || bytes.Contains(out, []byte("teescope.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 10 is no protection at all; what eBPF needs (CAP_SYS_ADMIN) alone costs several points.
	if out, err := exec.Command(tool, "security", "--offline=true", "--threshold=50", "--no-pager", name).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestYAML decodes the files that no other test looks into.
func TestYAML(t *testing.T) {
	files, err := filepath.Glob("grafana/provisioning/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no provisioning files: %v", err)
	}
	for _, name := range append(files, "prometheus.yml") {
		d := yamlv3.NewDecoder(bytes.NewReader(read(t, name)))
		for {
			var v map[string]any
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// TestPrometheusConfig has Prometheus itself check the scrape configuration.
func TestPrometheusConfig(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (package prometheus)")
	}
	if out, err := exec.Command(tool, "check", "config", "prometheus.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}
