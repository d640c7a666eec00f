package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/sources"
)

// The paths of the package that its tests ask for.
const (
	installedUnit    = "/usr/lib/systemd/system/teescope.service"
	unitByHand       = "/etc/systemd/system/teescope.service"
	installedOptions = "/etc/default/teescope"
	installedConfig  = "/etc/teescope/teescope.yaml"
)

// TestMain is also the program that starts the service under its unit's filter of system calls.
func TestMain(m *testing.M) {
	if names := os.Getenv(filterVariable); names != "" {
		fmt.Fprintln(os.Stderr, execFiltered(strings.Split(names, " "), os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// releaseTree has the programs as tools/release takes them.
func releaseTree(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("TEESCOPE_BIN")
	if binary == "" {
		t.Skip("needs TEESCOPE_BIN, the program that make build makes")
	}
	tree := t.TempDir()
	for _, program := range []string{"teescope", "teescope-work"} { // both lie in one folder
		copyFile(t, filepath.Join(tree, "bin", program), filepath.Join(filepath.Dir(binary), program))
	}
	return tree
}

// makeDebs makes a package of each version from the same programs, for this machine's architecture.
func makeDebs(t *testing.T, to string, versions ...string) {
	t.Helper()
	tree := releaseTree(t)
	tool := filepath.Join(tree, "release")
	if out, err := exec.Command("go", "-C", "../tools/release", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("build tools/release: %v\n%s", err, out)
	}
	for _, version := range versions {
		pack := exec.Command(tool, "-root", "..", "-o", tree, "-only", "deb", "-version", version, "-created", "1000", runtime.GOARCH+"="+tree)
		pack.Env = append(os.Environ(), "COSIGN_KEY=")
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", pack, err, out)
		}
		if err := os.Rename(filepath.Join(tree, "teescope-"+runtime.GOARCH+".deb"), filepath.Join(to, version+".deb")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackage reads the package without dpkg, and then installs and uses it in a Debian root without compilers.
func TestPackage(t *testing.T) {
	debs := t.TempDir()
	makeDebs(t, debs, "v0.1.0", "v0.1.1")
	t.Run("contents", func(t *testing.T) { checkDeb(t, read(t, filepath.Join(debs, "v0.1.0.deb"))) })
	t.Run("use", func(t *testing.T) { usePackage(t, newRoot(t, debs)) })
	t.Run("service", func(t *testing.T) { keepServiceState(t, newRoot(t, debs)) })
	t.Run("by hand", func(t *testing.T) { installOverByHand(t, newRoot(t, debs)) })
	t.Run("full disk", func(t *testing.T) { installOnFullDisk(t, newRoot(t, debs)) })
}

// checkDeb checks what is in a package: https://manpages.debian.org/bookworm/dpkg-dev/deb.5.
func checkDeb(t *testing.T, b []byte) {
	parts := readAr(t, b)
	if string(parts["debian-binary"]) != "2.0\n" {
		t.Errorf("format %q, want 2.0", parts["debian-binary"])
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(parts["control.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	control := readTar(t, unzipped)
	unpacked, err := zstd.NewReader(bytes.NewReader(parts["data.tar.zst"]))
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	data := readTar(t, unpacked)

	for _, line := range []string{"Package: teescope", "Version: 0.1.0-1", "Architecture: " + runtime.GOARCH, "Section: admin"} {
		if !strings.Contains("\n"+string(control["/control"].text), "\n"+line+"\n") {
			t.Errorf("control has no line %q:\n%s", line, control["/control"].text)
		}
	}
	if bytes.Contains(control["/control"].text, []byte("Depends:")) {
		t.Errorf("a static program depends on packages:\n%s", control["/control"].text)
	}
	if got := strings.Fields(string(control["/conffiles"].text)); !slices.Equal(got, []string{installedOptions, installedConfig}) {
		t.Errorf("conffiles %q", got)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if control["/"+script].mode&0o111 == 0 || !bytes.Equal(control["/"+script].text, read(t, "package/"+script)) {
			t.Errorf("%s has mode %o, or other text than deploy/package", script, control["/"+script].mode)
		}
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(control["/md5sums"].text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums["/"+strings.TrimPrefix(name, "/")] = sum
	}
	for name, f := range data {
		if f.owner != "root:root" || f.seconds != 1000 {
			t.Errorf("%s belongs to %s and is from second %d", name, f.owner, f.seconds)
		}
		if want := fmt.Sprintf("%x", md5.Sum(f.text)); f.regular && !slices.Contains([]string{installedOptions, installedConfig}, name) && sums[name] != want {
			t.Errorf("%s has the sum %q, want %s", name, sums[name], want)
		}
	}
	for name, mode := range map[string]int64{
		"/usr/bin/teescope": 0o755, "/usr/bin/teescope-work": 0o755, installedUnit: 0o644, installedOptions: 0o644, installedConfig: 0o644,
		"/usr/share/bash-completion/completions/teescope": 0o644, "/usr/share/zsh/vendor-completions/_teescope": 0o644, "/usr/share/fish/vendor_completions.d/teescope.fish": 0o644,
		"/usr/share/man/man1/teescope.1.gz": 0o644, "/usr/share/man/man1/teescope-bench-run.1.gz": 0o644,
		"/usr/share/doc/teescope/copyright": 0o644, "/usr/share/doc/teescope/LICENSES/GPL-2.0-only.txt": 0o644, "/usr/share/doc/teescope/LICENSES/OTHERS.txt.gz": 0o644,
	} {
		if f, ok := data[name]; !ok || f.mode&0o7777 != mode || len(f.text) == 0 {
			t.Errorf("%s: there %v, mode %o, %d bytes; want mode %o", name, ok, f.mode, len(f.text), mode)
		}
	}
	if !bytes.Equal(data[installedUnit].text, read(t, "systemd/teescope.service")) {
		t.Error("the unit is not the one of deploy/systemd")
	}
}

// readAr reads an archive of ar(5) in its common form.
func readAr(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	b, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	for ok && len(b) >= 60 {
		size, err := strconv.Atoi(strings.TrimSpace(string(b[48:58])))
		if err != nil || size > len(b)-60 {
			t.Fatalf("ar: a member of %q bytes", b[48:58])
		}
		all[strings.TrimRight(string(b[:16]), " /")] = b[60 : 60+size]
		b = b[min(len(b), 60+size+size%2):]
	}
	if len(all) == 0 {
		t.Fatal("no archive of ar")
	}
	return all
}

type packed struct {
	text    []byte
	mode    int64
	owner   string
	seconds int64
	regular bool
	records map[string]string // of its header (PAX)
}

// readTar reads a tar archive; names are absolute.
func readTar(t *testing.T, r io.Reader) map[string]packed {
	t.Helper()
	all := map[string]packed{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Clean("/" + h.Name)
		all[name] = packed{text, h.Mode, h.Uname + ":" + h.Gname, h.ModTime.Unix(), h.Typeflag == tar.TypeReg, h.PAXRecords}
	}
}

// root is a Debian without compilers, in a mount namespace of its own that ends with the test. What is written there is in memory.
type root struct {
	t      *testing.T
	dir    string // its path in the namespace
	keeper *await.Program
}

// newRoot makes a root over the one that tools/setup.sh made. The folder debs is its /debs.
func newRoot(t *testing.T, debs string) *root {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to install a package")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	base := filepath.Join(cache, "teescope", "debian", "root")
	if _, err := os.Stat(filepath.Join(base, "usr/bin/dpkg")); err != nil {
		t.Skipf("there is no Debian root in %s; as root, `tools/setup.sh test` makes it with debootstrap", base)
	}
	for _, compiler := range []string{"go", "node", "cc", "gcc", "clang"} {
		if found, _ := filepath.Glob(filepath.Join(base, "usr/*bin", compiler)); found != nil {
			t.Fatalf("the Debian root has a compiler: %v", found)
		}
	}
	for _, tool := range []string{"unshare", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (package util-linux)", tool)
		}
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("a mount namespace is refused here: %v: %s", err, bytes.TrimSpace(out))
	}
	top := t.TempDir()
	script := `set -e
mount -t tmpfs -o mode=755,size=1g tmpfs "$1"
cd "$1" && mkdir upper work root
mount -t overlay -o "lowerdir=$2,upperdir=upper,workdir=work" overlay root || cp -a "$2/." root # 200 MB, where the kernel has no overlays
mkdir -p root/debs
mount --bind "$3" root/debs
mount -t proc proc root/proc
mount --rbind /sys root/sys
mount --rbind /dev root/dev
echo ready
exec sleep infinity`
	r := &root{t, filepath.Join(top, "root"), await.Start(t, exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", top, base, debs))}
	if line := r.keeper.Line(t); line != "ready" {
		t.Fatalf("the root is %q", line)
	}
	return r
}

// path is a file of the root, as this process reaches it.
func (r *root) path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", r.keeper.Process.Pid), r.dir, name)
}

func (r *root) has(name string) bool {
	_, err := os.Lstat(r.path(name))
	return err == nil
}

func (r *root) write(name, text string) {
	r.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(r.path(name)), 0o755), os.WriteFile(r.path(name), []byte(text), 0o755)); err != nil {
		r.t.Fatal(err)
	}
}

// outside is a command in the root's namespace, and inside one in the root.
func (r *root) outside(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", r.keeper.Process.Pid), "--"}, args...)...)
}

func (r *root) inside(args ...string) *exec.Cmd {
	return r.outside(append([]string{"chroot", r.dir, "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}, args...)...)
}

// do runs a command in the root and returns what it printed.
func (r *root) do(args ...string) string {
	r.t.Helper()
	out, err := r.inside(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// resize gives the root's writable part so many bytes.
func (r *root) resize(bytes uint64) {
	r.t.Helper()
	if out, err := r.outside("mount", "-o", fmt.Sprintf("remount,size=%d", bytes), filepath.Dir(r.dir)).CombinedOutput(); err != nil {
		r.t.Fatalf("resize: %v\n%s", err, out)
	}
}

func (r *root) check(what string, ok bool) {
	r.t.Helper()
	if !ok {
		r.t.Error(what)
	}
}

// usePackage installs the package, looks at the machine, monitors it as the unit says, upgrades, removes and purges.
func usePackage(t *testing.T, r *root) {
	said := r.do("dpkg", "-i", "/debs/v0.1.0.deb")
	if !strings.Contains(said, "systemctl enable --now teescope") || strings.Contains(said, "by hand") {
		t.Errorf("the installation said:\n%s", said)
	}
	doctor, err := r.inside("teescope", "doctor", "--json").Output()
	if err != nil {
		t.Fatalf("doctor: %v", err)
	}
	forRoot := states(t, doctor)
	if page := r.do("sh", "-c", "gzip -dc /usr/share/man/man1/teescope-monitor.1.gz"); !strings.Contains(page, ".SH NAME\nteescope\\-monitor ") {
		t.Errorf("the man page is:\n%s", page)
	}

	nameStorm(t, r)

	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	changed := fmt.Sprintf("TEESCOPE_OPTIONS=\"--config %s --listen %s --interval 1s --budget 100%%\"\n", installedConfig, address) // a busy machine must not use the budget up
	r.write(installedOptions, changed)
	monitor := func() {
		p := r.startService()
		list := ""
		await.Event(t, "the sources of the service are those of root", func() (err error) {
			if list, err = get("http://" + address + "/api/teescope/v1/sources"); err != nil {
				return err
			}
			within := states(t, []byte(list))
			for _, s := range sources.All {
				outside, inside := forRoot[s.Name], within[s.Name]
				if outside.State != "available" || inside.State == "available" {
					continue
				}
				var needs []string
				for _, n := range s.Needs {
					needs = append(needs, n.Capability)
				}
				if !slices.Contains(needs, "cap_dac_override") { // the unit does without: README.md
					err = errors.Join(err, fmt.Errorf("source %s is %s: %s", s.Name, inside.State, inside.Reason))
				}
			}
			return err
		})
		checkService(t, p)
		page, err := get("http://" + address + "/")
		if err != nil || !strings.Contains(page, "<title>") {
			t.Errorf("the page: %v\n%.300s", err, page)
		}
		if code := p.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("the service ended with %s", p.Last())
		}
	}
	monitor()
	r.check("the service left no data", r.has("/var/lib/private/teescope/lock"))

	// README.md installs with apt. It asks nothing: the file that was changed is the same in both packages.
	r.do("apt-get", "install", "--yes", "--quiet", "/debs/v0.1.1.deb")
	if status := r.do("dpkg-query", "-f", "${Version} ${Status}", "-W", "teescope"); status != "0.1.1-1 install ok installed" {
		t.Errorf("after the upgrade: %s", status)
	}
	r.check("the upgrade lost the options", string(read(t, r.path(installedOptions))) == changed)
	monitor() // with the data of before

	r.do("dpkg", "-r", "teescope")
	r.check("the removal left the program", !r.has("/usr/bin/teescope") && !r.has("/usr/bin/teescope-work") && !r.has(installedUnit) && !r.has("/usr/share/man/man1/teescope.1.gz"))
	r.check("the removal took configuration", string(read(t, r.path(installedOptions))) == changed && r.has(installedConfig))
	r.check("the removal took data", r.has("/var/lib/private/teescope/lock") && r.has("/var/lib/teescope"))
	r.do("dpkg", "-P", "teescope")
	for _, name := range []string{installedOptions, "/etc/teescope", "/var/lib/teescope", "/var/lib/private/teescope", "/usr/share/doc/teescope"} {
		r.check("the purge left "+name, !r.has(name))
	}
	if out := r.do("dpkg", "--audit"); out != "" {
		t.Errorf("dpkg --audit: %s", out)
	}
}

// nameStorm checks that the one command which a new user types names a storm of system calls, as a finding. In a network of its own no monitor
// answers, so it watches by itself.
func nameStorm(t *testing.T, r *root) {
	t.Helper()
	load := startStorm(t)
	watchStorm(t, r)
	load.Stop(syscall.SIGTERM)
}

// stormName is the process that calls.
const stormName = "packagestorm"

// startStorm starts a program that makes a system call over and over.
func startStorm(t *testing.T) *await.Program {
	t.Helper()
	storm := filepath.Join(t.TempDir(), "storm")
	if out, err := exec.Command("cc", "-static", "-O2", "-pthread", "-o", storm, "../workloads/storm/storm.c").CombinedOutput(); err != nil {
		t.Fatalf("compile the storm: %v\n%s", err, out)
	}
	return await.Start(t, exec.Command(storm, "--syscall", "getppid", "--name", stormName, "--rate", "200000"))
}

// watchStorm waits until top, in the root, shows a finding about the storm.
func watchStorm(t *testing.T, r *root) {
	t.Helper()
	shown, err := os.Create(filepath.Join(t.TempDir(), "shown"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shown.Close() }()
	watch := r.inside("unshare", "--net", "teescope", "top")
	watch.Stdout = shown
	top := await.Start(t, watch)
	found := regexp.MustCompile(stormName + ` calls getppid [0-9]`)
	await.Event(t, "top names the storm", func() error {
		if text := read(t, shown.Name()); !found.Match(text) {
			return fmt.Errorf("no finding about it: %s", text[max(0, len(text)-2000):])
		}
		return nil
	})
	top.Stop(syscall.SIGINT)
}

// serviceUser is the first user that systemd gives to a DynamicUser.
const serviceUser = "61184"

// startService starts what the installed unit says, with its user, capabilities, limits and filter of system calls, as there is no systemd.
// What the unit hides of the file system (ProtectSystem and the like) stays visible.
func (r *root) startService() *await.Program {
	t := r.t
	t.Helper()
	unit := read(t, r.path(installedUnit))
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindSubmatch(unit)
		if m == nil {
			t.Fatalf("%s has no %s", installedUnit, key)
		}
		return string(m[1])
	}
	state, runtimeDir := value("StateDirectory"), value("RuntimeDirectory")
	r.do("sh", "-ec", fmt.Sprintf(`
		mkdir -p /var/lib/private /run/%[2]s && chmod 755 /var/lib/private # for others systemd shows them this one only
		mkdir -p -m %[3]s /var/lib/private/%[1]s && ln -sfn private/%[1]s /var/lib/%[1]s
		chown -R %[4]s:%[4]s /var/lib/private/%[1]s /run/%[2]s`, state, runtimeDir, value("StateDirectoryMode"), serviceUser))
	// The file of options, as systemd reads it here: one variable, in quotation marks.
	options := ""
	if m := regexp.MustCompile(`(?m)^TEESCOPE_OPTIONS="(.*)"$`).FindSubmatch(read(t, r.path(strings.TrimPrefix(value("EnvironmentFile"), "-")))); m != nil {
		options = string(m[1])
	}
	start := strings.Fields(strings.ReplaceAll(value("ExecStart"), "$TEESCOPE_OPTIONS", options))
	capabilities := func(key string) string {
		return "-all,+" + strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(value(key), "CAP_", ""), " ", ",+"))
	}
	var args []string
	limits := []string{"prlimit", "--memlock=" + strings.Replace(value("LimitMEMLOCK"), "infinity", "unlimited", 1), "--nofile=" + value("LimitNOFILE")}
	if out, err := r.inside(append(limits, "true")...).CombinedOutput(); err == nil {
		args = limits
	} else { // root may lack CAP_SYS_RESOURCE
		t.Logf("the service has the limits of the test: %s", bytes.TrimSpace(out))
	}
	if value("NoNewPrivileges") != "yes" || value("DynamicUser") != "yes" || value("SystemCallErrorNumber") != "EPERM" {
		t.Fatalf("%s is not as this test takes it", installedUnit)
	}
	args = append(args, "setpriv", "--reuid="+serviceUser, "--regid="+serviceUser, "--clear-groups", "--no-new-privs",
		"--bounding-set="+capabilities("CapabilityBoundingSet"), "--inh-caps="+capabilities("AmbientCapabilities"), "--ambient-caps="+capabilities("AmbientCapabilities"))
	if names := filtered(t, strings.Fields(value("SystemCallFilter"))); names != nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		copyFile(t, r.path("/filtered"), self)
		args = append(args, "env", filterVariable+"="+strings.Join(names, " "), "/filtered")
	}
	return await.Start(t, r.inside(append(args, start...)...))
}

// checkService: the process is the program, with the user, the capabilities and the filter of its unit.
func checkService(t *testing.T, p *await.Program) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.Process.Pid)
	if exe, err := os.Readlink(proc + "exe"); err != nil || filepath.Base(exe) != "teescope" {
		t.Errorf("the service is %s, %v", exe, err)
	}
	status := string(read(t, proc+"status"))
	lines := []string{"Uid:\t" + serviceUser + "\t", "NoNewPrivs:\t1\n"}
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		lines = append(lines, "Seccomp:\t2\n")
	}
	var bounding uint64
	for _, name := range []uint{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYSLOG, unix.CAP_DAC_READ_SEARCH} {
		bounding |= 1 << name
	}
	for _, line := range append(lines, fmt.Sprintf("CapBnd:\t%016x\n", bounding)) {
		if !strings.Contains(status, "\n"+line) {
			t.Errorf("the service has no line %q:\n%s", line, status)
		}
	}
}

// unitState stands in for systemctl, as no systemd runs in the root: it keeps the state of a unit in files, and what it was asked.
// stand-in: systemctl
const unitState = `#!/bin/sh
echo "$*" >>/asked
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in
enable) touch /enabled ;;
disable) rm -f /enabled ;;
start) touch /active ;;
stop) rm -f /active ;;
is-enabled) if [ -e /enabled ]; then echo enabled; else echo disabled; exit 1; fi ;;
is-active) [ -e /active ] ;;
esac
`

// keepServiceState: the scripts leave the service as it was, say how to start one that is not enabled, and a purge keeps root's measurements.
func keepServiceState(t *testing.T, r *root) {
	const line = "systemctl enable --now teescope"
	asked := func(what string) bool { return strings.Contains(string(read(t, r.path("/asked"))), what) }
	r.write("/usr/bin/systemctl", unitState)
	r.do("mkdir", "-p", "/run/systemd/system")
	r.check("the installation does not say how to start the service", strings.Contains(r.do("dpkg", "-i", "/debs/v0.1.0.deb"), line))
	r.do("systemctl", "enable", "--now", "teescope")
	r.do("systemctl", "start", "teescope")

	policy := "/usr/sbin/policy-rc.d"
	r.write("/asked", "")
	r.write(policy, "#!/bin/sh\nexit 101\n")
	r.check("an upgrade says how to start a service that is enabled", !strings.Contains(r.do("dpkg", "-i", "/debs/v0.1.1.deb"), line))
	r.check("the upgrade restarted the service against the policy", !asked("try-restart"))
	r.do("rm", policy)
	r.do("dpkg", "-i", "/debs/v0.1.1.deb")
	r.check("the upgrade did not restart the service", asked("try-restart teescope.service"))

	prerm := "/var/lib/dpkg/info/teescope.prerm"
	r.write(prerm, string(read(t, r.path(prerm)))+"exit 1\n")
	if out, err := r.inside("dpkg", "-r", "teescope").CombinedOutput(); err == nil {
		t.Errorf("a removal whose script fails:\n%s", out)
	}
	r.check("the removal that failed stopped nothing", asked("stop teescope.service") && asked("disable teescope.service"))
	r.check("after a removal that failed the service is not as it was", r.has("/enabled") && r.has("/active") && !r.has("/run/teescope.removal"))

	r.do("dpkg", "-i", "/debs/v0.1.1.deb")
	r.do("dpkg", "-r", "teescope")
	r.check("the removal left the service enabled or running", !r.has("/enabled") && !r.has("/active") && !r.has("/run/teescope.removal"))
	r.check("the installation after a removal does not say how to start the service", strings.Contains(r.do("dpkg", "-i", "/debs/v0.1.1.deb"), line))

	// A purge, with the data on a disk of its own.
	data := "/var/lib/private/teescope"
	r.do("mkdir", "-p", data)
	if out, err := r.outside("mount", "-t", "tmpfs", "tmpfs", filepath.Join(r.dir, data)).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v\n%s", err, out)
	}
	r.do("ln", "-s", "private/teescope", "/var/lib/teescope")
	for _, name := range []string{"lock", ".hidden", "series/a", "results/a.json"} {
		r.write(filepath.Join(data, name), "")
	}
	r.do("mkdir", data+"/history")
	said := r.do("dpkg", "-P", "teescope")
	r.check("the purge does not say that measurements stay:\n"+said, strings.Contains(said, "the measurements in "+data+"/results stay") && !strings.Contains(said, "/history"))
	if left := r.do("find", "/var/lib/teescope/", "-mindepth", "1", "-printf", "%P "); left != "results results/a.json " {
		t.Errorf("the purge left %s", left)
	}
}

// installOverByHand installs over what the unit's first lines tell one to do without a package.
func installOverByHand(t *testing.T, r *root) {
	r.write("/usr/bin/teescope", "#!/bin/sh\necho by hand\n")
	r.write("/usr/local/bin/teescope", "#!/bin/sh\necho by hand\n")
	r.write(unitByHand, string(read(t, "systemd/teescope.service")))
	r.write("/var/lib/teescope/results/kept", "")
	said := r.do("dpkg", "-i", "/debs/v0.1.0.deb")
	for _, path := range []string{unitByHand, "/usr/local/bin/teescope"} {
		if lines := regexp.MustCompile(`(?m)^teescope: .*`+regexp.QuoteMeta(path)+` was (made|installed) by hand.*$`).FindAllString(said, -1); len(lines) != 1 {
			t.Errorf("%d lines about %s:\n%s", len(lines), path, said)
		}
	}
	if out := r.do("/usr/bin/teescope", "--version"); !strings.HasPrefix(out, "teescope version ") {
		t.Errorf("/usr/bin/teescope is still the one made by hand: %s", out)
	}
	r.do("dpkg", "-r", "teescope")
	r.check("the removal took the unit made by hand", r.has(unitByHand))
	r.do("dpkg", "-P", "teescope")
	r.check("the purge took the unit or the data of an installation by hand", r.has(unitByHand) && r.has("/var/lib/teescope/results/kept"))
}

// installOnFullDisk: dpkg fails, what was there before still works, and once there is space the same command mends it.
func installOnFullDisk(t *testing.T, r *root) {
	const enough = 1 << 30
	fill := func() { // leaves less than the program needs
		var st unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(r.path("")), &st); err != nil {
			t.Fatal(err)
		}
		r.resize((st.Blocks-st.Bfree)*uint64(st.Bsize) + 20<<20)
	}
	fails := func(deb string) {
		t.Helper()
		out, err := r.inside("dpkg", "-i", deb).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("No space left on device")) {
			t.Fatalf("dpkg -i %s on a full disk: %v\n%s", deb, err, out)
		}
	}
	mends := func(deb, version string) {
		t.Helper()
		r.resize(enough)
		r.do("dpkg", "--configure", "-a")
		r.do("dpkg", "-i", deb)
		if status := r.do("dpkg-query", "-f", "${Version} ${Status}", "-W", "teescope"); status != version+" install ok installed" {
			t.Errorf("after the repair: %s", status)
		}
		if out := r.do("dpkg", "--audit") + r.do("dpkg", "--verify", "teescope"); out != "" {
			t.Errorf("after the repair: %s", out)
		}
		r.do("teescope", "--version")
	}
	fill()
	fails("/debs/v0.1.0.deb")
	mends("/debs/v0.1.0.deb", "0.1.0-1")
	fill()
	fails("/debs/v0.1.1.deb")
	if out := r.do("teescope", "--version"); !strings.HasPrefix(out, "teescope version ") {
		t.Errorf("after an upgrade that failed: %s", out)
	}
	mends("/debs/v0.1.1.deb", "0.1.1-1")
}

// TestProgramSize holds the promise of docs/lab/performance.md, with half a MiB to spare.
func TestProgramSize(t *testing.T) {
	binary := os.Getenv("TEESCOPE_BIN")
	if binary == "" || runtime.GOARCH != "amd64" {
		t.Skip("needs TEESCOPE_BIN, the program that make build makes for amd64")
	}
	fi, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 895 << 20 / 10
	t.Logf("%.2f MiB", float64(fi.Size())/(1<<20))
	if fi.Size() > limit {
		t.Errorf("%s has %d bytes, want at most %d", binary, fi.Size(), limit)
	}
}
