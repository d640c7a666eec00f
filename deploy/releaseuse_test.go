package deploy

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/host"
)

// needNative skips a test of programs that do not run on this machine.
func needNative(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("the tests of a release use its programs for amd64, and this is %s", runtime.GOARCH)
	}
}

// needTool skips a test whose program is not installed.
func needTool(t *testing.T, name, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed (package %s)", name, pkg)
	}
}

// useProgram uses a teescope that was installed or unpacked: it is of the version, knows the machine, lists what can be measured, watches by
// itself, and monitors. start returns a command of it.
func useProgram(t *testing.T, version string, start func(args ...string) *exec.Cmd) {
	t.Helper()
	printed := func(c *exec.Cmd) []byte {
		t.Helper()
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", c, err, out, &errs)
		}
		return out
	}
	checkVersion(t, printed(start("teescope", "version", "--json")), build.Full, version)
	states(t, printed(start("teescope", "doctor", "--json")))
	if list := printed(start("teescope", "bench", "list")); !bytes.Contains(list, []byte("startup")) {
		t.Errorf("bench list printed %s", list)
	}
	if work, err := start("teescope-work", "load", "-help").CombinedOutput(); err != nil || !bytes.Contains(work, []byte("-address")) { // the worker is beside it
		t.Errorf("teescope-work: %v\n%s", err, work)
	}
	if table := printed(start("unshare", "--net", "teescope", "top", "--once")); !bytes.Contains(table, []byte("in this process")) {
		t.Errorf("top printed %s", table)
	}
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p := await.Start(t, start("teescope", "monitor", "--listen", address, "--data", "/tmp/teescope-data-"+filepath.Base(t.TempDir()), "--interval", "1s"))
	await.Event(t, "its monitor answers", func() error {
		page, err := get("http://" + address + "/")
		if err == nil && !strings.Contains(page, "<title>") {
			err = fmt.Errorf("the page is %.300s", page)
		}
		return err
	})
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the monitor ended with %s", p.Last())
	}
}

// checkVersion compares what `version --json` prints with what a program of a release is.
func checkVersion(t *testing.T, printed []byte, kind build.Kind, version string) {
	t.Helper()
	var is build.Info
	if err := json.Unmarshal(printed, &is); err != nil || is.Kind != kind || is.Version != version || is.Commit == nil || is.CommittedAt == nil || is.Modified == nil || *is.Modified {
		t.Errorf("it is %s, %v", printed, err)
	}
}

func useTarball(t *testing.T, out, version string) {
	needNative(t)
	dir := t.TempDir()
	command(t, dir, nil, "tar", "xzf", filepath.Join(out, "teescope-linux-amd64.tar.gz"))
	path := "PATH=" + filepath.Join(dir, "teescope") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	useProgram(t, version, func(args ...string) *exec.Cmd { return exec.Command("env", append([]string{path}, args...)...) })
	unit := filepath.Join(t.TempDir(), "teescope.service") // with the program that is here
	text := bytes.ReplaceAll(read(t, filepath.Join(dir, "teescope", "systemd", "teescope.service")), []byte("/usr/bin/teescope"), []byte(filepath.Join(dir, "teescope", "teescope")))
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := command(t, "", nil, "systemd-analyze", "verify", "--man=no", unit); strings.Contains(said, "teescope.service") {
		t.Errorf("systemd-analyze verify: %s", said)
	}
}

func useDeb(t *testing.T, r *root, version string) {
	needNative(t)
	if said := r.do("dpkg", "-i", "/debs/teescope-amd64.deb"); !strings.Contains(said, "systemctl enable --now teescope") {
		t.Errorf("dpkg -i said:\n%s", said)
	}
	useProgram(t, version, r.inside)
	if out := r.do("dpkg", "--verify", "teescope"); out != "" {
		t.Errorf("dpkg --verify: %s", out)
	}
	r.do("dpkg", "-P", "teescope")
	r.check("the purge left the program", !r.has("/usr/bin/teescope"))
}

// useRPM installs with Debian's rpm, whose data base has no packages that others could need.
func useRPM(t *testing.T, r *root, version string) {
	needNative(t)
	needTool(t, "rpm", "rpm")
	rpm := func(args ...string) string {
		t.Helper()
		out, err := r.outside(append([]string{"rpm", "--root", r.dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if said := rpm("--install", "--nodeps", filepath.Join(r.dir, "debs", "teescope-x86_64.rpm")); !strings.Contains(said, "systemctl enable --now teescope") {
		t.Errorf("rpm --install said:\n%s", said)
	}
	rpm("--verify", "teescope")
	useProgram(t, version, r.inside)
	r.write("/var/lib/private/teescope/lock", "")
	rpm("--erase", "--nodeps", "teescope")
	r.check("rpm --erase left the program, or took the data", !r.has("/usr/bin/teescope") && r.has("/var/lib/private/teescope/lock"))
	r.check("rpm --erase left folders", !r.has("/etc/teescope") && !r.has("/usr/share/doc/teescope"))
}

// useAPK unpacks the package as apk does, and checks what apk checks before: no registry of Debian, Go, Python, Rust or npm has apk-tools.
// A package without a signature has two parts, each compressed by itself; the first says of the second what its digest is
// (https://wiki.alpinelinux.org/wiki/Apk_spec).
func useAPK(t *testing.T, r *root, files map[string][]byte, version string) {
	needNative(t)
	parts := gzipMembers(t, files["teescope-x86_64.apk"])
	if len(parts) != 2 {
		t.Fatalf("the package has %d parts, want 2: control and data", len(parts))
	}
	control, err := gzip.NewReader(bytes.NewReader(parts[0]))
	if err != nil {
		t.Fatal(err)
	}
	about := string(readTar(t, control)["/.PKGINFO"].text)
	for _, line := range []string{"pkgname = teescope", "pkgver = " + strings.TrimPrefix(version, "v") + "-r1", "arch = x86_64", fmt.Sprintf("datahash = %x", sha256.Sum256(parts[1]))} {
		if !strings.Contains("\n"+about, "\n"+line+"\n") {
			t.Errorf(".PKGINFO has no line %q:\n%s", line, about)
		}
	}
	checkAPKDigests(t, parts[1])
	unpack := r.outside("tar", "-C", r.dir, "-xz", "--no-same-owner", "--warning=no-unknown-keyword")
	unpack.Stdin = bytes.NewReader(parts[1])
	if said, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, said)
	}
	useProgram(t, version, r.inside)
	r.check("the package has a unit, which Alpine cannot use", !r.has(installedUnit))
}

// checkAPKDigests compares each file of a package's data with the digest that its header has for apk.
func checkAPKDigests(t *testing.T, data []byte) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for name, f := range readTar(t, unzipped) {
		if !f.regular {
			continue
		}
		files++
		if want := fmt.Sprintf("%x", sha1.Sum(f.text)); f.records["APK-TOOLS.checksum.SHA1"] != want {
			t.Errorf("%s has the digest %q, want %s", name, f.records["APK-TOOLS.checksum.SHA1"], want)
		}
	}
	if files < 20 {
		t.Errorf("the package has %d files", files)
	}
}

// gzipMembers cuts a file of several compressed parts.
func gzipMembers(t *testing.T, b []byte) (parts [][]byte) {
	t.Helper()
	in := bytes.NewReader(b)
	buffered := bufio.NewReader(in)
	var z gzip.Reader
	for from := 0; ; {
		err := z.Reset(buffered)
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err == nil {
			z.Multistream(false)
			_, err = io.Copy(io.Discard, &z)
		}
		if err != nil {
			t.Fatal(err)
		}
		to := len(b) - in.Len() - buffered.Buffered()
		parts, from = append(parts, b[from:to]), to
	}
}

// useAgent unpacks the agent alone and scrapes it.
func useAgent(t *testing.T, out, version string) {
	needNative(t)
	dir := t.TempDir()
	command(t, dir, nil, "tar", "xzf", filepath.Join(out, "teescope-agent-linux-amd64.tar.gz"))
	program := filepath.Join(dir, "teescope", "teescope-agent")
	printed, err := exec.Command(program, "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	checkVersion(t, printed, build.Agent, version)
	const most = 30 << 20
	if fi, err := os.Stat(program); err != nil || fi.Size() > most {
		t.Errorf("the agent alone has %d bytes, want at most %d: %v", fi.Size(), most, err)
	}
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p := await.Start(t, exec.Command(program, "--listen", address))
	await.Event(t, "the agent is scraped", func() error {
		metrics, err := get("http://" + address + "/metrics")
		if err == nil && !strings.Contains(metrics, "\nnode_memory_MemTotal_bytes ") {
			err = fmt.Errorf("the metrics are %.300s", metrics)
		}
		return err
	})
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the agent ended with %s", p.Last())
	}
}

// checkClients unpacks the clients. They do not run here: their programs say for which system they were built, and from the release's commit.
func checkClients(t *testing.T, files map[string][]byte) {
	unpacked, err := gzip.NewReader(bytes.NewReader(files["teescope-darwin-arm64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	mac := map[string][]byte{}
	for name, f := range readTar(t, unpacked) {
		mac[name] = f.text
	}
	archive, err := zip.NewReader(bytes.NewReader(files["teescope-windows-amd64.zip"]), int64(len(files["teescope-windows-amd64.zip"])))
	if err != nil {
		t.Fatal(err)
	}
	windows := map[string][]byte{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err == nil {
			windows["/"+f.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files         map[string][]byte
		program       string
		begins        string
		system, archi string
	}{
		{mac, "/teescope/teescope", "\xcf\xfa\xed\xfe\x0c\x00\x00\x01", "darwin", "arm64"}, // Mach-O of 64 bits for arm64
		{windows, "/teescope/teescope.exe", "MZ", "windows", "amd64"},
	} {
		program := c.files[c.program]
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil || !bytes.HasPrefix(program, []byte(c.begins)) {
			t.Errorf("%s of %s begins with %x, %v", c.program, c.system, program[:min(8, len(program))], err)
			continue
		}
		said := map[string]string{}
		for _, s := range info.Settings {
			said[s.Key] = s.Value
		}
		if info.Path != "github.com/teescope/teescope/cmd/teescope" || said["GOOS"] != c.system || said["GOARCH"] != c.archi || said["vcs.modified"] != "false" || said["CGO_ENABLED"] != "0" {
			t.Errorf("%s of %s is %s with %v", c.program, c.system, info.Path, said)
		}
		for _, name := range []string{"LICENSE", "LICENSES/OTHERS.txt", "LICENSES/musl.txt", "completions/teescope.bash", "completions/_teescope"} {
			if len(c.files["/teescope/"+name]) == 0 {
				t.Errorf("the client for %s has no %s", c.system, name)
			}
		}
	}
}

// useImage loads the image, and runs its program and its worker.
func useImage(t *testing.T, out, version string) {
	needNative(t)
	e := newEngine(t)
	name := "docker.io/library/teescope:" + version
	e.run(t, "load", "--quiet", "--input", filepath.Join(out, "teescope.oci.tar"))
	run := func(args ...string) string {
		return e.run(t, append([]string{"run", "--rm", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--network", "none"}, args...)...)
	}
	checkVersion(t, []byte(run(name, "version", "--json")), build.Full, version)
	if help := run("--entrypoint", "/teescope-work", name, "load", "-help"); !strings.Contains(help, "-address") {
		t.Errorf("teescope-work printed %s", help)
	}
}

// useChart lints and renders the chart from its file with Helm, and takes it to a registry and back: as a package, and as the artefact.
func useChart(t *testing.T, out string, files map[string][]byte, version string) {
	helm := builtHelm(t)
	chart := filepath.Join(out, "teescope-chart.tgz")
	if said := command(t, "", nil, helm, "lint", "--strict", chart); !strings.Contains(said, "0 chart(s) failed") {
		t.Errorf("helm lint: %s", said)
	}
	plain := strings.TrimPrefix(version, "v")
	for _, line := range []string{"version: " + plain, "appVersion: " + version} {
		if about := command(t, "", nil, helm, "show", "chart", chart); !strings.Contains("\n"+about+"\n", "\n"+line+"\n") {
			t.Errorf("helm show chart has no line %q:\n%s", line, about)
		}
	}
	rendered := command(t, "", nil, helm, "template", "teescope", chart, "--namespace", "teescope")
	if images := regexp.MustCompile(`image: (.*)`).FindAllStringSubmatch(rendered, -1); len(images) == 0 || slices.ContainsFunc(images, func(m []string) bool { return m[1] != "teescope:"+version }) {
		t.Errorf("the chart's images are %q", images)
	}
	needTool(t, "docker-registry", "docker-registry")
	needTool(t, "skopeo", "skopeo")
	registry := startRegistry(t)
	command(t, "", nil, "skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", "oci-archive:"+filepath.Join(out, "teescope-chart.oci.tar"), "docker://"+registry+"/copied/teescope:"+plain)
	command(t, "", nil, helm, "push", chart, "oci://"+registry+"/pushed", "--plain-http")
	for _, folder := range []string{"copied", "pushed"} {
		dir := t.TempDir()
		command(t, dir, nil, helm, "pull", "oci://"+registry+"/"+folder+"/teescope", "--version", plain, "--plain-http")
		if !bytes.Equal(read(t, filepath.Join(dir, "teescope-"+plain+".tgz")), files["teescope-chart.tgz"]) {
			t.Errorf("helm pulled another chart than was %s", folder)
		}
	}
}

// builtHelm is the Helm that tools/setup.sh built, or skips the test.
func builtHelm(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	helm := filepath.Join(cache, "teescope", "kubernetes", "helm")
	if _, err := os.Stat(helm); err != nil {
		t.Skipf("Helm is not built: `tools/setup.sh release` builds it (%v)", err)
	}
	return helm
}

// startRegistry starts a registry that is empty, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address, dir := fmt.Sprintf("127.0.0.1:%d", ports[0]), t.TempDir()
	settings := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", dir, address)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	await.Start(t, exec.Command("docker-registry", "serve", settings))
	await.Event(t, "the registry answers", func() error { _, err := get("http://" + address + "/v2/"); return err })
	return address
}

// useCompletions has each shell read its completion, and where it can be asked, complete a word with the program.
func useCompletions(t *testing.T, out string) {
	needNative(t)
	dir := t.TempDir()
	command(t, dir, nil, "tar", "xzf", filepath.Join(out, "teescope-linux-amd64.tar.gz"))
	folder := filepath.Join(dir, "teescope")
	path := []string{"PATH=" + folder + ":" + os.Getenv("PATH")}
	for _, c := range []struct{ shell, pkg, script, want string }{
		{"bash", "bash", `. /usr/share/bash-completion/bash_completion && . completions/teescope.bash && complete -p teescope &&
COMP_LINE="teescope mon" COMP_POINT=12 COMP_CWORD=1 COMP_WORDS=(teescope mon) && { __start_teescope 2>/dev/null; echo "it is ${COMPREPLY[*]}"; }`, "it is monitor"},
		{"zsh", "zsh", `fpath=($PWD/completions $fpath); autoload -Uz compinit && compinit -u -D && zsh -n completions/_teescope && autoload -Uz +X _teescope && echo "it is $_comps[teescope]"`, "it is _teescope"},
		{"fish", "fish", `source completions/teescope.fish; and complete -C "teescope mon" | string replace -r '\s.*' '' | string replace -r '^' 'it is '`, "it is monitor"},
	} {
		t.Run(c.shell, func(t *testing.T) {
			needTool(t, c.shell, c.pkg)
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); c.shell == "bash" && err != nil {
				t.Skip("bash-completion is not installed (package bash-completion)")
			}
			flags := map[string][]string{"bash": {"--norc", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[c.shell]
			if said := command(t, folder, path, append(append([]string{c.shell}, flags...), c.script)...); !strings.HasSuffix(said, c.want) {
				t.Errorf("it said %q, want %q at the end", said, c.want)
			}
		})
	}
}

// checkManPages has mandoc read each man page without a complaint.
func checkManPages(t *testing.T, out string) {
	needTool(t, "mandoc", "mandoc")
	dir := t.TempDir()
	command(t, dir, nil, "tar", "xzf", filepath.Join(out, "teescope-linux-amd64.tar.gz"))
	pages, err := filepath.Glob(filepath.Join(dir, "teescope", "man", "man1", "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d man pages, %v", len(pages), err)
	}
	command(t, "", nil, append([]string{"mandoc", "-T", "lint", "-W", "warning"}, pages...)...)
	if text := command(t, "", nil, "mandoc", "-T", "html", pages[0]); !strings.Contains(text, `id="SYNOPSIS"`) { // plain text is overstruck
		t.Errorf("%s reads\n%s", pages[0], text)
	}
}

// checkKrew has Krew's own program validate the manifest. What it names is not published, so Krew cannot install it.
func checkKrew(t *testing.T, files map[string][]byte) {
	program, err := filepath.Abs("../.tools/bin/validate-krew-manifest")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("Krew's validate-krew-manifest is not built: `tools/setup.sh release` builds it")
	}
	manifest := filepath.Join(t.TempDir(), "teescope.yaml")
	if err := os.WriteFile(manifest, files["teescope-krew.yaml"], 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "", nil, program, "-manifest", manifest, "-skip-install")
}
