package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/teescope/teescope/internal/host"
)

// reaches checks that the load on an arm reaches this arm: a program inside answers with a word
// that only it knows, at the address of the arm's servers. All arms hold the same data, so a load
// that reached another one would get only right answers. An environment that does not run the
// program, as one that accepts only its own, gives the reason why it was not checked.
func (s *session) reaches(ctx context.Context, a *Arm, env Environment) (unchecked string, err error) {
	if !s.loaded(a) {
		return "", nil
	}
	word := rand.Text()
	work := []string{"{work}/teescope-work", "identity", "-word", word}
	job := Job{
		Inside:  host.Cmd{Argv: append(work[:len(work):len(work)], "-listen", "{host}:{port}"), Ready: "ready"},
		Outside: &host.Cmd{Argv: append(work[:len(work):len(work)], "-address", "{host}:{port}")},
		Files:   []File{{Name: "teescope-work", From: Worker, Exec: true}},
	}
	if job, err = s.placed(ctx, job, a.Label); err != nil {
		return "", err
	}
	rctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	out, err := env.Run(rctx, job)
	switch {
	case err == nil || ctx.Err() != nil:
		return "", ctx.Err()
	case len(bytes.TrimSpace(out.Outside.Stderr)) == 0:
		return host.Because(err, out.Inside, out.Outside).Error(), nil
	}
	return "", fmt.Errorf("the load does not reach the servers started there (%s): %w", s.reached[a.Label].way, host.Because(err, out.Outside))
}
