package launchers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// beside measures the cost of a program that runs next to a job: the same job natively is the baseline.
var beside = bench.Launcher{
	Name: "beside",
	Doc: "Runs the job as native does, while another program, such as a monitor, runs on the machine. It measures what the other program costs the job. " +
		"The program starts for each run and ends after it, so it does not disturb other environments.",
	Params: []bench.Param{
		{Name: "program", Doc: "The other program and its arguments, separated by spaces. {teescope} is this program, {own} is a folder that is empty at the start of each run, and {port} is a free TCP port. " +
			"The value cannot contain a comma; if the command needs one, put the command into a script.", Default: "{teescope} monitor --listen 127.0.0.1:{port} --data {own}"},
		{Name: "settle", Doc: "Time between the program's start and the job's.", Default: "4s"},
		nativeParam("cpus"),
		nativeParam("data"),
	},
	Check: func(h *host.Host, p bench.Params) error {
		argv, err := neighbour(h, p, "{own}", "{port}")
		if err != nil {
			return err
		}
		other := need{Command: argv[0], Hint: "the program to run next to the job"}
		if strings.Contains(argv[0], "/") {
			other.Command, other.Path = "", argv[0]
		}
		return errors.Join(missing(h, other), native.Check(h, p))
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		argv, err := neighbour(nil, p, "{own}", "{port}")
		if err != nil {
			return nil, err
		}
		own, err := native.Commands(p, job)
		return append([]host.Cmd{{Argv: argv}}, own...), err
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		settle, err := p.Seconds("settle")
		if err != nil {
			return nil, err
		}
		ports, err := h.FreePorts(1)
		if err != nil {
			return nil, err
		}
		f, err := newFolders(h, "beside", p["data"])
		if err != nil {
			return nil, err
		}
		e := &besideEnv{nativeEnv: nativeEnv{folders: f, params: p}, own: path.Join(f.work, "beside"), settle: settle}
		if e.argv, err = neighbour(h, p, e.own, strconv.Itoa(ports[0])); err == nil {
			err = e.prepare(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, f.remove())
		}
		return e, nil
	},
}

// nativeParam returns the native launcher's parameter of that name.
func nativeParam(name string) bench.Param {
	return native.Params[slices.IndexFunc(native.Params, func(p bench.Param) bool { return p.Name == name })]
}

type besideEnv struct {
	nativeEnv
	argv   []string
	own    string
	settle time.Duration
}

// neighbour returns the argv of the other program; without a host, as in a dry run, {teescope}
// stays.
func neighbour(h *host.Host, p bench.Params, own, port string) ([]string, error) {
	self := "{teescope}"
	if h != nil && strings.Contains(p["program"], self) {
		var err error
		if self, err = h.FindOwnProgram("teescope"); err != nil {
			return nil, fmt.Errorf("find the program teescope to run next to the job: %w", err)
		}
	}
	argv := strings.Fields(p["program"])
	if len(argv) == 0 {
		return nil, errors.New("parameter program is empty: name the program to run next to the job")
	}
	r := strings.NewReplacer("{teescope}", self, "{own}", own, "{port}", port)
	for i := range argv {
		argv[i] = r.Replace(argv[i])
	}
	return argv, nil
}

// errNeighbour refuses a run during which the other program ended.
var errNeighbour = errors.New("the program next to the job ended before the job")

func (e *besideEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if err := errors.Join(e.h.RemoveAll(e.own), e.h.Mkdir(e.own)); err != nil {
		return bench.Outcome{}, fmt.Errorf("empty the folder of the program next to the job: %w", err)
	}
	p, err := e.h.Start(ctx, host.Cmd{Argv: e.argv, Dir: e.own})
	if err != nil {
		return bench.Outcome{}, err
	}
	defer p.Stop()
	select {
	case <-time.After(e.settle):
	case <-p.Done():
	case <-ctx.Done():
	}
	out, err := e.runBeside(ctx, p, job)
	p.Stop()
	said, _ := p.Wait() // it was stopped on purpose
	out.Beside = said.User + said.System
	return out, err
}

// runBeside runs the job, and ends it when the other program ends.
func (e *besideEnv) runBeside(ctx context.Context, p *host.Process, job bench.Job) (bench.Outcome, error) {
	together, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(errNeighbour)
		case <-together.Done():
		}
	}()
	out, err := e.nativeEnv.Run(together, job)
	if errors.Is(context.Cause(together), errNeighbour) {
		last, end := p.Wait()
		return out, fmt.Errorf("%w: %w%s", errNeighbour, errors.Join(end, err), lastWords(last))
	}
	return out, err
}

func (e *besideEnv) Describe(ctx context.Context, d *result.Environment) error {
	err := e.nativeEnv.Describe(ctx, d)
	d.Params["program"] = strings.ReplaceAll(strings.Join(e.argv, " "), e.own, "{own}")
	return err
}
