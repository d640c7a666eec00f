package launchers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// engine is a container engine as it is called here.
type engine struct {
	command string
	global  []string // before the verb
	limits  []string // --ulimit options of run
}

func (g engine) cmd(args ...string) host.Cmd {
	return host.Cmd{Argv: slices.Concat([]string{g.command}, g.global, args)}
}

// podmanVariants are ways to call podman, the usual one first. Each has its own store below the
// work folder, since a store cannot change its driver. Overlay does not work on every file system
// (not on another overlay), vfs does; crun refuses a hybrid of cgroup v1 and v2, runc accepts it;
// without systemd, cgroups are made through the file system.
func podmanVariants(work, short string, ownStore bool) [][]string {
	stores := [][]string{nil}
	if ownStore {
		stores = [][]string{
			{"--storage-driver", "overlay", "--storage-opt", "overlay.skip_mount_home=true"},
			{"--storage-driver", "vfs"},
		}
	}
	var out [][]string
	for _, store := range stores {
		if ownStore {
			store = append([]string{"--root", work + "/" + store[1], "--runroot", short + "/" + runroot(store[1])}, store...)
		}
		for _, runtime := range [][]string{nil, {"--cgroup-manager", "cgroupfs"}, {"--cgroup-manager", "cgroupfs", "--runtime", "runc"}} {
			out = append(out, slices.Concat(store, runtime))
		}
	}
	return out
}

// mostRunroot is how many bytes podman accepts as the path of its runroot, the folder for the state of containers that run
// (containers/podman, libpod/runtime.go, since 1.9: "the specified runroot is longer than 50 characters").
const mostRunroot = 50

// runroot is the name of the runroot that belongs to a store with this driver.
func runroot(driver string) string { return "r" + driver[:1] }

// endContainers removes the containers in podman's stores in a folder that a killed harness left.
func endContainers(ctx context.Context, h *host.Host, work, short string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	for _, global := range podmanVariants(work, short, true) {
		if _, err := h.Stat(global[1]); err == nil { // its --root
			_, _ = h.Exec(ctx, engine{command: "podman", global: global}.cmd("rm", "--force", "--all", "--time", "0"))
		}
	}
}

// Where a job finds its folders in a container.
const (
	insideWork = "/work"
	insideData = "/data"
)

func ulimits(nofile, nproc string) []string {
	return []string{"--ulimit", "nofile=" + nofile, "--ulimit", "nproc=" + nproc}
}

// harnessLimits gives containers this process's own limits on files and processes, as a native
// job has them. The engines' defaults are higher, and raising a limit needs a capability that is
// often absent; podman itself first lowers its limit of processes to the number that the kernel
// can have.
func harnessLimits(h *host.Host) ([]string, error) {
	text, err := h.ReadString("/proc/self/limits")
	if err != nil {
		return nil, err
	}
	most, err := h.ReadUint("/proc/sys/kernel/pid_max")
	if err != nil {
		return nil, err
	}
	limit := func(name string, most uint64) (string, error) {
		for line := range strings.Lines(text) {
			f := strings.Fields(strings.TrimPrefix(line, name))
			if !strings.HasPrefix(line, name) || len(f) < 2 {
				continue
			}
			for i := range 2 { // soft and hard
				if n, err := strconv.ParseUint(f[i], 10, 64); err == nil && n < most {
					continue
				}
				f[i] = strconv.FormatUint(most, 10)
			}
			return f[0] + ":" + f[1], nil
		}
		return "", fmt.Errorf("parse /proc/self/limits: no line %q", name)
	}
	const mostFiles = 1 << 20 // what the kernel allows unless told otherwise (fs.nr_open)
	nofile, err1 := limit("Max open files", mostFiles)
	nproc, err2 := limit("Max processes", most)
	return ulimits(nofile, nproc), errors.Join(err1, err2)
}

// ownStore reports whether the images are ours: a user's image that has a name is in the
// engine's store.
func ownStore(p bench.Params) bool { return p["image"] == "" || isPath(p["image"]) }

// layerFile is the path of the user's image as one layer.
func (e *containerEnv) layerFile() string { return e.work + "/image.tar" }

// packImage turns an image given by its path into a layer.
func (e *containerEnv) packImage(ctx context.Context) error {
	image := e.params["image"]
	if !isPath(image) {
		return nil
	}
	folder, err := imageFolder(ctx, e.h, image, e.work+"/image")
	if err != nil {
		return err
	}
	if e.digest, err = imageDigest(ctx, e.h, image); err != nil {
		return err
	}
	if out, err := e.h.Exec(ctx, host.Cmd{Argv: []string{"tar", "-c", "--numeric-owner", "-f", e.h.Path(e.layerFile()), "-C", e.h.Path(folder), "."}}); err != nil {
		return fmt.Errorf("pack image %s: %w%s", image, err, lastWords(out))
	}
	return nil
}

func (e *containerEnv) prepare(ctx context.Context) error {
	if err := e.packImage(ctx); err != nil {
		return err
	}
	limits, err := harnessLimits(e.h)
	if err != nil {
		return err
	}
	command := e.params["runtime"]
	if command == "auto" {
		command = "podman"
		if _, err := e.h.LookPath(command); err != nil {
			command = "docker"
		}
	}
	variants := [][]string{nil}
	if command == "podman" {
		if !ownStore(e.params) {
			if err := checkImage(ctx, e.h, e.params["image"]); err != nil {
				return err
			}
		}
		if ownStore(e.params) {
			if err := e.shorten(runroot("overlay"), mostRunroot); err != nil {
				return fmt.Errorf("make podman's runroot: %w", err)
			}
		}
		variants = podmanVariants(e.work, e.short, ownStore(e.params))
	}
	var whys []error
	for _, global := range variants {
		e.engine, e.images = engine{command, global, limits}, map[string]string{}
		err := e.probe(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		whys = append(whys, err)
	}
	return fmt.Errorf("start a container with %s: every way failed: %w", command, errors.Join(whys...))
}

// lacksProgram reports whether a container got as far as its program and did not find it: a user's image need not have
// the one that probe starts. podman and docker give the runtime's words (runc "executable file not found in $PATH", crun
// "executable file `true` not found", "no such file or directory" for a missing loader), and no exit status for it.
func lacksProgram(out host.Output) bool {
	said := strings.ToLower(string(out.Stderr))
	return strings.Contains(said, "executable file") && strings.Contains(said, "not found") || strings.Contains(said, "no such file or directory") ||
		strings.Contains(said, "was not found") // kata
}

// probe runs a program of the machine in a container made like the job's, and reads back the
// limits that are in effect.
func (e *containerEnv) probe(ctx context.Context) error {
	out, err := e.h.Exec(ctx, e.engine.cmd("version", "--format", "{{.Client.Version}}"))
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w%s", e.engine.command, err, lastWords(out))
	}
	e.version = strings.TrimSpace(string(out.Stdout))
	image := e.params["image"]
	program := host.Cmd{Argv: []string{"true"}}
	if image == "" {
		if image, err = e.build(ctx, nil); err != nil {
			return err
		}
	} else if isPath(image) {
		e.image = e.name()
		if out, err = e.h.Exec(ctx, e.engine.cmd("import", e.h.Path(e.layerFile()), e.image)); err != nil {
			return fmt.Errorf("import image %s with %s: %w%s", image, e.engine.command, err, lastWords(out))
		}
		e.images[image], image = e.image, e.image
	} else if out, err = e.h.Exec(ctx, e.engine.cmd("image", "inspect", "--format", "{{.Id}}", image)); err != nil {
		return fmt.Errorf("look for image %s: %w%s", image, err, lastWords(out))
	} else {
		e.image, e.digest = image, "sha256:"+strings.TrimPrefix(strings.TrimSpace(string(out.Stdout)), "sha256:")
	}
	name := e.name()
	defer e.discard(ctx, name)
	life, done := e.ending(ctx, name)
	defer done()
	if out, err = e.h.Exec(life, e.create(name, image, bench.Job{Inside: program})); err != nil {
		return fmt.Errorf("create a container with %s: %w%s", e.engine.command, err, lastWords(out))
	}
	out, err = e.h.Exec(life, e.engine.cmd("start", "--attach", name))
	if err != nil && (e.params["image"] == "" || !lacksProgram(out)) {
		return fmt.Errorf("start a container with %s: %w%s", e.engine.command, err, lastWords(out))
	}
	const limits = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.CpusetCpus}}"
	if out, err = e.h.Exec(ctx, e.engine.cmd("container", "inspect", "--format", limits, name)); err != nil {
		return fmt.Errorf("read a container's limits back: %w%s", err, lastWords(out))
	}
	e.readBack = map[string]string{}
	for i, v := range strings.Split(strings.TrimSuffix(string(out.Stdout), "\n"), " ") {
		if limits := []string{"memory", "cpu-limit", "cpus"}; i < len(limits) && v != "" && (v != "0" || limits[i] == "cpus") { // 0 is no limit, and a CPU
			e.readBack[limits[i]] = v
		}
	}
	for _, limit := range []string{"memory", "cpu-limit", "cpus"} {
		if e.params[limit] != "" && e.readBack[limit] == "" {
			return fmt.Errorf("limit a container with %s=%s: %s accepted the limit without an error, but the container does not have it", limit, e.params[limit], e.engine.command)
		}
	}
	if nano, err := strconv.ParseFloat(e.readBack["cpu-limit"], 64); err == nil {
		e.readBack["cpu-limit"] = strconv.FormatFloat(nano/1e9, 'f', -1, 64)
	}
	return nil
}
