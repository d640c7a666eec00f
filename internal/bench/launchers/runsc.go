package launchers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// gvisor is a stand-in with the cost profile of enclave exits. See
// https://gvisor.dev/docs/architecture_guide/platforms/.
var gvisor = bench.Launcher{
	Name: "runsc",
	Doc: "Runs the job in gVisor's sandbox: each system call enters a kernel in user space, but computing has no extra cost. " +
		"gVisor is not a TEE: it protects the host from the job, not the job from the host. " +
		"Without a TEE, use it to see the effect of expensive kernel entries. The machine's files are read-only, below an overlay in memory.",
	Params: []bench.Param{
		{Name: "platform", Doc: "How gVisor intercepts system calls.", Default: "systrap", Values: []string{"systrap", "ptrace", "kvm"}},
		imageParam("this machine's root file system"),
		networkParam,
		{Name: "data", Path: true, Doc: "Folder on the disk under test; teescope makes its own folder in it and removes it at the end. Empty: the temporary folder."},
	},
	Aliases:   map[string]bench.Params{"gvisor": {}},
	Elsewhere: func(p bench.Params) bool { return p["image"] != "" },
	Check: func(h *host.Host, p bench.Params) error {
		if err := refuseImage(h, p["image"]); err != nil {
			return err
		}
		needs := []need{{Command: "runsc", Hint: "no Debian package: `make runsc` in the checkout builds it, or see https://gvisor.dev/docs/user_guide/install/"}}
		if p["platform"] == "kvm" {
			needs = append(needs, need{Path: "/dev/kvm", Hint: "the kernel's kvm module and virtualisation in the firmware"})
		}
		if p["data"] != "" {
			needs = append(needs, dataFolder(p["data"]))
		}
		if p["image"] != "" {
			needs = append(needs, imageNeeds(h, p["image"])...)
		}
		return missing(h, needs...)
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		return []host.Cmd{
			{Argv: []string{"runsc", "--version"}},
			sandboxed(p, nothing(p), "{image}", "{work}", "{data}"),
			sandboxed(p, job, "{image}", "{work}", "{data}"),
		}, nil
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		f, err := newFolders(h, "runsc", p["data"])
		if err != nil {
			return nil, err
		}
		e := &gvisorEnv{folders: f, params: p}
		if err := e.prepare(ctx); err != nil {
			return nil, errors.Join(err, f.remove())
		}
		return e, nil
	},
}

type gvisorEnv struct {
	*folders
	params  bench.Params
	version string
	image   string // folder of the image
	digest  string // of it
}

// sandboxed wraps a job's command. runsc passes its own environment to the job. TMPDIR holds the
// sandbox's state, so the sweep after a kill finds it.
func sandboxed(p bench.Params, job bench.Job, image, work, data string) host.Cmd {
	c := place(job.Inside, work, data)
	env := map[string]string{"TMPDIR": work}
	for k, v := range c.Env {
		env[k] = v
	}
	dir := c.Dir
	if dir == "" {
		dir = work
	}
	argv := []string{"runsc", "--platform=" + p["platform"], "--network=" + network(p, job),
		"--ignore-cgroups"} // nothing is limited, and runsc fails on some cgroup v1 trees
	if network(p, job) == "host" {
		// As root, runsc do makes its own network in spite of --network=host; rootless, it does
		// not.
		argv = append(argv, "--rootless")
	}
	argv = append(argv, "do", "--quiet", "--cwd", dir, "--volume", work)
	if p["image"] != "" {
		argv = append(argv, "--root", image)
	}
	if p["data"] != "" { // else it lies in the work folder
		argv = append(argv, "--volume", data)
	}
	c.Argv, c.Env, c.Dir = append(argv, c.Argv...), env, ""
	return c
}

// nothing is a job that does nothing: a program of the machine, or our own in an image.
func nothing(p bench.Params) bench.Job {
	if p["image"] == "" {
		return bench.Job{Inside: host.Cmd{Argv: []string{"true"}}}
	}
	return bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "null"}}, Files: []bench.File{{Name: "micro", Data: micro.Program, Exec: true}}}
}

// openImage puts the image into a folder of our own, because runsc makes mount points in its
// root.
func (e *gvisorEnv) openImage(ctx context.Context, image string) error {
	own := e.work + "/image"
	folder, err := imageFolder(ctx, e.h, image, own)
	if err == nil {
		e.digest, err = imageDigest(ctx, e.h, image)
	}
	if err != nil {
		return err
	}
	e.image = e.h.Path(own)
	if folder == own {
		return nil
	}
	if out, err := e.h.Exec(ctx, host.Cmd{Argv: []string{"cp", "-a", "--reflink=auto", e.h.Path(folder), e.image}}); err != nil {
		return fmt.Errorf("copy image %s: %w%s", image, err, lastWords(out))
	}
	return nil
}

func (e *gvisorEnv) prepare(ctx context.Context) error {
	out, err := e.h.Exec(ctx, host.Cmd{Argv: []string{"runsc", "--version"}})
	if err != nil {
		return fmt.Errorf("ask runsc for its version: %w", err)
	}
	first, _, _ := strings.Cut(string(out.Stdout), "\n")
	e.version = strings.TrimPrefix(first, "runsc version ")
	if image := e.params["image"]; image != "" {
		if err := e.openImage(ctx, image); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, fmt.Errorf("no answer within %s", probeTime))
	defer cancel()
	probe := nothing(e.params)
	if err := e.placeFiles(probe.Files); err != nil {
		return err
	}
	if out, err = e.h.Exec(ctx, sandboxed(e.params, probe, e.image, e.work, e.data)); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("start a sandbox on platform %s: %w%s (try platform=systrap or ptrace)", e.params["platform"], err, lastWords(out))
	}
	return nil
}

func (e *gvisorEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["data"] = e.dataOn()
	d.TEE.Settings = map[string]string{"sandbox": "gVisor, not a TEE"}
	d.Software.Versions = withEntry(d.Software.Versions, "runsc", e.version)
	if e.digest != "" {
		d.Software.Versions["image"] = e.digest
	}
	d.Software.CachePolicy = "as found"
	return nil
}

func (e *gvisorEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if err := e.placeFiles(job.Files); err != nil {
		return bench.Outcome{}, err
	}
	inside := sandboxed(e.params, job, e.image, e.work, e.data)
	out, err := runBoth(ctx, ctx, e.h, inside, e.outsideCommand(job), job)
	// The sandbox and the gofer start as /proc/self/exe and keep that name; the
	// job's own name is known to the kernel inside only.
	out.Processes = []string{"exe", "runsc"}
	return out, err
}

// Idle has nothing to freeze: no sandbox outlives its run.
func (e *gvisorEnv) Idle(context.Context, bool) error { return nil }

func (e *gvisorEnv) Close() error { return e.remove() }
