package launchers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// container shows what namespaces, cgroups and the seccomp filter cost, before a TEE adds its
// part.
var container = bench.Launcher{
	Name: "container",
	Doc: "Runs the job in a container of podman or docker. Without image=, the image is built from scratch and holds only the job's files; " +
		"if the job's program is a tool of the machine, the container also gets the machine's programs and libraries, read-only.",
	Params: []bench.Param{
		{Name: "runtime", Doc: "The container engine; auto prefers podman, then docker.", Default: "auto", Values: []string{"auto", "podman", "docker"}},
		imageParam("one built from the job's files"),
		{Name: "fresh", Doc: "Container of a run. true: each run starts its own container, so the start is part of the run, as in other launchers. " +
			"false: one container serves all runs; each job starts in this container with exec, and the container is paused while other environments run.", Default: "true", Values: []string{"true", "false"}},
		networkParam,
		{Name: "memory", Doc: "Memory limit in the engine's notation, like 512m. Empty: no limit."},
		{Name: "cpu-limit", Doc: "CPU time limit in CPUs, like 1.5. Empty: no limit."},
		{Name: "cpus", Doc: "CPUs that the job may use, as a list like 0,2-3. Empty: no restriction."},
		{Name: "data", Path: true, Doc: "Folder on the disk under test; teescope makes its own folder in it and removes it at the end. Empty: the temporary folder."},
	},
	Aliases: map[string]bench.Params{"docker": {"runtime": "docker"}, "podman": {"runtime": "podman"}},
	Check:   checkContainer,
	Refuses: func(p bench.Params, job bench.Job) error {
		for name, value := range job.Inside.Env {
			// Seen with run and create of podman 4.3.1, and not with exec.
			if p["fresh"] == "true" && p["runtime"] != "docker" && strings.Contains(value, "\r\n") {
				return fmt.Errorf("pass the variable %s=%.60q: podman run drops a carriage return at the end of a line; use fresh=false", name, value)
			}
		}
		return nil
	},
	Elsewhere: func(p bench.Params) bool { return p["image"] != "" },
	Commands:  containerCommands,
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		f, err := newFolders(h, "pod", p["data"], func(work, short string) { endContainers(ctx, h, work, short) })
		if err != nil {
			return nil, err
		}
		e := &containerEnv{folders: f, params: p, images: map[string]string{}, standing: map[string]string{}}
		if strings.Contains(f.work+f.data, ":") {
			return nil, errors.Join(fmt.Errorf("mount %s and %s: the engine ends a volume's path at a colon: choose other folders with TMPDIR and data=", f.work, f.data), f.remove())
		}
		if err := e.prepare(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	},
}

const (
	podmanHint = "package podman"
	dockerHint = "package docker.io"
)

func checkContainer(h *host.Host, p bench.Params) error {
	if err := refuseImage(h, p["image"]); err != nil {
		return err
	}
	var needs []need
	if p["data"] != "" {
		needs = append(needs, dataFolder(p["data"]))
	}
	if isPath(p["image"]) {
		needs = append(append(needs, imageNeeds(h, p["image"])...), need{Command: "tar", Hint: "package tar"})
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
				return errors.Join(missing(h, needs...), fmt.Errorf("docker's client is installed, but no docker daemon answers%s (start dockerd, %s)", lastWords(out), dockerHint))
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
		g.global = podmanVariants("{work}", "{work}", ownStore(p))[0]
	}
	e := containerEnv{folders: &folders{work: "{work}", data: "{data}"}, params: p, engine: g}
	image, cs := p["image"], []host.Cmd(nil)
	switch {
	case image == "":
		image = "{image}"
		cs = append(cs, g.cmd("import", "-", image))
	case isPath(image):
		cs = append(cs, g.cmd("import", image, "{image}"))
		image = "{image}"
	}
	if p["fresh"] == "true" {
		return append(cs, e.fresh("{name}", image, job)), nil
	}
	return append(cs, e.pauseCommand("{name}", image, job), e.execCommand("{name}", job)), nil
}

type containerEnv struct {
	*folders
	params   bench.Params
	engine   engine
	version  string
	readBack map[string]string
	image    string            // the user's, as the engine knows it
	digest   string            // of it
	images   map[string]string // built by us: name, by what is in it
	standing map[string]string // containers that are kept: name, by image and needs
	made     int
}

// discard ends a container and removes it, also after the context's end.
func (e *containerEnv) discard(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	// An error means that the container is not running or does not exist, which is the goal.
	_, _ = e.h.Exec(ctx, e.engine.cmd("kill", name))
	_, _ = e.h.Exec(ctx, e.engine.cmd("rm", "--force", name))
}

func (e *containerEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["runtime"] = e.engine.command
	d.Params["options"] = strings.NewReplacer(e.work, "{work}", e.short, "{work}").Replace(strings.Join(slices.Concat(e.engine.global, e.engine.limits), " "))
	d.Params["data"] = e.dataOn()
	maps.Copy(d.Params, e.readBack)
	d.Software.Versions = withEntry(d.Software.Versions, e.engine.command, e.version)
	d.Software.CachePolicy = "as found"
	if e.digest != "" {
		d.Software.Versions = withEntry(d.Software.Versions, "image", e.digest)
	} else {
		d.Params["image"] = "built from the job's files" // whose digests are the job's
	}
	return nil
}

func (e *containerEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	files := job.Files
	if e.params["fresh"] == "false" {
		if err := micro.Missing(micro.Static); err != nil {
			return bench.Outcome{}, fmt.Errorf("keep a container (or use fresh=true): %w", err)
		}
		files = append([]bench.File{pauser}, files...)
	}
	image, err := e.image, error(nil)
	if image == "" {
		image, err = e.build(ctx, files)
	}
	if err == nil && (e.params["image"] != "" || job.Outside != nil) { // the load generator reads them on this machine
		err = e.placeFiles(files)
	}
	if err != nil {
		return bench.Outcome{}, err
	}
	var name string
	var inside host.Cmd
	if e.params["fresh"] == "true" {
		name = e.name()
		inside = e.fresh(name, image, job)
	} else {
		if name, err = e.standingContainer(ctx, image, job); err != nil {
			return bench.Outcome{}, err
		}
		inside = e.execCommand(name, job)
	}
	life, done := e.ending(ctx, name)
	out, err := runBoth(ctx, life, e.h, inside, e.outsideCommand(job), job)
	done()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	// An interrupted client leaves its container running, or its job in a kept container.
	if e.params["fresh"] == "true" {
		if err != nil || job.Outside != nil {
			e.discard(ctx, name)
		}
	} else if ctx.Err() != nil || job.Outside != nil {
		e.discard(ctx, name)
		maps.DeleteFunc(e.standing, func(_, v string) bool { return v == name })
	}
	// The engine's processes are part of a run. Docker's daemon is not listed: it serves others
	// too.
	out.Processes = append(processes(job), "conmon", "crun", "runc", "runc:[1:CHILD]", "runc:[2:INIT]", e.engine.command)
	return out, err
}

// ending returns a context for a client that outlives ctx: when ctx ends, the container is
// killed, and its client ends with it. Killing the client instead could leave a container that it
// was just starting.
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

// standingContainer finds or starts the container that stays for jobs of this kind.
func (e *containerEnv) standingContainer(ctx context.Context, image string, job bench.Job) (string, error) {
	key := image + " " + strconv.FormatBool(usesMachine(job.Inside)) + " " + network(e.params, job)
	if name, ok := e.standing[key]; ok {
		return name, nil
	}
	name := e.name()
	life, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	if out, err := e.h.Exec(life, e.pauseCommand(name, image, job)); err != nil || ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
		e.discard(ctx, name)
		return "", fmt.Errorf("start the container that later runs reuse (fresh=false): %w%s", err, lastWords(out))
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
			return fmt.Errorf("%s container %s: %w%s", verb, name, err, lastWords(out))
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
	// A container that was cancelled while it was created can leave its conmon waiting.
	endNamed(e.h, e.work)
	return e.remove()
}
