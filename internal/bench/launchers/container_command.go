package launchers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// name returns a new name for a container or an image of this environment.
func (e *containerEnv) name() string {
	e.made++
	return fmt.Sprintf("%s-%d", strings.ToLower(path.Base(e.work)), e.made)
}

// build makes an image that holds only the files, once for each content.
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
		return "", fmt.Errorf("build an image with %s: %w%s", e.engine.command, err, lastWords(out))
	}
	e.images[sum] = name
	return name, nil
}

// layer returns the image's one layer: the files below the work folder, and the mount points.
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

// options returns the options of a container that runs a command.
func (e *containerEnv) options(name string, job bench.Job) []string {
	// A log of the container would be a copy of the job's output, of any size.
	out := []string{"--name", name, "--log-driver", "none", "--network", network(e.params, job), "--volume", e.data + ":" + insideData}
	out = append(out, e.engine.limits...)
	for _, o := range [][2]string{{"--memory", "memory"}, {"--cpus", "cpu-limit"}, {"--cpuset-cpus", "cpus"}} {
		if v := e.params[o[1]]; v != "" {
			out = append(out, o[0], v)
		}
	}
	switch {
	case e.params["image"] != "":
		return append(out, "--volume", e.work+":"+insideWork)
	case usesMachine(job.Inside):
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

// usesMachine reports whether a command is a tool of the machine, not a program that came with
// the job.
func usesMachine(c host.Cmd) bool {
	return len(c.Argv) > 0 && !strings.HasPrefix(c.Argv[0], "{work}/")
}

// words returns the engine's options for the job's environment and folder, and the job's own
// argv.
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

// entry makes the job's program the entry point, whatever the image declares. podman reads JSON there where it can, and so takes
// a program called null for none (podman-run(1)).
func (g engine) entry(argv []string) (option, rest []string) {
	if len(argv) == 0 {
		return nil, nil
	}
	program := argv[0]
	if g.command == "podman" {
		program, _ = toJSON(argv[:1]) // text is UTF-8, as every word of a job
	}
	return []string{"--entrypoint", program}, argv[1:]
}

func (e *containerEnv) create(name, image string, job bench.Job) host.Cmd {
	return e.whole("create", name, image, job)
}

// fresh runs a job in a container of its own.
func (e *containerEnv) fresh(name, image string, job bench.Job) host.Cmd {
	out := e.whole("run", name, image, job)
	c := job.Inside
	out.Stdin, out.Ready, out.Ask = c.Stdin, c.Ready, c.Ask
	return out
}

func (e *containerEnv) whole(verb, name, image string, job bench.Job) host.Cmd {
	options, argv := e.words(job.Inside)
	first, rest := e.engine.entry(argv)
	args := []string{verb}
	if verb == "run" {
		args = append(args, "--rm")
	}
	return e.engine.cmd(slices.Concat(args, e.options(name, job), options, first, []string{image}, rest)...)
}

// pauser keeps a container running.
var pauser = bench.File{Name: ".teescope-pauser", Data: micro.Program, Exec: true}

// pauseCommand starts a container that does nothing.
func (e *containerEnv) pauseCommand(name, image string, job bench.Job) host.Cmd {
	args := slices.Concat([]string{"run", "--detach"}, e.options(name, job),
		[]string{"--entrypoint", insideWork + "/" + pauser.Name, image, "pause"})
	return e.engine.cmd(args...)
}

// execCommand runs a job in a container that is kept.
func (e *containerEnv) execCommand(name string, job bench.Job) host.Cmd {
	c := job.Inside
	options, argv := e.words(c)
	out := e.engine.cmd(slices.Concat([]string{"exec"}, options, []string{name}, argv)...)
	out.Stdin, out.Ready, out.Ask = c.Stdin, c.Ready, c.Ask
	return out
}
