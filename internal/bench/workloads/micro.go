package workloads

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// formParam chooses the form of the tiny worker. It is a subject, as the work is the same.
var formParam = bench.Param{Name: "form", Default: micro.Static, Values: []string{micro.Static, micro.Dynamic}, Subject: true,
	Doc: "How the worker is linked: static, or dynamic with the GNU C library (2.34 or later), as most programs are. Runtimes that replace the C library, like Gramine, answer the system calls of a dynamic program in their own library. They must trap the system calls of a static program, which takes longer."}

// microJob runs a mode of the static tiny worker (folder workloads/micro).
func microJob(args ...string) (bench.Job, error) { return formJob(micro.Static, args...) }

// formJob runs a mode of the tiny worker in a form.
func formJob(form string, args ...string) (bench.Job, error) {
	if err := micro.Missing(form); err != nil {
		return bench.Job{}, err
	}
	name := "micro"
	if form == micro.Dynamic {
		name = "micro-dynamic"
	}
	return bench.Job{
		Inside: host.Cmd{Argv: append([]string{"{work}/" + name}, args...)},
		Files:  []bench.File{{Name: name, Data: micro.In(form), Exec: true}},
	}, nil
}

// digest identifies completed work by words that describe all of it.
func digest(words ...string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(words, "\x00"))))
}
