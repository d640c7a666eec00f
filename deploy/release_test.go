package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRelease makes a release of the last commit twice, the second time in another folder and with an empty cache of the compiler, and
// compares all files. Then each is installed or unpacked by other programs, and used. It takes half an hour: `make release-test` runs it.
// With TEESCOPE_RELEASE=FOLDER it only uses the files of a release that is there.
func TestRelease(t *testing.T) {
	const version = "v0.1.0"
	switch folder := os.Getenv("TEESCOPE_RELEASE"); folder {
	case "":
		t.Skip("makes a release twice, which takes half an hour: make release-test")
	case "1":
		checkRelease(t, makeTwice(t, version), version)
	default:
		checkRelease(t, folder, version)
	}
}

// TestShortestWay: the first screen of README.md has the shortest way from nothing to the first finding: files that a release has, and the one
// command.
func TestShortestWay(t *testing.T) {
	lines := strings.Split(string(read(t, "../README.md")), "\n")
	const screen = 25
	first := strings.Join(lines[:screen], "\n")
	for _, word := range []string{"releases/latest/download/teescope-linux-amd64.tar.gz", "teescope/teescope top", "releases/latest/download/teescope-amd64.deb", "apt install ./teescope-amd64.deb"} {
		if !strings.Contains(first, word) {
			t.Errorf("the first %d lines have no %q:\n%s", screen, word, first)
		}
	}
	for _, m := range regexp.MustCompile(`releases/latest/download/(\S+)`).FindAllStringSubmatch(string(read(t, "../README.md")), -1) {
		if !slices.Contains(releaseFiles, m[1]) {
			t.Errorf("a release has no file %s", m[1])
		}
	}
}

// makeTwice makes a release twice and returns the folder of the first one.
func makeTwice(t *testing.T, version string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key.pem")
	command(t, "", nil, "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	revision := command(t, "", nil, "git", "rev-parse", "HEAD") // the same for both
	var made [2]string
	for i, umask := range []string{"022", "077"} {
		tree := filepath.Join(t.TempDir(), strings.Repeat("a longer path/", i), "teescope")
		command(t, "", nil, "git", "clone", "--quiet", "--no-checkout", source, tree)
		command(t, tree, nil, "git", "checkout", "--quiet", "--detach", revision)
		environment := []string{"COSIGN_KEY=" + key, "GOFLAGS="}
		if i > 0 {
			environment = append(environment, "GOCACHE="+t.TempDir())
		}
		command(t, tree, environment, "sh", "-c", "umask "+umask+" && exec make release VERSION="+version)
		made[i] = filepath.Join(tree, "bin", "release")
	}
	first, second := readAll(t, made[0]), readAll(t, made[1])
	if len(first) != len(second) {
		t.Errorf("%d files, then %d", len(first), len(second))
	}
	for name, b := range first {
		if !bytes.Equal(b, second[name]) {
			t.Errorf("%s differs: %x with %d bytes, then %x with %d bytes", name, sha256.Sum256(b), len(b), sha256.Sum256(second[name]), len(second[name]))
		}
	}
	return made[0]
}

// releaseFiles are those of a release, for every architecture and system.
var releaseFiles = []string{
	"SHA256SUMS", "SHA256SUMS.sig", "cosign.pub", "provenance.intoto.json", "provenance.intoto.jsonl",
	"teescope-linux-amd64.tar.gz", "teescope-linux-arm64.tar.gz", "teescope-agent-linux-amd64.tar.gz", "teescope-agent-linux-arm64.tar.gz",
	"teescope-amd64.deb", "teescope-arm64.deb", "teescope-x86_64.rpm", "teescope-aarch64.rpm", "teescope-x86_64.apk", "teescope-aarch64.apk",
	"teescope-darwin-arm64.tar.gz", "teescope-windows-amd64.zip", "teescope.oci.tar", "teescope-amd64.cdx.json", "teescope-arm64.cdx.json",
	"teescope-chart.tgz", "teescope-chart.oci.tar", "teescope.rb", "teescope-krew.yaml",
}

// checkRelease installs or unpacks each file of a folder, and uses it.
func checkRelease(t *testing.T, out, version string) {
	t.Helper()
	files := readAll(t, out)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, slices.Sorted(slices.Values(releaseFiles))) {
		t.Errorf("the release has %q", names)
	}
	t.Run("checksums", func(t *testing.T) { checkSums(t, out, files) })
	t.Run("provenance", func(t *testing.T) { checkStatement(t, out, files) })
	for arch, other := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		t.Run(arch, func(t *testing.T) { comparePackages(t, out, arch, other) })
	}
	t.Run("tarball", func(t *testing.T) { useTarball(t, out, version) })
	t.Run("deb", func(t *testing.T) { useDeb(t, newRoot(t, out), version) })
	t.Run("rpm", func(t *testing.T) { useRPM(t, newRoot(t, out), version) })
	t.Run("apk", func(t *testing.T) { useAPK(t, newRoot(t, out), files, version) })
	t.Run("agent", func(t *testing.T) { useAgent(t, out, version) })
	t.Run("clients", func(t *testing.T) { checkClients(t, files) })
	t.Run("image", func(t *testing.T) { useImage(t, out, version) })
	t.Run("chart", func(t *testing.T) { useChart(t, out, files, version) })
	t.Run("completions", func(t *testing.T) { useCompletions(t, out) })
	t.Run("man pages", func(t *testing.T) { checkManPages(t, out) })
	t.Run("Krew", func(t *testing.T) { checkKrew(t, files) })
	t.Run("systemd", func(t *testing.T) { serviceInGuest(t, out) })
}

// checkSums has sha256sum and openssl check the digests and their signature.
func checkSums(t *testing.T, out string, files map[string][]byte) {
	command(t, out, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	verify(t, out, files["SHA256SUMS.sig"], files["SHA256SUMS"])
}

// verify has openssl check a signature in base64 with the key of the release.
func verify(t *testing.T, out string, signature, text []byte) {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(string(signature))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "signature"), der, 0o600), os.WriteFile(filepath.Join(dir, "text"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	command(t, out, nil, "openssl", "dgst", "-sha256", "-verify", "cosign.pub", "-signature", filepath.Join(dir, "signature"), filepath.Join(dir, "text"))
}

// checkStatement compares the digests of the statement of provenance with the files, and has openssl check its envelope.
func checkStatement(t *testing.T, out string, files map[string][]byte) {
	var s struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(files["provenance.intoto.json"], &s); err != nil || len(s.Subject) != len(files)-5 {
		t.Fatalf("%d subjects of %d files, %v", len(s.Subject), len(files), err)
	}
	for _, subject := range s.Subject {
		if want := fmt.Sprintf("%x", sha256.Sum256(files[subject.Name])); subject.Digest["sha256"] != want {
			t.Errorf("%s has the digest %v, want %s", subject.Name, subject.Digest, want)
		}
	}
	var envelope struct {
		PayloadType, Payload string
		Signatures           []struct{ Sig string }
	}
	if err := json.Unmarshal(files["provenance.intoto.jsonl"], &envelope); err != nil || len(envelope.Signatures) != 1 {
		t.Fatalf("the envelope: %v: %s", err, files["provenance.intoto.jsonl"])
	}
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil || !bytes.Equal(payload, files["provenance.intoto.json"]) {
		t.Errorf("the envelope has another statement: %v: %s", err, payload)
	}
	verify(t, out, []byte(envelope.Signatures[0].Sig), fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(payload), payload))
}

// comparePackages: the packages of an architecture have the programs of the tarball.
func comparePackages(t *testing.T, out, arch, other string) {
	roots := map[string]string{}
	for format, unpack := range map[string]string{ // tar and dpkg-deb leave no folder, whatever names say
		"tar": "tar xzf $0/teescope-linux-" + arch + ".tar.gz",
		"deb": "dpkg-deb -x $0/teescope-" + arch + ".deb .",
		"rpm": "rpm2cpio $0/teescope-" + other + ".rpm | cpio --extract --make-directories --no-absolute-filenames --quiet",
		"apk": "tar xzf $0/teescope-" + other + ".apk --ignore-zeros --warning=no-unknown-keyword",
	} {
		roots[format] = t.TempDir()
		command(t, roots[format], nil, "sh", "-c", unpack, out)
	}
	for _, program := range []string{"teescope", "teescope-work"} {
		want := read(t, filepath.Join(roots["tar"], "teescope", program))
		for _, format := range []string{"deb", "rpm", "apk"} {
			if !bytes.Equal(want, read(t, filepath.Join(roots[format], "usr/bin", program))) {
				t.Errorf("%s of the %s is another one", program, format)
			}
		}
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		for _, name := range []string{"usr/share/man/man1/teescope.1.gz", "usr/share/bash-completion/completions/teescope", installedConfig} {
			read(t, filepath.Join(roots[format], name))
		}
		_, err := os.Stat(filepath.Join(roots[format], installedUnit))
		if want := format != "apk"; want != (err == nil) {
			t.Errorf("the unit in the %s: %v", format, err)
		}
	}
}

// command runs a program to its end and returns what it printed.
func command(t *testing.T, dir string, environment []string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// readAll reads the files of a folder.
func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d files in %s, %v", len(entries), dir, err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
