package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// identityTime is how long the check may take; its client asks for half a minute.
var identityTime = host.Patience(3 * time.Minute)

// otherAnswers is the exit status of `teescope-work identity` where another program answered.
const otherAnswers = 3

// identityJob has a program inside that answers with a word, and one outside that asks for it.
func identityJob(word string) Job {
	work := []string{"{work}/teescope-work", "identity", "-word", word}
	return Job{
		Inside:  host.Cmd{Argv: append(work[:len(work):len(work)], "-listen", "{host}:{port}"), Ready: "ready"},
		Outside: &host.Cmd{Argv: append(work[:len(work):len(work)], "-address", "{host}:{port}")},
		Files:   []File{{Name: "teescope-work", From: Worker, Exec: true}},
	}
}

// reaches checks that the load on an arm reaches this arm: a program inside answers with a word
// that only it knows, at the address of the arm's servers. All arms hold the same data, so a load
// that reached another one would get only right answers. Only an answer of another program is an
// error. Without any answer, as from an environment that accepts only its own programs, it returns
// the reason why it was not checked.
func (s *session) reaches(ctx context.Context, a *Arm, env Environment) (unchecked string, err error) {
	if !s.loaded(a) {
		return "", nil
	}
	job, err := s.placed(ctx, identityJob(rand.Text()), a.Label)
	if err != nil {
		return "", err
	}
	rctx, cancel := context.WithTimeoutCause(ctx, identityTime, fmt.Errorf("the check took longer than %v", identityTime))
	defer cancel()
	out, err := env.Run(rctx, job)
	switch {
	case err == nil || ctx.Err() != nil:
		return "", ctx.Err()
	case out.Outside.Code != otherAnswers:
		if cause := context.Cause(rctx); cause != nil {
			err = cause
		}
		return "not checked whether the load reaches the servers in the environment: " + out.withCause(err).Error(), nil
	}
	return "", fmt.Errorf("the load does not reach the servers that were started in the environment (%s): %w", s.reached[a.Label].way, host.WithReason(err, out.Outside))
}
