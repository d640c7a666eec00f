package launchers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// putLimit bounds the bytes sent over the serial line: beyond it, rebooting with the files in
// the initramfs is faster.
const putLimit = 128 << 10

func (e *qemuEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	command := place(job.Inside, guestWork, guestData)
	fresh := e.params["fresh"] == "true"
	v, err := e.prepared(ctx, job, &command, fresh)
	if err != nil {
		return bench.Outcome{}, err
	}
	began := e.h.Now()
	if fresh {
		began = v.began
	}
	var o bench.Outcome
	cost := v.costs()
	if job.Outside == nil {
		o.Inside, err = v.run(ctx, command, began)
	} else {
		o, err = e.serve(ctx, v, command, began, job)
	}
	o.Monitor = cost()
	o.Processes, o.Machine = comm(host.Cmd{Argv: []string{qemuCommand}}), true
	if fresh {
		o.Boot = v.boot()
	}
	e.using.Lock()
	defer e.using.Unlock()
	if said := v.console(); len(said) > 0 {
		o.Raw = map[string][]byte{"console": said}
		err = exhausted(err, said)
	}
	if why := v.diskFault(); why != "" {
		err = withCause(fmt.Errorf("%w: %s", errDisk, why), err)
	}
	broken := errors.Is(err, errLost) || errors.Is(err, errNetwork) || errors.Is(err, errDisk)
	if v == e.vm && (fresh || broken) {
		if herr := e.halt(); herr != nil {
			err = withCause(err, herr)
		}
	}
	return o, err
}

// serve runs a server in the guest and its load here.
func (e *qemuEnv) serve(ctx context.Context, v *vm, inside host.Cmd, began time.Time, job bench.Job) (bench.Outcome, error) {
	if err := e.loads.prepare(e.h, "qemu", job); err != nil {
		return bench.Outcome{}, err
	}
	finish := v.guard(ctx)
	p, err := v.agent.start(inside, began, e.h.Now)
	if err != nil {
		return bench.Outcome{}, finish(err)
	}
	o, err := e.loads.runAgainst(ctx, e.h, p, job)
	return o, v.connected(ctx, finish(err))
}

// prepared returns a machine that holds what a job needs.
func (e *qemuEnv) prepared(ctx context.Context, job bench.Job, c *host.Cmd, fresh bool) (*vm, error) {
	e.using.Lock()
	defer e.using.Unlock()
	if err := e.placeJob(job, c); err != nil {
		return nil, err
	}
	err := e.ready(ctx, fresh)
	return e.vm, err
}

// placeJob puts a job's files and programs into the guest's tree, and makes the command name the
// program by its full path. An image has its own programs.
func (e *qemuEnv) placeJob(job bench.Job, c *host.Cmd) error {
	if len(c.Argv) == 0 {
		return errors.New("run: empty command")
	}
	if err := e.addModules(job.Modules...); err != nil {
		return err
	}
	all, err := placed(nil).fresh(e.h, job.Files)
	if err != nil {
		return err
	}
	for _, f := range all {
		e.files[path.Join(guestWork, f.name)] = guestFile{f.mode, f.data}
	}
	if e.params["image"] != "" {
		return nil
	}
	name := c.Argv[0]
	switch {
	case path.IsAbs(name):
	case strings.Contains(name, "/"):
		name = path.Join("/", c.Dir, name)
	default:
		if name, err = e.h.LookPath(name); err != nil {
			return fmt.Errorf("copy a program into the guest: %w; install it on this machine", err)
		}
	}
	c.Argv[0] = name // place has copied the slice
	if err := e.files.addProgram(e.h, name); err != nil {
		return err
	}
	for _, pattern := range job.Programs {
		if e.taken[pattern] {
			continue
		}
		if err := e.files.addAll(e.h, pattern); err != nil {
			return err
		}
		e.taken[pattern] = true
	}
	return nil
}

// ready returns a machine with the whole tree: the running one after sending some files, or a
// new one.
func (e *qemuEnv) ready(ctx context.Context, fresh bool) error {
	if e.vm != nil && !fresh {
		lacks, size := e.vm.lacks(e.files)
		if size <= putLimit {
			err := e.vm.sendFiles(ctx, lacks, e.files)
			if errors.Is(err, errLost) {
				err = errors.Join(err, e.halt())
			}
			return err
		}
	}
	if err := e.halt(); err != nil {
		return err
	}
	return e.start(ctx)
}

// Prepare implements bench.Prepared.
func (e *qemuEnv) Prepare(ctx context.Context, jobs ...bench.Job) error {
	e.using.Lock()
	defer e.using.Unlock()
	for _, job := range jobs {
		command := place(job.Inside, guestWork, guestData)
		if err := e.placeJob(job, &command); err != nil {
			return err
		}
	}
	return e.ready(ctx, false)
}

// Idle stops or resumes the guest's CPUs.
func (e *qemuEnv) Idle(_ context.Context, freeze bool) error {
	if e.vm == nil {
		return nil
	}
	return e.vm.freeze(freeze)
}

func (e *qemuEnv) Close() error {
	err := e.halt()
	if e.data != "" {
		err = errors.Join(err, e.h.RemoveAll(e.data))
	}
	return errors.Join(err, e.loads.close())
}
