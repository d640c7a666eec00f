package deploy

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	modulePath  = "github.com/teescope/teescope"
	channelPath = modulePath + "/channel"
	// moduleVersion is the version of the tags v0.1.0 and channel/v0.1.0: go.mod names it.
	moduleVersion = "v0.1.0"
)

// TestModules: both modules of this tree can be used from outside, as from the tags v0.1.0 and channel/v0.1.0: a program that imports
// channel needs its three requirements and no other, and `go install` takes the command. They come through a module proxy of files
// (https://go.dev/ref/mod#goproxy-protocol).
func TestModules(t *testing.T) {
	p := newModuleProxy(t)
	p.publish(t, modulePath, "")
	p.publish(t, channelPath, "channel")

	t.Run("channel", func(t *testing.T) {
		dir := t.TempDir()
		writeText(t, filepath.Join(dir, "go.mod"), "module example.org/bank\n\ngo 1.26.0\n")
		writeText(t, filepath.Join(dir, "main.go"), `package main

import (
	"context"
	"fmt"

	"`+channelPath+`"
)

func main() {
	tee := channel.NewMock("example")
	near, far := channel.Pipe(1 << 20)
	go channel.Server(context.Background(), far, channel.Config{Suite: channel.AESGCM, Service: "example", Attester: tee})
	_, err := channel.Client(context.Background(), near, channel.Config{Suite: channel.AESGCM, Service: "example", Verifier: tee})
	fmt.Println("channel:", err)
}
`)
		p.run(t, dir, "get", channelPath+"@"+moduleVersion)
		if said := p.run(t, dir, "run", "."); said != "channel: <nil>\n" {
			t.Errorf("the program says %q", said)
		}
		var all []string
		for line := range strings.Lines(p.run(t, dir, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
			all = append(all, strings.TrimSpace(line))
		}
		slices.Sort(all)
		want := []string{"example.org/bank", "github.com/flynn/noise", channelPath, "golang.org/x/crypto", "golang.org/x/sys"}
		if all = slices.Compact(all); !slices.Equal(all, want) {
			t.Errorf("the program is made of %q, want %q", all, want)
		}
	})

	t.Run("command", func(t *testing.T) {
		install := []string{"install", "-n", modulePath + "/cmd/teescope@" + moduleVersion} // -n: it reads all modules and compiles nothing
		if os.Getenv("TEESCOPE_RELEASE") != "" {
			install = slices.Delete(install, 1, 2)
		}
		p.run(t, t.TempDir(), install...)
		if len(install) > 2 {
			return
		}
		out, err := exec.Command(filepath.Join(p.bin, "teescope"), "version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), moduleVersion) {
			t.Errorf("teescope version: %v: %s, want %s in it", err, out, moduleVersion)
		}
	})
}

// moduleProxy is a module proxy of files, and a cache of modules in which only those of this tree are its own: the others are this
// machine's.
type moduleProxy struct{ root, cache, bin string }

func newModuleProxy(t *testing.T) moduleProxy {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := moduleProxy{t.TempDir(), t.TempDir(), t.TempDir()}
	theirs := strings.TrimSpace(string(out))
	for _, dir := range []string{"", "github.com", "cache", "cache/download", "cache/download/github.com"} {
		if err := os.MkdirAll(filepath.Join(p.cache, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(theirs, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if slices.Contains([]string{"github.com", "cache", "cache/download", "cache/download/github.com", "cache/lock", "github.com/teescope", "cache/download/github.com/teescope"}, name) {
				continue
			}
			if err := os.Symlink(filepath.Join(theirs, name), filepath.Join(p.cache, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

// run runs the go command outside of this tree, with nothing but the two modules and what this machine has of others.
func (p moduleProxy) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+p.root, "GOMODCACHE="+p.cache, "GOBIN="+p.bin, "GOSUMDB=off", "GONOSUMDB=", "GOPRIVATE=", "GOVCS=*:off",
		"GOFLAGS=-trimpath -mod=mod -modcacherw", "GOWORK=", "CGO_ENABLED=0")
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, failed.Bytes())
	}
	return said.String()
}

// publish writes a module's files to the proxy: what git would put into a commit of this tree, without the modules below it.
func (p moduleProxy) publish(t *testing.T, module, folder string) {
	t.Helper()
	list := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":/"+folder)
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	files := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	var below []string // folders of other modules
	for _, f := range files {
		if dir := path.Dir(f); path.Base(f) == "go.mod" && dir != path.Clean(folder) {
			below = append(below, dir+"/")
		}
	}
	if folder != "" { // Go adds the license of the repository
		files = append(files, "LICENSE")
	}
	var content bytes.Buffer
	z := zip.NewWriter(&content)
	for _, f := range files {
		if slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(f, dir) }) {
			continue
		}
		info, err := os.Lstat(filepath.Join("..", f))
		if err != nil || !info.Mode().IsRegular() { // deleted, or a link, which a module cannot have
			continue
		}
		name := strings.TrimPrefix(f, folder+"/")
		w, err := z.Create(fmt.Sprintf("%s@%s/%s", module, moduleVersion, name))
		if err == nil {
			_, err = w.Write(read(t, filepath.Join("..", f)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.root, module, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "list"), moduleVersion+"\n")
	writeText(t, filepath.Join(dir, moduleVersion+".info"), fmt.Sprintf("{\"Version\":%q}", moduleVersion))
	writeText(t, filepath.Join(dir, moduleVersion+".mod"), string(read(t, filepath.Join("..", folder, "go.mod"))))
	writeText(t, filepath.Join(dir, moduleVersion+".zip"), content.String())
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
