package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// image is an environment with programs of its own, whose worker says which of them it lacks.
type image struct {
	kernel
	lacks []string
	fails error
	asked []string
}

func (i *image) Run(_ context.Context, j Job) (Outcome, error) {
	i.asked = j.Inside.Argv[2:]
	lacks := slices.DeleteFunc(slices.Clone(i.asked), func(p string) bool { return !slices.Contains(i.lacks, p) })
	err := i.fails
	if len(lacks) > 0 {
		err = errors.New("exit status 1")
	}
	return Outcome{Inside: host.Output{Stdout: []byte(strings.Join(lacks, "\n"))}}, err
}

// TestImageLacks: an image without a shell, or without the server, is refused in one line before the runs; what lies on this
// machine, or comes with the job, is not looked for in it.
func TestImageLacks(t *testing.T) {
	here, elsewhere := &Launcher{}, &Launcher{Elsewhere: func(Params) bool { return true }}
	shell := Job{Inside: host.Cmd{Argv: []string{"sh", "-c", "exec redis-server"}}, Programs: []string{"redis-server", "/usr/lib/redis/*"}}
	postgres := Job{Inside: host.Cmd{Argv: []string{"sh", "{work}/postgres.sh", "{work}"}}, Programs: []string{"id", "/bin/sh", "/usr/lib/postgresql/*/bin/initdb"}}
	script := Job{Inside: host.Cmd{Argv: []string{"{work}/run.sh", "once"}}, Files: []File{{Name: "run.sh", Data: []byte("#! /bin/sh -e\nexit 3\n"), Exec: true}}}
	empty := Job{Inside: host.Cmd{Argv: []string{"{work}/run.sh"}}, Files: []File{{Name: "run.sh", Data: []byte("#!\n"), Exec: true}}}
	own := Job{Inside: host.Cmd{Argv: []string{"{work}/teescope-work", "serve"}}}
	for name, c := range map[string]struct {
		launcher *Launcher
		job      Job
		lacks    []string
		fails    error
		asked    string
		want     string
	}{
		"has all":            {launcher: elsewhere, job: shell, asked: "sh redis-server"},
		"without a shell":    {launcher: elsewhere, job: shell, lacks: []string{"sh"}, asked: "sh redis-server", want: "the environment lacks sh: install what is missing, or name an image that has it"},
		"with nothing":       {launcher: elsewhere, job: shell, lacks: []string{"sh", "redis-server"}, asked: "sh redis-server", want: "the environment lacks sh, redis-server: install what is missing"},
		"only own programs":  {launcher: elsewhere, job: shell, fails: errors.New("exec format error"), asked: "sh redis-server"},
		"what needs a shell": {launcher: elsewhere, job: postgres, lacks: []string{"sh", "/bin/sh"}, asked: "sh id /bin/sh", want: `the environment lacks sh, /bin/sh: install what is missing, or name an image that has it (the job runs "sh {work}/postgres.sh {work}")`},
		"its own script":     {launcher: elsewhere, job: script, lacks: []string{"/bin/sh"}, asked: "/bin/sh", want: `the environment lacks /bin/sh: install what is missing, or name an image that has it (the job runs "{work}/run.sh once")`},
		"no interpreter":     {launcher: elsewhere, job: empty},
		"comes with the job": {launcher: elsewhere, job: own, lacks: []string{"sh"}},
		"this machine":       {launcher: here, job: shell, lacks: []string{"sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := &image{lacks: c.lacks, fails: c.fails}
			err := (&session{}).has(t.Context(), &Arm{Launcher: c.launcher}, i, c.job)
			if got := strings.Join(i.asked, " "); got != c.asked {
				t.Errorf("%s: asked for %q, want %q", name, got, c.asked)
			}
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}
