package launchers

import (
	"context"
	"crypto/sha256"
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
	"github.com/teescope/teescope/internal/tee"
)

// templateEnv is an environment that a command template describes.
type templateEnv struct {
	*folders
	t        *template
	params   bench.Params
	jobs     string // one folder for each job
	service  *host.Process
	end      context.CancelFunc
	versions map[string]string
	// unversioned says why a version is unknown, by JSON path.
	unversioned map[string]string
	prepared    map[string]string // folder of a job, by what makes the job
	evidence    []tee.Evidence    // of every job
	settings    map[string]string // from the last job's evidence
	unread      map[string]string // why a field is missing, by JSON path
	said        map[string]string // the last job's evidence by name
	active      bool
}

func (t *template) open(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
	f, err := newFolders(h, t.Name, p["data"])
	if err != nil {
		return nil, err
	}
	jobs, err := h.MkdirTemp("teescope-" + t.Name + "-jobs")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for jobs: %w", err), f.remove())
	}
	if err := claimFolder(h, jobs, "", jobs); err != nil {
		return nil, errors.Join(err, h.RemoveAll(jobs), f.remove())
	}
	e := &templateEnv{folders: f, t: t, jobs: jobs, params: p, versions: map[string]string{}, unversioned: map[string]string{}, prepared: map[string]string{},
		settings: map[string]string{}}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *templateEnv) jobless() scope {
	return scope{Work: e.work, Data: e.data, Params: e.params, jobless: true}
}

func (e *templateEnv) start(ctx context.Context) error {
	s := e.jobless()
	for name, st := range e.t.Versions {
		c, err := s.step(st)
		if err != nil {
			return err
		}
		out, err := e.h.Exec(ctx, c)
		if err != nil {
			e.unversioned["software.versions."+name] = fmt.Sprintf("%s: %v%s", strings.Join(c.Argv, " "), err, lastWords(out))
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), "\n")
		e.versions[name] = first
	}
	if e.t.Start == nil {
		return ctx.Err()
	}
	c, err := s.step(*e.t.Start)
	if err != nil {
		return err
	}
	// The service outlives Open's context and ends with Close.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	e.end = end
	if e.service, err = e.h.Start(life, c); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if e.t.Ready == nil {
		return nil
	}
	if c, err = s.step(*e.t.Ready); err != nil {
		return err
	}
	const between = 100 * time.Millisecond
	var last error // from an attempt that ran to its end
	for {
		out, err := e.h.Exec(ctx, c)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = fmt.Errorf("%w%s", err, lastWords(out))
		}
		select {
		case <-e.service.Done():
			out, err := e.service.Wait()
			return fmt.Errorf("start ended before it was ready: %w%s", errors.Join(err, errors.New("status 0")), lastWords(out))
		case <-ctx.Done():
			return fmt.Errorf("wait for ready: %w; the last answer was: %w", ctx.Err(), last)
		case <-time.After(between):
		}
	}
}

// prepare makes what a job needs before its first run, in a folder for that job.
func (e *templateEnv) prepare(ctx context.Context, job bench.Job) (scope, error) {
	id := sha256.New()
	fmt.Fprintf(id, "%q %q %q", job.Inside.Argv, job.Inside.Env, job.Inside.Dir)
	for _, f := range job.Files { // a changed program is signed again
		fmt.Fprintf(id, " %q %q", f.Name, e.placed[f.Name])
	}
	key := string(id.Sum(nil))
	folder, done := e.prepared[key]
	if !done {
		folder = path.Join(e.jobs, strconv.Itoa(len(e.prepared)+1))
	}
	s := e.t.scope(e.work, e.data, folder, e.params, job)
	if s.Program != "" && !strings.Contains(s.Program, "/") {
		// A library OS needs a path. A program that is not on this machine may be in its image.
		if found, err := e.h.LookPath(s.Program); err == nil {
			s.Program = found
		}
	}
	if done {
		return s, nil
	}
	files, err := s.files(e.t.Files)
	if err != nil {
		return s, err
	}
	if err := e.h.Mkdir(folder); err != nil {
		return s, fmt.Errorf("make the job's folder: %w", err)
	}
	for _, f := range files {
		if err := e.h.Install(path.Join(folder, f.Name), f.Data, 0o644); err != nil {
			return s, fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	for _, st := range e.t.Prepare {
		c, err := s.step(st)
		if err != nil {
			return s, err
		}
		if out, err := e.h.Exec(ctx, c); err != nil {
			return s, fmt.Errorf("prepare: %w%s", err, lastWords(out))
		}
	}
	e.prepared[key] = folder
	e.read(ctx, s)
	return s, nil
}

// read collects the evidence of a prepared job. What cannot be read is missing with a reason.
func (e *templateEnv) read(ctx context.Context, s scope) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	e.settings, e.unread, e.said = map[string]string{}, map[string]string{}, map[string]string{}
	for _, r := range e.t.Evidence {
		text, source, err := e.reading(ctx, s, r)
		if err != nil {
			e.unread["tee.evidence."+r.Name] = err.Error()
			continue
		}
		e.evidence = append(e.evidence, tee.Evidence{Source: r.Name + ": " + source, Value: text})
		for name, p := range r.Settings {
			if m := p.FindStringSubmatch(text); m != nil {
				e.settings[name] = m[1]
			} else {
				e.unread["tee.settings."+name] = r.Name + " does not report this setting"
			}
		}
		e.said[r.Name] = text
	}
	e.active = e.t.TEE.Kind != "none"
	for _, r := range e.t.TEE.Active {
		if !r.On.MatchString(e.said[r.From]) {
			e.active, e.unread["tee.active"] = false, r.From+" does not show that the TEE is active"
		}
	}
	if d := e.t.TEE.Debug; d != nil {
		switch text := e.said[d.From]; {
		case d.On.MatchString(text):
			e.settings["debug"] = "true"
		case d.Off.Regexp != nil && d.Off.MatchString(text):
			e.settings["debug"] = "false"
		}
	}
}

func (e *templateEnv) reading(ctx context.Context, s scope, r templateReading) (text, source string, err error) {
	if r.Argv == nil {
		if source, err = s.expand(r.File); err != nil {
			return "", "", err
		}
		text, err = e.h.ReadString(source)
	} else {
		c, err := s.step(step{Argv: r.Argv, Env: r.Env})
		if err != nil {
			return "", "", err
		}
		out, err := e.h.Exec(ctx, c)
		if err != nil {
			return "", "", fmt.Errorf("%w%s", err, lastWords(out))
		}
		text, source = strings.TrimSpace(string(out.Stdout)), strings.Join(c.Argv, " ")
	}
	return text, strings.NewReplacer(e.work, "{work}", s.Job, "{job "+path.Base(s.Job)+"}").Replace(source), err
}

// Describe reports the declaration, the evidence of every job that was prepared, and the settings
// of the last one.
func (e *templateEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["data"] = e.dataOn()
	d.TEE.Type, d.TEE.Declared = e.t.TEE.Kind, true
	d.TEE.Active, d.TEE.Debug = e.active, e.settings["debug"] == "true"
	d.TEE.Evidence = append(d.TEE.Evidence, e.evidence...)
	for k, v := range e.settings {
		d.TEE.Settings = withEntry(d.TEE.Settings, k, v)
	}
	if e.t.Untried {
		d.TEE.Settings = withEntry(d.TEE.Settings, "template", "written from the documentation; the authors of teescope never ran it")
	}
	for k, v := range e.versions {
		d.Software.Versions = withEntry(d.Software.Versions, k, v)
	}
	d.Software.CachePolicy = "as found"
	if e.t.LibraryOS {
		if d.Software.Kernel != "" {
			d.TEE.Settings = withEntry(d.TEE.Settings, "kernel that programs see", d.Software.Kernel)
		}
		for _, field := range []string{"software.kernel", "software.cmdline", "software.clock_source", "software.limits", "software.libc", "hardware.transparent_hugepage", "hardware.swap_bytes"} {
			d.Missing = withEntry(d.Missing, field, "the library OS answers for the kernel")
		}
	}
	for _, m := range []map[string]string{e.unversioned, e.unread} {
		for k, v := range m {
			d.Missing = withEntry(d.Missing, k, v)
		}
	}
	switch {
	case e.t.TEE.Kind == "none":
	case len(e.prepared) == 0:
		for _, field := range []string{"tee.active", "tee.debug", "tee.settings"} {
			d.Missing = withEntry(d.Missing, field, "no job has been prepared yet, and the evidence belongs to a job")
		}
	case e.settings["debug"] == "":
		d.TEE.Settings = withEntry(d.TEE.Settings, "debug", "unknown")
		why := "the template has no rule for the debug state"
		if e.t.TEE.Debug != nil {
			why = e.t.TEE.Debug.From + " does not report the debug state"
		}
		d.Missing = withEntry(d.Missing, "tee.debug", why)
	}
	return nil
}

func (e *templateEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if err := e.placeFiles(job.Files); err != nil {
		return bench.Outcome{}, err
	}
	s, err := e.prepare(ctx, job)
	if err != nil {
		return bench.Outcome{}, err
	}
	c, err := e.t.run(s)
	if err != nil {
		return bench.Outcome{}, err
	}
	out, err := runBoth(ctx, ctx, e.h, c, e.outsideCommand(job), job)
	out.Whole = e.t.Inside.Work == "" && e.t.Start == nil
	if out.Processes = slices.Clone(e.t.Processes); out.Processes == nil {
		out.Processes = comm(c)
	}
	for i, name := range out.Processes {
		if name == "{program}" {
			out.Processes[i] = strings.Join(comm(s.inside), "")
		}
	}
	return out, err
}

// Idle has nothing to freeze: no enclave outlives its run, and a waiting service stays as it is
// in normal use.
func (e *templateEnv) Idle(context.Context, bool) error { return nil }

func (e *templateEnv) Close() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	if e.service != nil {
		for _, st := range e.t.Stop {
			c, err := e.jobless().step(st)
			if err == nil {
				var out host.Output
				if out, err = e.h.Exec(ctx, c); err != nil {
					err = fmt.Errorf("stop: %w%s", err, lastWords(out))
				}
			}
			errs = append(errs, err)
		}
		e.service.Stop()
		e.service = nil
	}
	if e.end != nil {
		e.end()
	}
	return errors.Join(append(errs, e.h.RemoveAll(e.jobs), e.remove())...)
}
