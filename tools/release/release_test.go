package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	other := map[string]string{"amd64": "arm64"}[runtime.GOARCH]
	if other == "" {
		other = "amd64"
	}
	for args, want := range map[string]string{
		"amd64=x":                                                       `version ""`,
		"-version 0.1.0 amd64=x":                                        "want one like v0.1.0",
		"-version v0.1 amd64=x":                                         "want one like v0.1.0",
		"-version v0.1.0-3-g44b8668-dirty amd64=x":                      "want one like v0.1.0",
		"-version v0.1.0":                                               "no programs",
		"-version v0.1.0 " + other + "=x":                               "no program runs on this machine",
		"-version v0.1.0 mips=x":                                        "with amd64 or arm64",
		"-version v0.1.0 amd64=":                                        "with amd64 or arm64",
		"-version v0.1.0 plan9/amd64=x":                                 "with darwin/arm64 and the like for a client",
		"-version v0.1.0 darwin/arm64=x":                                "no programs",
		"-version v0.1.0 -created now amd64=x":                          "want whole seconds of Unix time",
		"-version v0.1.0 -only msi amd64=x":                             "want some of tar.gz, deb, rpm, apk, chart",
		"-version v0.1.0-snapshot amd64=x":                              "want one like v0.1.0",
		"-version v0.1.0-rc.1.2 amd64=x":                                "want one like v0.1.0",
		"-version v0.1.0-rc.1 -program p -only deb,rpm amd64=x":         "",
		"-version v10.20.30 -created 1 amd64=x arm64=y windows/arm64=z": "",
	} {
		_, err := parse(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
}

// needPage skips a test where the page was not built, because its packages have licenses.
func needPage(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../ui/node_modules/react"); err != nil {
		t.Skip("the packages of the page are not in ui/node_modules: make ui")
	}
}

// programsIn builds a small program under the names of ours, and says where it is.
func programsIn(t *testing.T, dir string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(programs, "teescope-agent") {
		out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "bin", name), source).CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
}

// writeKey makes a key of a release in a file.
func writeKey(t *testing.T, kind string, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	name := filepath.Join(t.TempDir(), "key.pem")
	if err == nil {
		err = os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTwice packs the same programs twice, in other folders, at another time and with another number of CPUs, and compares the files.
func TestTwice(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := writeKey(t, "PRIVATE KEY", key)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := []item{{inTarball: "man/man1/teescope.1", text: []byte("a page")}, {installed: "/usr/share/man/man1/teescope.1.gz", text: gzipText([]byte("a page"))},
		{inTarball: "completions/_teescope", installed: "/usr/share/zsh/site-functions/_teescope", text: []byte("completions")}}
	dir := t.TempDir()
	programsIn(t, dir)
	for _, name := range []string{"teescope", "teescope.exe"} { // of clients
		if err := os.Link(filepath.Join(dir, "bin", "teescope-work"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var made [2]map[string][]byte
	var folders [2]string
	for i := range made {
		programs := filepath.Join(t.TempDir(), strings.Repeat("other/", i))
		if err := os.CopyFS(programs, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			old := time.Unix(1, 0)
			if err := os.Chtimes(filepath.Join(programs, "bin", "teescope"), old, old); err != nil {
				t.Fatal(err)
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()*2 + 1))
		}
		folders[i] = t.TempDir()
		o := options{root: root, out: folders[i], key: keyFile, version: "v0.1.0", revision: "abc", created: time.Unix(1000, 0).UTC(), builds: []build{{"amd64", programs}, {"arm64", programs}},
			clients: []build{{"darwin/arm64", programs}, {"windows/amd64", programs}}}
		for _, b := range o.builds {
			if err := o.pack(b, pages); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(o.packChart(), o.packClients(pages), o.writePublished(), o.writeProvenance()); err != nil {
			t.Fatal(err)
		}
		sums, err := o.writeChecksums()
		if err == nil {
			err = o.sign(sums)
		}
		if err != nil {
			t.Fatal(err)
		}
		made[i] = map[string][]byte{}
		entries, err := os.ReadDir(folders[i])
		for _, e := range entries {
			if err == nil {
				made[i][e.Name()], err = os.ReadFile(filepath.Join(folders[i], e.Name()))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"teescope-linux-amd64.tar.gz", "teescope-linux-arm64.tar.gz", "teescope-amd64.deb", "teescope-arm64.deb", "teescope-x86_64.rpm", "teescope-aarch64.rpm",
		"teescope-x86_64.apk", "teescope-aarch64.apk", "teescope-agent-linux-amd64.tar.gz", "teescope-agent-linux-arm64.tar.gz", "teescope-darwin-arm64.tar.gz",
		"teescope-windows-amd64.zip", chartName, chartLayoutName, formulaName, krewName, provenanceName, envelopeName, checksumsName, signatureName, publicName}
	for _, name := range names {
		if a, b := made[0][name], made[1][name]; len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s has %d bytes, then %d others", name, len(a), len(b))
		}
	}
	if len(made[0]) != len(names) {
		t.Errorf("%d files, want %d", len(made[0]), len(names))
	}
	checkSignature(t, folders[0], &key.PublicKey, made[0])
	checkProvenance(t, made[0][provenanceName], len(names)-5)
	checkEnvelope(t, made[0], &key.PublicKey)
	checkPublished(t, made[0])
	checkChartLayout(t, made[0])
}

// checkSignature verifies with Go's library, and with the programs that people have.
func checkSignature(t *testing.T, dir string, key *ecdsa.PublicKey, made map[string][]byte) {
	t.Helper()
	signature, err := base64.StdEncoding.DecodeString(string(made[signatureName]))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(made[checksumsName]); !ecdsa.VerifyASN1(key, sum[:], signature) {
		t.Error("the signature is not one of the checksums")
	}
	der := filepath.Join(t.TempDir(), "signature")
	if err := os.WriteFile(der, signature, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"sha256sum", "--check", "--strict", "--quiet", checksumsName},
		{"openssl", "dgst", "-sha256", "-verify", publicName, "-signature", der, checksumsName},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("%s is not installed", argv[0])
			continue
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, out)
		}
	}
	if lines := strings.Count(string(made[checksumsName]), "\n"); lines != len(made)-4 {
		t.Errorf("%d checksums of %d files", lines, len(made))
	}
}

func checkProvenance(t *testing.T, b []byte, subjects int) {
	t.Helper()
	var s statement
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	definition := s.Predicate.BuildDefinition
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" || len(s.Subject) != subjects {
		t.Errorf("statement %s, predicate %s, %d subjects", s.Type, s.PredicateType, len(s.Subject))
	}
	if !slices.IsSortedFunc(s.Subject, func(a, b resource) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the subjects are not in order")
	}
	if len(definition.ResolvedDependencies) != 2 || definition.ResolvedDependencies[0].URI != "git+"+repository || definition.ResolvedDependencies[0].Digest["gitCommit"] != "abc" || !strings.HasPrefix(definition.ResolvedDependencies[1].URI, "pkg:golang/std@1.") {
		t.Errorf("made from %+v", definition.ResolvedDependencies)
	}
	if definition.ExternalParameters["version"] != "v0.1.0" || definition.ExternalParameters["architectures"] != "amd64 arm64" || definition.ExternalParameters["clients"] != "darwin/arm64 windows/amd64" || definition.ExternalParameters["sourceDateEpoch"] != "1000" {
		t.Errorf("made with %v", definition.ExternalParameters)
	}
}

// TestReadKey: a key that cannot sign is refused before anything is made.
func TestReadKey(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		writeKey(t, "PRIVATE KEY", other):                    "want a key of ECDSA on P-256",
		writeKey(t, "PRIVATE KEY", large):                    "want a key of ECDSA on P-256",
		writeKey(t, "ENCRYPTED SIGSTORE PRIVATE KEY", other): "sign SHA256SUMS with cosign",
		none:              "it is not in PEM",
		none + "/nowhere": "no such file",
		"/nowhere":        "no such file",
	} {
		o := options{key: name}
		if err := o.checkKey(); err == nil || !strings.Contains(strings.Replace(err.Error(), "not a directory", "no such file", 1), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestNotices: Go, the modules and the page's packages are named with their terms, and equal terms are there once.
func TestNotices(t *testing.T) {
	needPage(t)
	o := options{root: "../.."}
	b, err := o.notices()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if committed, _, err := o.committedNotices(); err != nil || !bytes.Equal(committed, b) {
		t.Errorf("%s is not what is linked now, %v: run `make generate`", noticesFile, err)
	}
	for _, part := range []string{"\nGo's standard library\n", "\ngithub.com/prometheus/prometheus v", "\ngithub.com/cilium/ebpf v", "\nreact 1", "\nuplot 1.", "\ngithub.com/inconshreveable/mousetrap v", "\nmusl 1.2.3, "} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q is there %d times", part, strings.Count(text, part))
		}
	}
	if strings.Contains(text, "\nvite ") {
		t.Error("vite builds the page and is not in it")
	}
	if sections := strings.Count(text, "\n"+strings.Repeat("=", 78)+"\n"); sections < 20 || strings.Count(text, "Permission is hereby granted") < 10 {
		t.Errorf("%d sections", sections)
	}
	if _, err := (part{dir: t.TempDir()}).terms(); err == nil || !strings.Contains(err.Error(), "no file with its license") {
		t.Errorf("a module without a license: %v", err)
	}
}

// TestCheckCommit: only programs that were built from the commit, without changes, make a release.
func TestCheckCommit(t *testing.T) {
	dir := t.TempDir()
	o := options{builds: []build{{"amd64", dir}}, revision: "abc"}
	refused := func(what, want string) {
		t.Helper()
		if err := o.checkCommit(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", what, err, want)
		}
	}
	programsIn(t, dir) // outside a repository
	refused("programs of no commit", "does not say from which commit")

	source, revision := commitIn(t)
	buildIn := func() {
		t.Helper()
		for _, name := range append(programs, "teescope-agent") {
			runIn(t, source, "go", "build", "-buildvcs=true", "-o", filepath.Join(dir, "bin", name), ".")
		}
	}
	buildIn()
	refused("programs of another commit", "is of commit "+revision+" (changed: false), not of abc")
	o.revision = revision
	if err := o.checkCommit(); err != nil {
		t.Errorf("programs of the commit: %v", err)
	}
	if err := os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() { print() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	buildIn()
	refused("programs with a change that is in no commit", "(changed: true)")
}

// commitIn makes a repository of one commit, with a small program.
func commitIn(t *testing.T) (dir, revision string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"main.go": "package main\n\nfunc main() {}\n", "go.mod": "module example.org/small\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runIn(t, dir, "git", "init", "--quiet")
	runIn(t, dir, "git", "add", ".")
	runIn(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false", "commit", "--quiet", "-m", "small")
	return dir, runIn(t, dir, "git", "rev-parse", "HEAD")
}

func runIn(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestTagged: the provenance names a tag only if it is there, and at the commit of the release.
func TestTagged(t *testing.T) {
	dir, revision := commitIn(t)
	o := options{root: dir, version: "v0.1.0", revision: revision}
	check := func(what string, want bool) {
		t.Helper()
		if got := o.tagged(); got != want {
			t.Errorf("%s: tagged %v", what, got)
		}
	}
	check("no tag", false)
	runIn(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "tag.gpgsign=false", "tag", "-a", "-m", "a tag with a text", "v0.1.0")
	check("a tag at the commit", true)
	o.revision = strings.Repeat("0", 40)
	check("a tag at another commit", false)
}

// TestVersions: each format names a pre-release so that its program takes it, and takes the release for newer.
func TestVersions(t *testing.T) {
	for format, want := range map[string]string{"deb": "teescope_0.1.0~rc.1-1_amd64.deb", "rpm": "teescope-0.1.0~rc.1-1.x86_64.rpm", "apk": "teescope_0.1.0_rc1-r1_x86_64.apk"} {
		t.Run(format, func(t *testing.T) {
			i := options{version: "v0.1.0-rc.1"}.info(format, "amd64", nil, nil)
			if got := packagers[format].ConventionalFileName(i); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestNothingHalf: what cannot be completed is removed, and what is missing is named.
func TestNothingHalf(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	o := options{root: root, out: out, version: "v0.1.0", builds: []build{{"amd64", "nowhere"}}}
	if err := o.pack(o.builds[0], nil); err == nil || !strings.Contains(err.Error(), "nowhere/bin/teescope") {
		t.Errorf("programs that are not there: %v", err)
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	o.program = "/bin/false"
	if _, err := o.pages(); err == nil || !strings.Contains(err.Error(), "/bin/false") {
		t.Errorf("a program that fails: %v", err)
	}
	o.program = "/bin/echo"
	if _, err := o.pages(); err == nil || !strings.Contains(err.Error(), "is not of v0.1.0") {
		t.Errorf("another program: %v", err)
	}
}
