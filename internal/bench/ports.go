package bench

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// portNames are the placeholders of a job's ports.
var portNames = []string{"{port}", "{port2}", "{port3}"}

// onPorts replaces the placeholders of the server's address and ports, in a copy of the
// job.
func onPorts(job Job, address string, ports []int) Job {
	pairs := []string{"{host}", address}
	for i, p := range ports {
		pairs = append(pairs, portNames[i], strconv.Itoa(p))
	}
	r := strings.NewReplacer(pairs...)
	job.Inside = replaced(job.Inside, r)
	if job.Outside != nil {
		c := replaced(*job.Outside, r)
		job.Outside = &c
	}
	job.Files = slices.Clone(job.Files)
	for i, f := range job.Files {
		if f.Data != nil && !f.Exec {
			job.Files[i].Data = []byte(r.Replace(string(f.Data)))
		}
	}
	return job
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
