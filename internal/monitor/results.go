//go:build linux

package monitor

import (
	"errors"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
	"github.com/teescope/teescope/internal/web"
)

// shelf is the archive of the page's results, with what is proved of their origin.
type shelf struct {
	*result.Archive
	judging verdict.Options
	// known are the origins of the documents that List returned last. It returns the same
	// document until its file changes.
	known locked.Value[map[*result.Experiment]web.Origin]
}

// origin says what is proved of where a result was made.
func (s *shelf) origin(id string) web.Origin {
	doc, err := s.Bytes(id)
	if err != nil {
		return web.Origin{Word: "unknown", Line: "unknown: " + contain.OneLine(err)}
	}
	r, err := proof.Verify(doc, proof.Options{Now: host.Local().Now()})
	if err != nil {
		return web.Origin{Word: "unknown", Line: "unknown: " + contain.OneLine(err)}
	}
	return web.Origin{Word: r.Word(), Line: r.Line}
}

// origins joins what is proved of several results.
func (s *shelf) origins(ids []string) web.Origin {
	var words, lines []string
	for _, id := range ids {
		o := s.origin(id)
		if !slices.Contains(words, o.Word) {
			words = append(words, o.Word)
		}
		if !slices.Contains(lines, o.Line) {
			lines = append(lines, o.Line)
		}
	}
	return web.Origin{Word: strings.Join(words, ", "), Line: strings.Join(lines, "; ")}
}

// summaries lists the results for the page.
func (s *shelf) summaries() web.Results {
	es, err := s.List()
	out := web.Results{Results: []web.ResultSummary{}}
	var all interface{ Unwrap() []error }
	switch {
	case errors.As(err, &all):
		for _, e := range all.Unwrap() {
			out.Problems = append(out.Problems, contain.OneLine(e))
		}
	case err != nil:
		out.Problems = []string{contain.OneLine(err)}
	}
	known := s.known.Lock()
	defer s.known.Unlock()
	now := map[*result.Experiment]web.Origin{}
	for _, e := range es {
		o, ok := (*known)[e]
		if !ok {
			o = s.origin(e.ID)
		}
		now[e] = o
		r := s.summary(e)
		r.Origin = o
		out.Results = append(out.Results, r)
	}
	*known = now
	return out
}

func (s *shelf) summary(e *result.Experiment) web.ResultSummary {
	r := web.ResultSummary{ID: e.ID, Name: e.Name, Workload: e.Workload.Name, Started: e.StartedAt, Grade: e.Design.Grade,
		Pairs: e.Design.PairsPlanned, Runs: len(e.Runs), Calibration: e.Design.Calibration, Comparisons: []result.Comparison{}}
	if e.EndedAt != nil {
		r.Ended = *e.EndedAt
	}
	if e.Commit != nil {
		r.Commit = e.Commit.ID
	}
	for _, v := range e.Environments {
		r.Environments = append(r.Environments, v.ID)
	}
	for _, c := range e.Cases {
		r.Cases = append(r.Cases, c.ID)
	}
	for _, c := range verdict.Restated(e, s.judging.Catalog).Comparisons {
		if c.Primary {
			r.Comparisons = append(r.Comparisons, c)
		}
	}
	return r
}

// document returns a result as the page shows it.
func (s *shelf) document(id string) (*result.Experiment, error) {
	e, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	return verdict.Restated(e, s.judging.Catalog), nil
}

// sideBySide joins results into one document.
func (s *shelf) sideBySide(ids []string) (*result.Experiment, error) {
	var es []*result.Experiment
	for _, id := range ids {
		e, err := s.Get(id)
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return verdict.Across(es, s.judging)
}
