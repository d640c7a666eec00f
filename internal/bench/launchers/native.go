package launchers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// native is the usual baseline: the job as a plain process of this machine.
var native = bench.Launcher{
	Name: "native",
	Doc: "Runs the job as a process of this machine, in its own work folder. " +
		"The type of machine (bare metal, VM, confidential VM) is detected, not assumed.",
	Params: []bench.Param{
		{Name: "data", Path: true, Doc: "Folder on the disk under test; teescope makes its own folder in it and removes it at the end. Empty: the temporary folder."},
		{Name: "cpus", Doc: "CPUs that the job may use, as a list like 0,2-3 (taskset(1)). Empty: no restriction."},
		{Name: "drop-caches", Doc: "Whether the page cache is written out and dropped before each run (needs root).", Default: "false", Values: []string{"false", "true"}},
	},
	Check: func(h *host.Host, p bench.Params) error {
		var needs []need
		if p["cpus"] != "" {
			needs = append(needs, need{Command: "taskset", Hint: "package util-linux"})
		}
		if p["data"] != "" {
			needs = append(needs, dataFolder(p["data"]))
		}
		if p["drop-caches"] == "true" {
			needs = append(needs, need{Path: dropCaches, Hint: "the kernel option CONFIG_SYSCTL"})
		}
		return missing(h, needs...)
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		var cs []host.Cmd
		if p["drop-caches"] == "true" {
			cs = append(cs, host.Cmd{Argv: []string{"sync"}})
		}
		return append(cs, pinned(p, job.Inside)), nil
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		f, err := newFolders(h, "native", p["data"])
		if err != nil {
			return nil, err
		}
		e := &nativeEnv{folders: f, params: p}
		if err := e.prepare(ctx); err != nil {
			return nil, errors.Join(err, f.remove())
		}
		return e, nil
	},
}

const dropCaches = "/proc/sys/vm/drop_caches"

type nativeEnv struct {
	*folders
	params bench.Params
	cpus   string // as the kernel lists them
}

// pinned puts the affinity in front of a command; taskset then becomes the command.
func pinned(p bench.Params, c host.Cmd) host.Cmd {
	if p["cpus"] != "" {
		c.Argv = append([]string{"taskset", "-c", p["cpus"]}, c.Argv...)
	}
	return c
}

// prepare tries what each run needs, so a problem is reported before the first run.
func (e *nativeEnv) prepare(ctx context.Context) error {
	if e.params["cpus"] != "" {
		out, err := e.h.Exec(ctx, pinned(e.params, host.Cmd{Argv: []string{"cat", "/proc/self/status"}}))
		if err != nil {
			return fmt.Errorf("pin to cpus=%s: %w%s", e.params["cpus"], err, lastWords(out))
		}
		for line := range strings.Lines(string(out.Stdout)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				e.cpus = strings.TrimSpace(list)
			}
		}
		// The kernel silently ignores CPUs that do not exist (sched_setaffinity(2)).
		if asked, got := cpuSet(e.params["cpus"]), cpuSet(e.cpus); asked != got || asked == "" {
			return fmt.Errorf("pin to cpus=%s: the kernel allows %q; name CPUs that are online and allowed", e.params["cpus"], e.cpus)
		}
	}
	return e.drop(ctx)
}

// cpuSet normalises a list like 3,0-1 or 0-8:2, so two spellings of a set are equal; it returns
// "" for text that is not a list.
func cpuSet(list string) string {
	const most = 1 << 13 // CPUs that the kernel can be built for (CONFIG_NR_CPUS)
	on := make([]byte, most)
	for part := range strings.SplitSeq(list, ",") {
		span, stride, strided := strings.Cut(part, ":")
		lo, hi, ranged := strings.Cut(span, "-")
		if !ranged {
			hi = lo
		}
		step := 1
		from, err1 := strconv.Atoi(lo)
		to, err2 := strconv.Atoi(hi)
		var err3 error
		if strided {
			step, err3 = strconv.Atoi(stride)
		}
		if errors.Join(err1, err2, err3) != nil || from < 0 || to < from || to >= most || step < 1 {
			return ""
		}
		for cpu := from; cpu <= to; cpu += step {
			on[cpu] = 1
		}
	}
	return string(on)
}

// drop empties the page cache; dirty pages would stay, so they are written first
// (Documentation/admin-guide/sysctl/vm.rst).
func (e *nativeEnv) drop(ctx context.Context) error {
	if e.params["drop-caches"] != "true" {
		return nil
	}
	if _, err := e.h.Exec(ctx, host.Cmd{Argv: []string{"sync"}}); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	if err := e.h.WriteFile(dropCaches, []byte("3\n")); err != nil {
		return fmt.Errorf("drop caches: %w (run as root, or leave drop-caches=false)", err)
	}
	return nil
}

func (e *nativeEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["data"] = e.dataOn()
	d.Params["cpus"] = e.cpus
	d.Software.CachePolicy = "as found"
	if e.params["drop-caches"] == "true" {
		d.Software.CachePolicy = "dropped before each run"
	}
	return nil
}

func (e *nativeEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if err := e.placeFiles(job.Files); err != nil {
		return bench.Outcome{}, err
	}
	if err := e.drop(ctx); err != nil {
		return bench.Outcome{}, err
	}
	out, err := runBoth(ctx, ctx, e.h, pinned(e.params, place(job.Inside, e.work, e.data)), e.outsideCommand(job), job)
	out.Processes, out.Whole = processes(job), true
	return out, err
}

// Idle has nothing to freeze: no process outlives its run.
func (e *nativeEnv) Idle(context.Context, bool) error { return nil }

func (e *nativeEnv) Close() error { return e.remove() }
