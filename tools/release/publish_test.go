package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// checkEnvelope: the envelope has the statement, and its signature is one of the statement with its type.
func checkEnvelope(t *testing.T, made map[string][]byte, key *ecdsa.PublicKey) {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(made[envelopeName], &e); err != nil || len(e.Signatures) != 1 || bytes.Count(made[envelopeName], []byte("\n")) != 1 {
		t.Fatalf("the envelope: %v: %s", err, made[envelopeName])
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil || !bytes.Equal(payload, made[provenanceName]) || e.PayloadType != "application/vnd.in-toto+json" {
		t.Errorf("the payload is %s of type %s, %v", payload, e.PayloadType, err)
	}
	signature, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	signed := "DSSEv1 28 application/vnd.in-toto+json " + fmt.Sprint(len(payload)) + " " + string(payload) // the protocol's example has this form
	if sum := sha256.Sum256([]byte(signed)); !ecdsa.VerifyASN1(key, sum[:], signature) {
		t.Error("the signature is not one of the statement of provenance")
	}
	if sum := sha256.Sum256(payload); ecdsa.VerifyASN1(key, sum[:], signature) {
		t.Error("the signature is one of the bare statement")
	}
}

// checkPublished: formula and manifest name the archives of the release with their digests, and what is in them; Ruby reads the formula, where
// it is installed.
func checkPublished(t *testing.T, made map[string][]byte) {
	t.Helper()
	sum := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256(made[name])) }
	for _, name := range []string{formulaName, krewName} {
		if !bytes.HasPrefix(made[name], []byte("# Made by `make release` for v0.1.0, and not published: ")) {
			t.Errorf("%s does not say that it is not published:\n%s", name, made[name])
		}
	}
	var manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(made[krewName]))
	if err := d.Decode(&manifest); err != nil || manifest.Kind != "Plugin" || manifest.Metadata.Name != "teescope" || manifest.Spec.Version != "v0.1.0" || len(manifest.Spec.Platforms) != 4 {
		t.Fatalf("%s: %v: %+v", krewName, err, manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		file := filepath.Base(p.URI)
		if p.SHA256 != sum(file) || made[file] == nil || p.URI != repository+"/releases/download/v0.1.0/"+file || !strings.HasPrefix(p.Bin, "teescope/teescope") {
			t.Errorf("%s names %+v", krewName, p)
		}
	}
	for _, file := range []string{"teescope-linux-amd64.tar.gz", "teescope-linux-arm64.tar.gz", "teescope-darwin-arm64.tar.gz"} {
		want := fmt.Sprintf("url %q\n      sha256 %q", repository+"/releases/download/v0.1.0/"+file, sum(file))
		if bytes.Count(made[formulaName], []byte(want)) != 1 {
			t.Errorf("%s has not %s:\n%s", formulaName, want, made[formulaName])
		}
	}
	if bytes.Contains(made[formulaName], []byte("windows")) {
		t.Errorf("Homebrew does not run on Windows:\n%s", made[formulaName])
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Log("ruby is not installed: the formula was not read by it")
		return
	}
	readFormula(t, made[formulaName], sum)
}

// readFormula has Ruby run the formula on what Homebrew would give it, as on each system, and compares what it asks for.
func readFormula(t *testing.T, text []byte, sum func(string) string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), formulaName)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	const homebrew = `class Formula
  $asked = {}
  def self.test; end
  def self.method_missing(name, *args)
    if name.start_with?("on_")
      yield if ARGV.include?(name.to_s)
    else
      $asked[name] = args[0]
    end
  end
end
load ARGV[0]
%i[desc homepage version license url sha256].each { |k| puts $asked.fetch(k) }
puts Teescope.instance_methods(false).inspect
`
	for on, file := range map[string]string{"on_macos on_arm": "teescope-darwin-arm64.tar.gz", "on_linux on_intel": "teescope-linux-amd64.tar.gz", "on_linux on_arm": "teescope-linux-arm64.tar.gz"} {
		out, err := exec.Command("ruby", append([]string{"-w", "-e", homebrew, name}, strings.Fields(on)...)...).CombinedOutput()
		want := []string{"Monitor, benchmark and explain Trusted Execution Environments", repository, "0.1.0", "Apache-2.0", repository + "/releases/download/v0.1.0/" + file, sum(file), "[:install]", ""}
		if err != nil || string(out) != strings.Join(want, "\n") {
			t.Errorf("the formula on %s: %v\n%s", on, err, out)
		}
	}
}

// checkChartLayout: the layout has the chart's package, and its digests are right.
func checkChartLayout(t *testing.T, made map[string][]byte) {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(made[chartLayoutName])); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(1000, 0)) {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
	}
	get := func(d ociDescriptor, mediaType string) []byte {
		t.Helper()
		b := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if d.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(b)) || d.Size != len(b) || d.MediaType != mediaType {
			t.Errorf("%+v is of %d bytes", d, len(b))
		}
		return b
	}
	var index struct{ Manifests []ociDescriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.1.0" {
		t.Fatalf("index.json: %v: %s", err, files["index.json"])
	}
	var manifest struct {
		Config      ociDescriptor
		Layers      []ociDescriptor
		Annotations map[string]string
	}
	if err := json.Unmarshal(get(index.Manifests[0], chartManifestType), &manifest); err != nil || len(manifest.Layers) != 1 || manifest.Annotations["org.opencontainers.image.title"] != "teescope" || manifest.Annotations["org.opencontainers.image.version"] != "0.1.0" {
		t.Fatalf("the manifest: %v: %+v", err, manifest)
	}
	if !bytes.Equal(get(manifest.Layers[0], chartContentType), made[chartName]) {
		t.Error("the artefact has another chart than the package")
	}
	var about map[string]any
	if err := json.Unmarshal(get(manifest.Config, chartConfigType), &about); err != nil || about["name"] != "teescope" || about["version"] != "0.1.0" || about["appVersion"] != "v0.1.0" || about["apiVersion"] != "v2" {
		t.Errorf("the artefact says of the chart: %v, %v", about, err)
	}
}
