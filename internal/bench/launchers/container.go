package launchers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// container prices namespaces, cgroups and the seccomp filter: what a container
// adds before a TEE adds anything.
var container = bench.Launcher{
	Name: "container",
	Doc: "Runs the job in a container of podman or docker. Without image= it is built from nothing and holds the job's files alone; " +
		"a job whose program is a tool of the machine gets the machine's programs and libraries read-only.",
	Params: []bench.Param{
		{Name: "runtime", Doc: "Which engine; auto takes podman, then docker.", Default: "auto", Values: []string{"auto", "podman", "docker"}},
		{Name: "image", Doc: "Image that is already in the engine's store (podman's own store then, not one of ours). Empty: one built from the job's files."},
		{Name: "fresh", Doc: "Whether each run is a container of its own, so that its start is part of the run as it is elsewhere; " +
			"false keeps one container, paused while other arms run, and starts the job in it with exec.", Default: "true", Values: []string{"true", "false"}},
		{Name: "network", Doc: "What the job sees of the network.", Default: "none", Values: []string{"none", "host"}},
		{Name: "memory", Doc: "Memory limit as the engine takes it, like 512m. Empty: none."},
		{Name: "cpu-limit", Doc: "CPU time limit in CPUs, like 1.5. Empty: none."},
		{Name: "cpus", Doc: "CPUs that the job may use, as a list like 0,2-3. Empty: as found."},
		{Name: "data", Path: true, Doc: "Folder on the disk under test; a folder of our own is made in it and removed at the end. Empty: in the temporary folder."},
	},
	Check:     checkContainer,
	Elsewhere: func(p bench.Params) bool { return p["image"] != "" },
	Commands:  containerCommands,
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		f, err := newFolders(h, "pod", p["data"], func(work string) { endContainers(ctx, h, work) })
		if err != nil {
			return nil, err
		}
		e := &containerEnv{folders: f, params: p, images: map[string]string{}, standing: map[string]string{}}
		if err := e.prepare(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	},
}

// engine is a container engine as it is called here.
type engine struct {
	command string
	global  []string // before the verb
	limits  []string // --ulimit options of run
}

func (g engine) cmd(args ...string) host.Cmd {
	return host.Cmd{Argv: slices.Concat([]string{g.command}, g.global, args)}
}

// podmanVariants are ways to call podman, most usual first. Each has a store of
// its own below the work folder, which ends with the environment (a store can
// not change its driver). Overlay does not lie on every file system (not on
// another overlay), vfs does; crun refuses a hybrid of cgroup v1 and v2, runc
// takes it, and without systemd the cgroups are made through the file system.
func podmanVariants(work string, ownStore bool) [][]string {
	stores := [][]string{nil}
	if ownStore {
		stores = [][]string{
			{"--storage-driver", "overlay", "--storage-opt", "overlay.skip_mount_home=true"},
			{"--storage-driver", "vfs"},
		}
	}
	var out [][]string
	for _, store := range stores {
		if ownStore { // podman takes a runroot of 50 bytes at most
			store = append([]string{"--root", work + "/" + store[1], "--runroot", work + "/r" + store[1][:1]}, store...)
		}
		for _, runtime := range [][]string{nil, {"--cgroup-manager", "cgroupfs"}, {"--cgroup-manager", "cgroupfs", "--runtime", "runc"}} {
			out = append(out, slices.Concat(store, runtime))
		}
	}
	return out
}

// endContainers ends what runs from podman's stores in a folder that a killed
// harness has left.
func endContainers(ctx context.Context, h *host.Host, work string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	for _, global := range podmanVariants(work, true) {
		if _, err := h.Stat(global[1]); err == nil { // its --root
			_, _ = h.Exec(ctx, engine{command: "podman", global: global}.cmd("rm", "--force", "--all", "--time", "0"))
		}
	}
	endNamed(h, work)
}

const (
	podmanHint = "package podman"
	dockerHint = "package docker.io"
)

func checkContainer(h *host.Host, p bench.Params) error {
	var needs []need
	if p["data"] != "" {
		needs = append(needs, dataFolder(p["data"]))
	}
	_, noPodman := h.LookPath("podman")
	_, noDocker := h.LookPath("docker")
	switch {
	case p["runtime"] == "podman", p["runtime"] == "auto" && noPodman == nil:
		needs = append(needs, need{Command: "podman", Hint: podmanHint})
	case p["runtime"] == "docker", noDocker == nil:
		needs = append(needs, need{Command: "docker", Hint: dockerHint})
		if noDocker == nil {
			ctx, cancel := context.WithTimeout(context.Background(), probeTime)
			defer cancel()
			if out, err := h.Exec(ctx, dockerVersion); err != nil {
				return errors.Join(missing(h, needs...), fmt.Errorf("docker's client is here, but no daemon answers%s (start dockerd, %s)", said(out), dockerHint))
			}
		}
	default:
		needs = append(needs, need{Command: "podman", Hint: podmanHint}, need{Command: "docker", Hint: "instead of podman, " + dockerHint})
	}
	return missing(h, needs...)
}

var dockerVersion = host.Cmd{Argv: []string{"docker", "version", "--format", "{{.Server.Version}}"}}

// containerCommands shows the first variant of podman, or docker; {image} is the
// image that is built, {nofile} and {nproc} are the harness's own limits.
func containerCommands(p bench.Params, job bench.Job) ([]host.Cmd, error) {
	g := engine{command: p["runtime"], limits: ulimits("{nofile}", "{nproc}")}
	if p["runtime"] == "auto" {
		g.command = "podman"
	}
	if g.command == "podman" {
		g.global = podmanVariants("{work}", p["image"] == "")[0]
	}
	e := containerEnv{folders: &folders{work: "{work}", data: "{data}"}, params: p, engine: g}
	image, cs := p["image"], []host.Cmd(nil)
	if image == "" {
		image = "{image}"
		cs = append(cs, g.cmd("import", "-", image))
	}
	if p["fresh"] == "true" {
		return append(cs, e.fresh("{name}", image, job.Inside)), nil
	}
	return append(cs, e.keep("{name}", image, job.Inside), e.within("{name}", job.Inside)), nil
}

type containerEnv struct {
	*folders
	params   bench.Params
	engine   engine
	version  string
	readBack map[string]string
	digest   string            // of a user's image
	images   map[string]string // built by us: name, by what is in it
	standing map[string]string // containers that are kept: name, by image and needs
	made     int
}

// Where a job finds its folders in a container.
const (
	insideWork = "/work"
	insideData = "/data"
)

func ulimits(nofile, nproc string) []string {
	return []string{"--ulimit", "nofile=" + nofile, "--ulimit", "nproc=" + nproc}
}

// harnessLimits gives containers this process's own limits on files and
// processes, as a native job has them. The engines' defaults are higher, and to
// raise a limit takes a capability that is not everywhere; podman itself first
// lowers its limit of processes to the number that the kernel can have.
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

func (e *containerEnv) prepare(ctx context.Context) error {
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
		variants = podmanVariants(e.work, e.params["image"] == "")
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
	return fmt.Errorf("no way of calling %s starts a container: %w", command, errors.Join(whys...))
}

// probe runs a program of the machine in a container made the way that the
// job's will be, and reads back what the engine made of the limits.
func (e *containerEnv) probe(ctx context.Context) error {
	out, err := e.h.Exec(ctx, e.engine.cmd("version", "--format", "{{.Client.Version}}"))
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w%s", e.engine.command, err, said(out))
	}
	e.version = strings.TrimSpace(string(out.Stdout))
	image := e.params["image"]
	program := host.Cmd{Argv: []string{"true"}}
	if image == "" {
		if image, err = e.build(ctx, nil); err != nil {
			return err
		}
	} else if out, err = e.h.Exec(ctx, e.engine.cmd("image", "inspect", "--format", "{{.Id}}", image)); err != nil {
		return fmt.Errorf("look for image %s: %w%s", image, err, said(out))
	} else {
		e.digest = strings.TrimSpace(string(out.Stdout))
	}
	name := e.name()
	defer e.discard(ctx, name)
	life, done := e.ending(ctx, name)
	defer done()
	if out, err = e.h.Exec(life, e.create(name, image, program)); err != nil {
		return fmt.Errorf("create a container with %s: %w%s", e.engine.command, err, said(out))
	}
	if e.params["image"] == "" { // a user's image need not have the program
		if out, err = e.h.Exec(life, e.engine.cmd("start", "--attach", name)); err != nil {
			return fmt.Errorf("start a container with %s: %w%s", e.engine.command, err, said(out))
		}
	}
	const limits = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.CpusetCpus}}"
	if out, err = e.h.Exec(ctx, e.engine.cmd("container", "inspect", "--format", limits, name)); err != nil {
		return fmt.Errorf("read a container's limits back: %w%s", err, said(out))
	}
	e.readBack = map[string]string{}
	for i, v := range strings.Split(strings.TrimSuffix(string(out.Stdout), "\n"), " ") {
		if limits := []string{"memory", "cpu-limit", "cpus"}; i < len(limits) && v != "" && (v != "0" || limits[i] == "cpus") { // 0 is no limit, and a CPU
			e.readBack[limits[i]] = v
		}
	}
	for _, limit := range []string{"memory", "cpu-limit", "cpus"} {
		if e.params[limit] != "" && e.readBack[limit] == "" {
			return fmt.Errorf("limit a container with %s=%s: %s took it without an error and shows no such limit", limit, e.params[limit], e.engine.command)
		}
	}
	if nano, err := strconv.ParseFloat(e.readBack["cpu-limit"], 64); err == nil {
		e.readBack["cpu-limit"] = strconv.FormatFloat(nano/1e9, 'f', -1, 64)
	}
	return nil
}

// name is a new name for a container or an image of this environment.
func (e *containerEnv) name() string {
	e.made++
	return fmt.Sprintf("%s-%d", strings.ToLower(path.Base(e.work)), e.made)
}

// build makes an image from nothing that holds the files, once per content.
func (e *containerEnv) build(ctx context.Context, files []bench.File) (string, error) {
	data, err := e.layer(files)
	if err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	if name, ok := e.images[sum]; ok {
		return name, nil
	}
	name := e.name()
	c := e.engine.cmd("import", "-", name)
	c.Stdin = data
	if out, err := e.h.Exec(ctx, c); err != nil {
		return "", fmt.Errorf("build an image with %s: %w%s", e.engine.command, err, said(out))
	}
	e.images[sum] = name
	return name, nil
}

// layer is the image's one layer: the files below the work folder, and the
// places where something is mounted.
func (e *containerEnv) layer(files []bench.File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	epoch := time.Unix(0, 0) // equal files give an equal layer
	for _, dir := range append([]string{insideWork, insideData, "/tmp", "/dev", "/proc", "/sys"}, machineFolders...) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, ModTime: epoch}); err != nil {
			return nil, fmt.Errorf("write the image's layer: %w", err)
		}
	}
	for _, file := range files {
		data, err := content(e.h, file)
		if err != nil {
			return nil, err
		}
		err = w.WriteHeader(&tar.Header{Name: path.Join(insideWork[1:], file.Name), Mode: int64(mode(file)), Size: int64(len(data)), ModTime: epoch})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, fmt.Errorf("write %s into the image's layer: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write the image's layer: %w", err)
	}
	return b.Bytes(), nil
}

// machineFolders hold the machine's programs, libraries and their settings.
var machineFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"}

// options are those of a container that runs a command.
func (e *containerEnv) options(name string, c host.Cmd) []string {
	out := []string{"--name", name, "--network", e.params["network"], "--volume", e.data + ":" + insideData}
	out = append(out, e.engine.limits...)
	for _, o := range [][2]string{{"--memory", "memory"}, {"--cpus", "cpu-limit"}, {"--cpuset-cpus", "cpus"}} {
		if v := e.params[o[1]]; v != "" {
			out = append(out, o[0], v)
		}
	}
	switch {
	case e.params["image"] != "":
		return append(out, "--volume", e.work+":"+insideWork)
	case usesMachine(c):
		for _, dir := range machineFolders {
			if e.h == nil { // a dry run names them all
				out = append(out, "--volume", dir+":"+dir+":ro")
			} else if _, err := e.h.Stat(dir); err == nil {
				out = append(out, "--volume", dir+":"+dir+":ro")
			}
		}
	}
	return out
}

// usesMachine tells a tool of the machine from a program that came with the job.
func usesMachine(c host.Cmd) bool {
	return len(c.Argv) > 0 && !strings.HasPrefix(c.Argv[0], "{work}/")
}

// words are the job's own part of a command line, in front of which comes what
// is said of its environment.
func (e *containerEnv) words(c host.Cmd) (options, argv []string) {
	c = place(c, insideWork, insideData)
	if len(c.Stdin) > 0 || c.Ready != "" {
		options = append(options, "--interactive")
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		options = append(options, "--env", k+"="+c.Env[k])
	}
	dir := c.Dir
	if dir == "" {
		dir = insideWork
	}
	return append(options, "--workdir", dir), c.Argv
}

// entry makes the job's program the container's first one, whatever an image
// says of its own.
func entry(argv []string) (option, rest []string) {
	if len(argv) == 0 {
		return nil, nil
	}
	return []string{"--entrypoint", argv[0]}, argv[1:]
}

func (e *containerEnv) create(name, image string, c host.Cmd) host.Cmd {
	return e.whole("create", name, image, c)
}

// fresh runs a job in a container of its own.
func (e *containerEnv) fresh(name, image string, c host.Cmd) host.Cmd {
	out := e.whole("run", name, image, c)
	out.Stdin, out.Ready, out.Ask = c.Stdin, c.Ready, c.Ask
	return out
}

func (e *containerEnv) whole(verb, name, image string, c host.Cmd) host.Cmd {
	options, argv := e.words(c)
	first, rest := entry(argv)
	args := []string{verb}
	if verb == "run" {
		args = append(args, "--rm")
	}
	return e.engine.cmd(slices.Concat(args, e.options(name, c), options, first, []string{image}, rest)...)
}

// pauser is what keeps a container running.
var pauser = bench.File{Name: ".teescope-pauser", Data: micro.Program, Exec: true}

// keep starts a container that does nothing.
func (e *containerEnv) keep(name, image string, c host.Cmd) host.Cmd {
	args := slices.Concat([]string{"run", "--detach"}, e.options(name, c),
		[]string{"--entrypoint", insideWork + "/" + pauser.Name, image, "pause"})
	return e.engine.cmd(args...)
}

// within runs a job in a container that is kept.
func (e *containerEnv) within(name string, c host.Cmd) host.Cmd {
	options, argv := e.words(c)
	out := e.engine.cmd(slices.Concat([]string{"exec"}, options, []string{name}, argv)...)
	out.Stdin, out.Ready, out.Ask = c.Stdin, c.Ready, c.Ask
	return out
}

// discard ends a container and removes it, also after the context's end.
func (e *containerEnv) discard(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	// Errors say that it is not running or not there, which is what is wanted.
	_, _ = e.h.Exec(ctx, e.engine.cmd("kill", name))
	_, _ = e.h.Exec(ctx, e.engine.cmd("rm", "--force", name))
}

func (e *containerEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["runtime"] = e.engine.command
	d.Params["options"] = strings.ReplaceAll(strings.Join(slices.Concat(e.engine.global, e.engine.limits), " "), e.work, "{work}")
	d.Params["data"] = e.dataOn()
	maps.Copy(d.Params, e.readBack)
	d.Software.Versions = with(d.Software.Versions, e.engine.command, e.version)
	d.Software.CachePolicy = "as found"
	if e.digest != "" {
		d.Software.Versions = with(d.Software.Versions, "image", e.digest)
	} else {
		d.Params["image"] = "built from the job's files" // whose digests are the job's
	}
	return nil
}

func (e *containerEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	files := job.Files
	if e.params["fresh"] == "false" {
		if micro.Program == nil {
			return bench.Outcome{}, errors.New("keep a container: no worker was built for this architecture; use fresh=true")
		}
		files = append([]bench.File{pauser}, files...)
	}
	image, err := e.params["image"], error(nil)
	if image == "" {
		image, err = e.build(ctx, files)
	} else {
		err = e.put(files)
	}
	if err != nil {
		return bench.Outcome{}, err
	}
	var name string
	var inside host.Cmd
	if e.params["fresh"] == "true" {
		name = e.name()
		inside = e.fresh(name, image, job.Inside)
	} else {
		if name, err = e.kept(ctx, image, job.Inside); err != nil {
			return bench.Outcome{}, err
		}
		inside = e.within(name, job.Inside)
	}
	life, done := e.ending(ctx, name)
	out, err := together(ctx, life, e.h, inside, e.outside(job))
	done()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	// A client that was ended leaves its container, and its job in a kept one.
	if e.params["fresh"] == "true" {
		if err != nil || job.Outside != nil {
			e.discard(ctx, name)
		}
	} else if ctx.Err() != nil || job.Outside != nil {
		e.discard(ctx, name)
		maps.DeleteFunc(e.standing, func(_, v string) bool { return v == name })
	}
	// A run is also what the engine does for it; docker does that in a daemon,
	// which serves others too.
	out.Processes = append(comm(job.Inside), "conmon", "crun", "runc", "runc:[1:CHILD]", "runc:[2:INIT]", e.engine.command)
	return out, err
}

// ending gives a client a context that outlives ctx: when ctx ends, it is the
// container that is killed, and its client ends with it. A client that is killed
// while it starts a container leaves one that nobody knows.
func (e *containerEnv) ending(ctx context.Context, name string) (life context.Context, done func()) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-life.Done():
			return
		case <-ctx.Done():
		}
		const between = 200 * time.Millisecond
		for range probeTime / between { // it may not be there yet
			_, _ = e.h.Exec(life, e.engine.cmd("kill", name))
			select {
			case <-life.Done():
				return
			case <-time.After(between):
			}
		}
		end()
	}()
	return life, func() { end(); <-stopped }
}

// kept finds or starts the container that stays for jobs of this kind.
func (e *containerEnv) kept(ctx context.Context, image string, c host.Cmd) (string, error) {
	key := image + " " + strconv.FormatBool(usesMachine(c))
	if name, ok := e.standing[key]; ok {
		return name, nil
	}
	name := e.name()
	life, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	if out, err := e.h.Exec(life, e.keep(name, image, c)); err != nil || ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
		e.discard(ctx, name)
		return "", fmt.Errorf("start a container to keep: %w%s", err, said(out))
	}
	e.standing[key] = name
	return name, nil
}

// Idle pauses and thaws containers that are kept (the cgroup freezer).
func (e *containerEnv) Idle(ctx context.Context, idle bool) error {
	verb := "unpause"
	if idle {
		verb = "pause"
	}
	for _, name := range e.standing {
		if out, err := e.h.Exec(ctx, e.engine.cmd(verb, name)); err != nil {
			return fmt.Errorf("%s container %s: %w%s", verb, name, err, said(out))
		}
	}
	return nil
}

func (e *containerEnv) Close() error {
	ctx := context.Background()
	for _, name := range e.standing {
		e.discard(ctx, name)
	}
	for _, name := range e.images {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		_, _ = e.h.Exec(ctx, e.engine.cmd("rmi", "--force", name)) // podman's store goes with the folder
		cancel()
	}
	// A container that was cancelled while it was made can leave its conmon waiting.
	endNamed(e.h, e.work)
	return e.remove()
}
