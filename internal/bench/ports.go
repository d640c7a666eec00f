package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// portNames are the placeholders of a job's ports.
var portNames = []string{"{port}", "{port2}", "{port3}"}

// reach is where servers of an arm listen, where a load reaches them, and the way between.
type reach struct {
	inside, outside Place
	way             string // "": there is no load
}

// reach finds the way to an arm's servers.
func (s *session) reach(ctx context.Context, a *Arm, env Environment) (r reach, err error) {
	offered := Place{Host: s.o.Client.server()}
	if offered.Ports, err = s.o.Host.FreePorts(len(portNames)); err != nil {
		return r, fmt.Errorf("environment %s: %w", a.Label, err)
	}
	r = reach{inside: offered, outside: offered}
	if !s.loaded(a) {
		return r, nil
	}
	far, ok := env.(Reached)
	if !ok {
		r.way = "loopback"
		if s.o.Client != nil {
			r.way = "from " + s.o.Client.Name
		}
		return r, nil
	}
	if r.inside, r.outside, r.way, err = far.Reach(ctx, offered); err != nil {
		return r, err
	}
	if s.o.Client != nil {
		r.way = "from " + s.o.Client.Name + ", then " + r.way
	}
	return r, nil
}

// loaded reports whether a load from outside is part of a case.
func (s *session) loaded(a *Arm) bool {
	return slices.ContainsFunc(s.Cases, func(c Case) bool {
		job, err := s.Workload.Job(s.params(&c, a))
		return err == nil && job.Outside != nil
	})
}

// fillIn replaces the placeholders of the server's address and ports, in a copy of the job.
func (r *reach) fillIn(job Job) Job {
	inside := r.inside.replacer()
	job.Inside = replaced(job.Inside, inside)
	if job.Outside != nil {
		c := replaced(*job.Outside, r.outside.replacer())
		job.Outside = &c
	}
	job.Files = slices.Clone(job.Files)
	for i, f := range job.Files {
		if f.Data != nil && !f.Exec {
			job.Files[i].Data = []byte(inside.Replace(string(f.Data)))
		}
	}
	return job
}

func (p Place) replacer() *strings.Replacer {
	pairs := []string{"{host}", p.Host}
	for i, port := range p.Ports {
		pairs = append(pairs, portNames[i], strconv.Itoa(port))
	}
	return strings.NewReplacer(pairs...)
}

func replaced(c host.Cmd, r *strings.Replacer) host.Cmd {
	c.Argv = slices.Clone(c.Argv)
	for i, a := range c.Argv {
		c.Argv[i] = r.Replace(a)
	}
	c.Env = maps.Clone(c.Env)
	for k, v := range c.Env {
		c.Env[k] = r.Replace(v)
	}
	return c
}
