package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease makes a release of the last commit twice, the second time in another folder and with an empty cache of the compiler, and
// compares all files. Then other programs check what is in them. It takes twenty minutes: `make release-test` runs it.
func TestRelease(t *testing.T) {
	if os.Getenv("TEESCOPE_RELEASE") == "" {
		t.Skip("makes a release twice, which takes twenty minutes: make release-test")
	}
	const version = "v0.1.0"
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
	checkRelease(t, made[0], version)
}

// checkRelease has other programs check, unpack and install what is in a folder.
func checkRelease(t *testing.T, out, version string) {
	t.Helper()
	files := readAll(t, out)
	t.Run("checksums", func(t *testing.T) {
		command(t, out, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		signature, err := base64.StdEncoding.DecodeString(string(files["SHA256SUMS.sig"]))
		if err != nil {
			t.Fatal(err)
		}
		der := filepath.Join(t.TempDir(), "signature")
		if err := os.WriteFile(der, signature, 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, out, nil, "openssl", "dgst", "-sha256", "-verify", "cosign.pub", "-signature", der, "SHA256SUMS")
	})
	t.Run("provenance", func(t *testing.T) {
		var s struct {
			Subject []struct {
				Name   string
				Digest map[string]string
			}
		}
		if err := json.Unmarshal(files["provenance.intoto.json"], &s); err != nil || len(s.Subject) != len(files)-4 {
			t.Fatalf("%d subjects of %d files, %v", len(s.Subject), len(files), err)
		}
		for _, subject := range s.Subject {
			if want := fmt.Sprintf("%x", sha256.Sum256(files[subject.Name])); subject.Digest["sha256"] != want {
				t.Errorf("%s has the digest %v, want %s", subject.Name, subject.Digest, want)
			}
		}
	})
	for arch, other := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		t.Run(arch, func(t *testing.T) {
			roots := map[string]string{}
			for format, unpack := range map[string]string{ // tar and dpkg-deb leave no folder, whatever names say
				"tar": "tar xzf $0/teescope-linux-" + arch + ".tar.gz",
				"deb": "dpkg-deb -x $0/teescope-" + arch + ".deb .",
				"apk": "tar xzf $0/teescope-" + other + ".apk --ignore-zeros --warning=no-unknown-keyword",
			} {
				roots[format] = t.TempDir()
				command(t, roots[format], nil, "sh", "-c", unpack, out)
			}
			r := newRoot(t, out)
			install := r.outside("rpm", "--root", r.dir, "--install", "--nodeps", "--ignorearch", filepath.Join(r.dir, "debs", "teescope-"+other+".rpm"))
			if said, err := install.CombinedOutput(); err != nil || !bytes.Contains(said, []byte("systemctl enable --now teescope")) {
				t.Fatalf("rpm --install: %v\n%s", err, said)
			}
			if said, err := r.outside("rpm", "--root", r.dir, "--verify", "teescope").CombinedOutput(); err != nil {
				t.Errorf("rpm --verify: %v\n%s", err, said)
			}
			roots["rpm"] = r.path("/")
			program := read(t, filepath.Join(roots["tar"], "teescope", "teescope"))
			for _, format := range []string{"deb", "rpm", "apk"} {
				if !bytes.Equal(program, read(t, filepath.Join(roots[format], "usr/bin/teescope"))) {
					t.Errorf("the program of the %s is another one", format)
				}
				for _, name := range []string{"usr/bin/teescope-work", "usr/share/man/man1/teescope.1.gz", "usr/share/bash-completion/completions/teescope", installedConfig} {
					read(t, filepath.Join(roots[format], name))
				}
				_, err := os.Stat(filepath.Join(roots[format], installedUnit))
				if want := format != "apk"; want != (err == nil) {
					t.Errorf("the unit in the %s: %v", format, err)
				}
			}
			if arch == runtime.GOARCH {
				if said := command(t, "", nil, filepath.Join(roots["tar"], "teescope", "teescope"), "--version"); said != "teescope version "+version {
					t.Errorf("--version says %q", said)
				}
				unit := filepath.Join(t.TempDir(), "teescope.service") // with the program that is here
				text := bytes.ReplaceAll(read(t, filepath.Join(roots["deb"], installedUnit)), []byte("/usr/bin/teescope"), []byte(filepath.Join(roots["deb"], "usr/bin/teescope")))
				if err := os.WriteFile(unit, text, 0o644); err != nil {
					t.Fatal(err)
				}
				if said := command(t, "", nil, "systemd-analyze", "verify", "--man=no", unit); strings.Contains(said, "teescope.service") {
					t.Errorf("systemd-analyze verify: %s", said)
				}
			}
			r.write("/var/lib/private/teescope/lock", "")
			if said, err := r.outside("rpm", "--root", r.dir, "--erase", "--nodeps", "teescope").CombinedOutput(); err != nil {
				t.Errorf("rpm --erase: %v\n%s", err, said)
			}
			r.check("rpm --erase left the program, or took the data", !r.has("/usr/bin/teescope") && r.has("/var/lib/private/teescope/lock"))
			r.check("rpm --erase left folders", !r.has("/etc/teescope") && !r.has("/usr/share/doc/teescope"))
		})
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
