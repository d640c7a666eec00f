package workloads

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// microJob runs a mode of the tiny worker (folder workloads/micro).
func microJob(args ...string) (bench.Job, error) {
	if micro.Program == nil {
		return bench.Job{}, fmt.Errorf("no tiny worker was built for %s: build workloads/micro/*.c with a static C compiler for it, add micro_%s.go next to micro_amd64.go, and build teescope again",
			runtime.GOARCH, runtime.GOARCH)
	}
	return bench.Job{
		Inside: host.Cmd{Argv: append([]string{"{work}/micro"}, args...)},
		Files:  []bench.File{{Name: "micro", Data: micro.Program, Exec: true}},
	}, nil
}

// digest identifies completed work by words that describe all of it.
func digest(words ...string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(words, "\x00"))))
}
