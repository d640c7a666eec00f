package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/teescope/teescope/workloads/micro"
)

// The images that nodes have.
const (
	OurImage = "docker.io/library/teescope:latest" // what the chart's default names
	// BenchImage has a shell, fio, iperf3 and our worker.
	BenchImage = "teescope.test/bench:1"
	pauseImage = "teescope.test/pause:1"
)

// Tool is a program or file that a cluster needs, and the Debian package that has it.
type Tool struct{ Name, Package string }

// ServerTools are those of an API server, NodeTools those of a node.
var (
	ServerTools = []Tool{{"etcd", "etcd-server"}, {"ip", "iproute2"}}
	NodeTools   = append(slices.Clone(ServerTools), Tool{"containerd", "containerd"}, Tool{"ctr", "containerd"}, Tool{"runc", "runc"}, Tool{"nsenter", "util-linux"},
		Tool{"/usr/lib/cni/bridge", "containernetworking-plugins"}, Tool{"iptables", "iptables"}, Tool{"conntrack", "conntrack"}, Tool{"wg", "wireguard-tools"},
		Tool{"/bin/busybox", "busybox-static"}, Tool{"fio", "fio"}, Tool{"iperf3", "iperf3"})
)

// Missing says which tool is not here.
func Missing(tools []Tool) error {
	for _, t := range tools {
		_, err := exec.LookPath(t.Name)
		if strings.HasPrefix(t.Name, "/") {
			_, err = os.Stat(t.Name)
		}
		if err != nil {
			return fmt.Errorf("%s is not here (package %s)", t.Name, t.Package)
		}
	}
	return nil
}

// ErrNotBuilt is that a program is not built yet.
var ErrNotBuilt = errors.New("is not built here; make e2e-kubernetes builds it once")

// Prepare puts into a folder what every cluster needs: Kubernetes, which is built only if build is true (ten minutes), and Helm. Root
// is this repository.
func Prepare(ctx context.Context, root, dir string, build bool) error {
	components, err := built(ctx, root, build)
	if err != nil {
		return err
	}
	helm := filepath.Join(filepath.Dir(components), "helm")
	if _, err := os.Stat(helm); err != nil {
		return fmt.Errorf("program helm %w", ErrNotBuilt)
	}
	return errors.Join(os.Symlink(components, filepath.Join(dir, "components")), os.Symlink(helm, filepath.Join(dir, "helm")))
}

// built returns the program of module components. It lies in the user's cache, under a name that its sources determine.
func built(ctx context.Context, root string, build bool) (string, error) {
	module := filepath.Join(root, "e2e/kubernetes/components")
	sum, version := sha256.New(), ""
	sum.Write([]byte(runtime.Version()))
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		sum.Write(b)
		if m := regexp.MustCompile(`\tk8s\.io/kubernetes (v\S+)\n`).FindSubmatch(b); m != nil {
			version = string(m[1])
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "teescope", "kubernetes")
	program := filepath.Join(cache, fmt.Sprintf("components-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if !build {
		return "", fmt.Errorf("program components of Kubernetes %w (ten minutes)", ErrNotBuilt)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fmt.Printf("building Kubernetes %s into %s (ten minutes)\n", version, program)
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	var flags []string
	for name, value := range map[string]string{"gitVersion": version, "gitMajor": parts[0], "gitMinor": parts[1]} {
		flags = append(flags, "-X k8s.io/component-base/version."+name+"="+value)
	}
	slices.Sort(flags) // the same command line each time
	if err := goCommand(ctx, module, "build", "-trimpath", "-ldflags", "-s -w "+strings.Join(flags, " "), "-o", program+".new", "."); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	return program, os.Rename(program+".new", program)
}

// goCommand runs Go in a folder, for static programs.
func goCommand(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// PrepareNodes puts into a folder what nodes need besides: wireguard-go, and the archives of images.
func PrepareNodes(ctx context.Context, root, dir string) error {
	if micro.Program == nil {
		return fmt.Errorf("the image of pods: no worker was built for %s", runtime.GOARCH)
	}
	programs := filepath.Join(dir, "teescope/bin")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	if given := os.Getenv("TEESCOPE_BIN"); given != "" { // all lie in one folder
		for _, name := range []string{"teescope", "teescope-work"} {
			if err := copyFile(filepath.Join(filepath.Dir(given), name), filepath.Join(programs, name)); err != nil {
				return err
			}
		}
	} else if err := goCommand(ctx, root, "build", "-o", programs+"/", "./cmd/teescope", "./cmd/teescope-work"); err != nil {
		return err
	}
	if err := goCommand(ctx, root, "build", "-trimpath", "-o", filepath.Join(dir, "wireguard-go"), "golang.zx2c4.com/wireguard"); err != nil {
		return err
	}
	worker := filepath.Join(dir, "micro")
	if err := os.WriteFile(worker, micro.Program, 0o755); err != nil {
		return err
	}
	bench, err := benchFiles(ctx, filepath.Join(programs, "teescope-work"))
	if err != nil {
		return err
	}
	return errors.Join(
		archive(ctx, root, dir, "teescope", OurImage, nil),
		archive(ctx, root, dir, "pause", pauseImage, map[string]string{"bin/micro": worker}, "/bin/micro", "pause"),
		archive(ctx, root, dir, "bench", BenchImage, bench),
	)
}

// benchFiles are the files of the benchmarks' image: where each is on this machine, by its path in the image.
func benchFiles(ctx context.Context, worker string) (map[string]string, error) {
	files := map[string]string{"bin/sh": "/bin/busybox", "usr/bin/teescope-work": worker, "tmp/empty": os.DevNull}
	for _, name := range []string{"fio", "iperf3"} {
		program, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		files["usr/bin/"+name] = program
		libraries, err := command(ctx, "ldd", program)
		if err != nil {
			return nil, err
		}
		for _, word := range strings.Fields(libraries) {
			if strings.HasPrefix(word, "/") { // a library, or the loader
				files[word[1:]] = word
			}
		}
	}
	return files, nil
}

// archive writes an image's archive from its folder, into which it first copies the files that are given by their paths in the image. Without files,
// the folder and the container file are those of our own image.
func archive(ctx context.Context, root, dir, name, image string, files map[string]string, entry ...string) error {
	args := []string{"run", "./tools/image", "-o", filepath.Join(dir, name+".tar"), "-name", image}
	content := filepath.Join(dir, name)
	if files != nil {
		recipe := "FROM scratch\n"
		for _, to := range slices.Sorted(maps.Keys(files)) {
			if err := copyFile(files[to], filepath.Join(content, to)); err != nil {
				return err
			}
			recipe += "COPY " + to + " /" + filepath.Dir(to) + "/\n"
		}
		if len(entry) > 0 {
			recipe += "ENTRYPOINT [\"" + strings.Join(entry, `", "`) + "\"]\n"
		}
		file := filepath.Join(dir, name+".Containerfile")
		if err := os.WriteFile(file, []byte(recipe), 0o600); err != nil {
			return err
		}
		args = append(args, "-file", file)
	}
	return goCommand(ctx, root, append(args, runtime.GOARCH+"="+content)...)
}

// copyFile copies a program, or a file that a program reads.
func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
