package launchers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// need is something that a launcher requires of the harness's machine.
type need struct {
	// Command is looked up in PATH; Path is a file, folder or device.
	Command, Path string
	// Hint is the package that has it, or how to get it.
	Hint string
}

// missing names every need that the machine does not meet, in one error.
func missing(h *host.Host, needs ...need) error {
	var lacks []string
	for _, n := range needs {
		what, err := n.Path, error(nil)
		if n.Command != "" {
			what = n.Command
			_, err = h.LookPath(n.Command)
		} else {
			_, err = h.Stat(n.Path)
		}
		if err != nil {
			lacks = append(lacks, fmt.Sprintf("%s (%s)", what, n.Hint))
		}
	}
	if lacks == nil {
		return nil
	}
	return fmt.Errorf("missing on this machine: %s", strings.Join(lacks, "; "))
}

// place replaces {work} and {data} in a command.
func place(c host.Cmd, work, data string) host.Cmd {
	r := strings.NewReplacer("{work}", work, "{data}", data)
	out := c
	out.Argv = make([]string, len(c.Argv))
	for i, a := range c.Argv {
		out.Argv[i] = r.Replace(a)
	}
	out.Dir = r.Replace(c.Dir)
	if c.Env != nil {
		out.Env = make(map[string]string, len(c.Env))
	}
	for k, v := range c.Env {
		out.Env[k] = r.Replace(v)
	}
	return out
}

// folders are the two places on the harness's machine that a job may use, and one for the launcher's own files whose paths
// have a limit, which is the work folder unless shorten says otherwise.
type folders struct {
	h                 *host.Host
	work, data, short string
	placed            map[string]string // installed files, by name
}

// newFolders makes a work folder, and a data folder in it or, if one is given, in that one.
// Before that it removes what a killed harness left of the same launcher, after first has ended
// what still runs there.
func newFolders(h *host.Host, launcher, data string, first ...func(work, short string)) (*folders, error) {
	prefix := "teescope-" + launcher
	work, err := h.MkdirTemp(prefix)
	if err != nil {
		return nil, fmt.Errorf("make a work folder: %w", err)
	}
	f := &folders{h: h, work: work, data: path.Join(work, "data"), short: work, placed: map[string]string{}}
	switch {
	case !quotable(work):
		err = fmt.Errorf("the path %s has a quote or a line break, which the scripts of jobs do not support: set TMPDIR to another folder", work)
	case data != "":
		f.data = path.Join(data, path.Base(work))
		_, err = h.Stat(data)
	}
	if err == nil {
		err = h.Mkdir(f.data)
	}
	if err != nil {
		err = fmt.Errorf("make a data folder: %w", err)
	} else if err = claimFolder(h, work, f.data, f.short); err == nil {
		err = sweep(h, work, prefix, first)
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// shorten makes the short folder one in which the path of a file of that name has at most most bytes.
func (f *folders) shorten(longest string, most int) (err error) {
	if f.short, err = f.h.ShortFolder(f.work, longest, most); err != nil {
		f.short = f.work
		return err
	}
	return claimFolder(f.h, f.work, f.data, f.short)
}

// quotable reports whether '{work}' in a job's script stays one word, and in an agent's answer one line.
func quotable(folder string) bool { return !strings.ContainsAny(folder, "'\n") }

// placeFiles installs a job's files, each once.
func (f *folders) placeFiles(files []bench.File) error {
	for _, file := range files {
		id := "from " + file.From
		if file.Data != nil {
			id = fmt.Sprintf("%x", sha256.Sum256(file.Data))
		}
		if f.placed[file.Name] == id {
			continue
		}
		data, err := content(f.h, file)
		if err != nil {
			return err
		}
		if err := f.h.Install(path.Join(f.work, file.Name), data, mode(file)); err != nil {
			return fmt.Errorf("install %s: %w", file.Name, err)
		}
		f.placed[file.Name] = id
	}
	return nil
}

// content is what a job's file holds.
func content(h *host.Host, file bench.File) ([]byte, error) {
	if !filepath.IsLocal(file.Name) {
		return nil, fmt.Errorf("install %q: the name leaves the work folder", file.Name)
	}
	return file.Content(h)
}

func mode(file bench.File) fs.FileMode {
	if file.Exec {
		return 0o755
	}
	return 0o644
}

// dataOn returns the folder of the machine in which the data folder was made.
func (f *folders) dataOn() string {
	if path.Dir(f.data) == f.work {
		return path.Dir(f.work)
	}
	return path.Dir(f.data)
}

func (f *folders) remove() error {
	return errors.Join(f.h.RemoveAll(f.data), f.h.RemoveAll(f.short), f.h.RemoveAll(f.work))
}

// comm is the name under which the kernel shows a command: the first 15 bytes
// of its file's name (proc_pid_comm(5)).
func comm(c host.Cmd) []string {
	if len(c.Argv) == 0 {
		return nil
	}
	return []string{taskName(c.Argv[0])}
}

func taskName(file string) string {
	name := path.Base(file)
	return name[:min(len(name), 15)]
}

// processes are the names under which a job's inside works.
func processes(job bench.Job) []string {
	names := comm(job.Inside)
	for _, p := range job.Processes {
		names = append(names, taskName(p))
	}
	return names
}

// network is the job's network: the user's choice, or else the machine's if the load comes from
// outside and none if not.
func network(p bench.Params, job bench.Job) string {
	switch {
	case p["network"] != "auto":
		return p["network"]
	case job.Outside != nil:
		return "host"
	}
	return "none"
}

// networkParam is the parameter that network reads.
var networkParam = bench.Param{Name: "network", Default: "auto", Values: []string{"auto", "none", "host"},
	Doc: "Network of the job. none: no network. host: the machine's own network. auto: host if a load comes from outside, otherwise none."}

// poll is the interval at which a wait checks again.
const poll = 2 * time.Millisecond

// loads is the folder for loads on servers that run elsewhere; the zero value has no folder yet.
type loads struct{ *folders }

// runAgainst runs a load on a running server.
func (l *loads) runAgainst(ctx context.Context, h *host.Host, p server, job bench.Job) (bench.Outcome, error) {
	outside := *l.outsideCommand(job)
	return underLoad(ctx, p, job, func(ctx context.Context) (host.Output, error) { return h.Exec(ctx, outside) })
}

// prepare brings a job's files here, for its load.
func (l *loads) prepare(h *host.Host, launcher string, job bench.Job) error {
	if l.folders == nil {
		f, err := newFolders(h, launcher+"-load", "")
		if err != nil {
			return err
		}
		l.folders = f
	}
	return l.placeFiles(job.Files)
}

func (l *loads) close() error {
	if l.folders == nil {
		return nil
	}
	return l.remove()
}

// noLoad refuses a job with a load from outside, with the reason.
func noLoad(job bench.Job, why string) error {
	if job.Outside == nil {
		return nil
	}
	return fmt.Errorf("%s, so no load reaches a server in the environment", why)
}

// runBoth runs a job's inside and, once that is ready, its outside; then it ends the inside if
// it still runs. The inside's process runs under the context life: ctx, unless the launcher has
// a better way to end it. Both are those of the job, as they run here.
func runBoth(ctx, life context.Context, h *host.Host, inside host.Cmd, outside *host.Cmd, job bench.Job) (bench.Outcome, error) {
	if outside == nil {
		out, err := h.Exec(life, inside)
		return bench.Outcome{Inside: out}, err
	}
	p, err := h.Start(life, inside)
	if err != nil {
		return bench.Outcome{}, err
	}
	return underLoad(ctx, p, job, func(ctx context.Context) (host.Output, error) { return h.Exec(ctx, *outside) })
}

// server is a running program: a process of this machine, or one behind an agent.
type server interface {
	LinePrinted(line string) <-chan struct{}
	Done() <-chan struct{}
	Wait() (host.Output, error)
	Stop()
}

// underLoad runs a load on a job's running server, once it has printed its ready line, and ends the
// server.
func underLoad(ctx context.Context, p server, job bench.Job, load func(context.Context) (host.Output, error)) (bench.Outcome, error) {
	defer p.Stop()
	if ready := job.Inside.Ready; ready != "" {
		if job.Waiting != nil {
			job.Waiting(fmt.Sprintf("the line %q of %s", ready, strings.Join(comm(job.Inside), "")))
		}
		err := awaitLine(ctx, p, ready)
		if job.Waiting != nil {
			job.Waiting("")
		}
		if err != nil {
			p.Stop()
			in, end := p.Wait()
			return bench.Outcome{Inside: in}, withCause(err, end)
		}
	}
	loaded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(bench.ErrEarly)
		case <-loaded.Done():
		}
	}()
	out, err := load(loaded)
	if errors.Is(context.Cause(loaded), bench.ErrEarly) { // the load was ended because the server had ended
		in, end := p.Wait()
		return bench.Outcome{Inside: in, Outside: out}, withCause(bench.ErrEarly, end)
	}
	p.Stop()
	in, end := p.Wait()
	if errors.Is(end, errLost) {
		err = end
	}
	return bench.Outcome{Inside: in, Outside: out}, err
}

// withCause is an error with its cause, if there is one, on one line.
func withCause(err, cause error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// awaitLine waits until a process has printed a line.
func awaitLine(ctx context.Context, p server, line string) error {
	said := p.LinePrinted(line)
	select {
	case <-said:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the line %q: %w", line, ctx.Err())
	case <-p.Done():
	}
	select {
	case <-said: // before its end
		return nil
	default:
		return fmt.Errorf("the program ended before it printed %q", line)
	}
}

// outsideCommand is the job's load generator with the folders filled in: the same as inside; nil without
// one.
func (f *folders) outsideCommand(job bench.Job) *host.Cmd {
	if job.Outside == nil {
		return nil
	}
	c := place(*job.Outside, f.work, f.data)
	return &c
}

// dataFolder is the need for a folder that the user named.
func dataFolder(name string) need {
	return need{Path: name, Hint: "make the folder, or mount the disk there"}
}

// lastWords is why a command failed in its own words, for the end of an error's text.
func lastWords(out host.Output) string {
	if words := out.FailureReason(); words != "" {
		return ": " + words
	}
	return ""
}

// reportParams records the parameters as given; a launcher then overwrites those that it reads
// back.
func reportParams(d *result.Environment, p bench.Params) { d.Params = maps.Clone(p) }

// withEntry adds a value to a map, which may be nil.
func withEntry(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}
