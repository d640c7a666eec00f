package deploy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// engine is a podman with a storage of its own below dir, so that nothing of
// the machine's is touched. Nested overlay file systems and cgroup v1 make the
// driver and the runtime a choice: vfs and runc work everywhere.
type engine struct {
	dir    string
	state  string // its runroot
	groups string // the parent of its containers' cgroups
}

func newEngine(t *testing.T) engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to build and run a container")
	}
	for _, tool := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (package %s)", tool, tool)
		}
	}
	// Not t.TempDir: what a container leaves mounted must not fail its removal.
	dir, err := os.MkdirTemp("", "teescope-image")
	if err != nil {
		t.Fatal(err)
	}
	state, err := host.Local().ShortFolder(dir, "run", 50) // podman's limit
	if err != nil {
		t.Fatal(err)
	}
	e := engine{dir, filepath.Join(state, "run"), "/" + filepath.Base(dir)}
	t.Cleanup(func() { _ = os.RemoveAll(state); _ = os.RemoveAll(dir); e.removeCgroups() })
	return e
}

// removeCgroups removes the empty groups that podman leaves in every hierarchy.
func (e engine) removeCgroups() {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*" + e.groups)
	for _, top := range append(tops, "/sys/fs/cgroup"+e.groups) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = unix.Rmdir(dirs[i])
		}
	}
}

func (e engine) run(t *testing.T, args ...string) string {
	t.Helper()
	if args[0] == "run" {
		args = slices.Insert(args, 1, "--cgroup-parent", e.groups)
	}
	args = append([]string{"--root", filepath.Join(e.dir, "storage"), "--runroot", e.state, "--storage-driver", "vfs",
		"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"}, args...)
	out, err := exec.Command("podman", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args[10:], " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestImage writes the image's archive twice, loads it, and runs it the way compose.yaml says: with those capabilities,
// that view of the host and nothing more. A container engine builds the same image from the container file.
func TestImage(t *testing.T) {
	e := newEngine(t)
	tree := filepath.Join(e.dir, "context")
	binary := filepath.Join(tree, "bin", "teescope")
	copyFile(t, filepath.Join(tree, ".dockerignore"), "../.dockerignore")
	for _, program := range []string{"teescope", "teescope-work"} {
		to := filepath.Join(tree, "bin", program)
		if b := os.Getenv("TEESCOPE_BIN"); b != "" { // both lie in one folder
			copyFile(t, to, filepath.Join(filepath.Dir(b), program))
			continue
		}
		build := exec.Command("go", "build", "-o", to, "../cmd/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	var archives [2][]byte
	for i := range archives {
		file := filepath.Join(e.dir, "image.tar")
		write := exec.Command("go", "run", "./tools/image", "-o", file, "-name", loaded, "-version", "v1", "-created", "1000", "-sbom", e.dir, runtime.GOARCH+"="+tree)
		write.Dir = ".."
		if out, err := write.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", write, err, out)
		}
		archives[i] = read(t, file)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same programs give two images")
	}
	checkContents(t, read(t, filepath.Join(e.dir, "teescope-"+runtime.GOARCH+".cdx.json")), binary)
	e.run(t, "load", "--quiet", "--input", filepath.Join(e.dir, "image.tar"))
	e.run(t, "build", "--quiet", "--network", "none", "-t", built, "-f", "Containerfile", tree)
	const says = "{{json .Config.Entrypoint}} {{json .Config.Cmd}} {{json .Config.ExposedPorts}}"
	if ours, theirs := e.run(t, "inspect", "--format", says, loaded), e.run(t, "inspect", "--format", says, built); ours != theirs {
		t.Errorf("make image: %s\nthe container file: %s", ours, theirs)
	}

	// The worker is where the program looks for it, and starts.
	for _, image := range []string{loaded, built} {
		if help := e.run(t, "run", "--rm", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--network", "none", "--entrypoint", "/teescope-work", image, "load", "-help"); !strings.Contains(help, "-address") {
			t.Errorf("teescope-work in %s printed %s", image, help)
		}
	}

	service := readCompose(t).Services["teescope"]
	data := filepath.Join(e.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := ports[0]
	// The limits are stated because podman's defaults are above what a machine
	// without CAP_SYS_RESOURCE may set.
	args := []string{"run", "--detach", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096",
		"--network", "host", "--pid", "host", "--cap-drop", "all", "--read-only", "--security-opt", "no-new-privileges"}
	for _, c := range service.CapAdd {
		args = append(args, "--cap-add", c)
	}
	for _, v := range service.Volumes {
		args = append(args, "--volume", strings.Replace(v, "teescope:", data+":", 1))
	}
	args = append(append(args, loaded), service.Command...)
	id := e.run(t, append(args, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--interval", "1s", "--budget", "100%")...) // a busy host must not use the budget up
	t.Cleanup(func() { e.run(t, "rm", "--force", "--time", "5", id) })

	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	var metrics string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the container printed:\n%s", e.run(t, "logs", id))
		}
	})
	// This test runs outside the container: seeing its name proves that the host is seen.
	runs := func() {
		if state := e.run(t, "inspect", "--format", "{{.State.Status}}, exit status {{.State.ExitCode}}", id); !strings.HasPrefix(state, "running") {
			t.Fatalf("the container is %s", state) // its words are in the log
		}
	}
	await.Event(t, "all sources are open and have readings", func() error {
		runs()
		list, err := get(url + "/api/teescope/v1/sources")
		if err == nil {
			metrics, err = get(url + "/metrics")
		}
		if err == nil && strings.Contains(list, `"opening"`) {
			err = fmt.Errorf("the sources are %s", list)
		}
		for _, want := range []string{"\ntee_syscalls_total{", `process="deploy.test"`, "\nnode_memory_MemTotal_bytes ", "\ncontainer_cpu_usage_seconds_total{", `mountpoint="/"`} {
			if err == nil && !strings.Contains(metrics, want) {
				err = fmt.Errorf("/metrics has no %s", strings.TrimSpace(want))
			}
		}
		return err
	})
	if strings.Contains(metrics, `mountpoint="/host`) {
		t.Error("file systems carry the container's mount point instead of the host's")
	}
	// A source that works outside works inside, but for the moments in which its readings take too long.
	await.Event(t, "each source that works outside works inside", func() error {
		runs()
		outside, err := exec.Command(binary, "doctor", "--json").Output()
		if err != nil {
			t.Fatalf("doctor: %v", err)
		}
		inside, err := get(url + "/api/teescope/v1/sources")
		if err != nil {
			return err
		}
		within := states(t, []byte(inside))
		for name, s := range states(t, outside) {
			if s.State == "available" && within[name].State != "available" {
				err = errors.Join(err, fmt.Errorf("source %s is %s in the container: %s", name, within[name].State, within[name].Reason))
			}
		}
		return err
	})
	e.run(t, "stop", "--time", "600", id) // longer than it may take on any machine
	if code := e.run(t, "inspect", "--format", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("stopped with exit status %s, want 0", code)
	}
}

// The names of the image of `make image`, and of the one that an engine builds from the container file.
const (
	loaded = "docker.io/library/teescope:latest"
	built  = "localhost/teescope:built"
)

// checkContents compares a list of an image's contents with the program itself and the page's lock file.
func checkContents(t *testing.T, list []byte, binary string) {
	t.Helper()
	var has struct {
		Components []struct {
			Name, PURL string
			Hashes     []struct{ Content string }
		}
	}
	if err := json.Unmarshal(list, &has); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, c := range has.Components {
		all[c.Name] = c.PURL
		if len(c.Hashes) > 0 && c.PURL == "" {
			all[c.Name] = c.Hashes[0].Content
		}
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if m = cmp.Or(m.Replace, m); !strings.HasPrefix(all[m.Path], "pkg:golang/") || !strings.Contains(all[m.Path], "@v") {
			t.Errorf("module %s is listed as %q", m.Path, all[m.Path])
		}
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(read(t, binary))); all["teescope"] != sum {
		t.Errorf("teescope is listed with the digest %q, want %s", all["teescope"], sum)
	}
	if musl := all["musl"]; runtime.GOARCH == "amd64" && musl != "pkg:generic/musl@1.2.3" {
		t.Errorf("the C library of the small worker is listed as %q", musl)
	}
	if !strings.HasPrefix(all["react"], "pkg:npm/react@") || all["vite"] != "" {
		t.Errorf("of the page, react is listed as %q and vite as %q", all["react"], all["vite"])
	}
}

type source struct{ Name, State, Reason string }

// states reads the sources of the API's answer, a list, or of doctor's, which
// has it under a key.
func states(t *testing.T, b []byte) map[string]source {
	t.Helper()
	var list []source
	if err := json.Unmarshal(b, &list); err != nil {
		var d struct{ Sources []source }
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("sources: %v in %s", err, b)
		}
		list = d.Sources
	}
	if len(list) == 0 {
		t.Fatalf("no sources in %s", b)
	}
	out := map[string]source{}
	for _, s := range list {
		out[s.Name] = s
	}
	return out
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func get(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, r.Status)
	}
	return string(b), err
}
