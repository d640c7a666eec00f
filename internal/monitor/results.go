//go:build linux

package monitor

import (
	"errors"
	"maps"
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

// shelf is the archive of the page's results, with what is concluded from them and what is proved of their origin.
type shelf struct {
	*result.Archive
	judging verdict.Options
	// known are what the documents that List returned last say. It returns the same document until its file changes.
	known locked.Value[map[*result.Experiment]judgedResult]
}

// judgedResult is a document with what is concluded from its runs, as `teescope compare` does, and its origin.
type judgedResult struct {
	concluded *result.Experiment
	origin    web.Origin
}

// judged returns what a document says.
func (s *shelf) judged(e *result.Experiment) judgedResult {
	j, ok := (*s.known.Lock())[e]
	s.known.Unlock()
	if ok {
		return j
	}
	// This takes seconds for a large one, while others are asked for.
	j = judgedResult{verdict.Concluded(e, s.judging), s.origin(e.ID)}
	known := s.known.Lock()
	defer s.known.Unlock()
	if *known == nil {
		*known = map[*result.Experiment]judgedResult{}
	}
	(*known)[e] = j
	return j
}

// forget drops what is known of documents that are not listed any more.
func (s *shelf) forget(listed []*result.Experiment) {
	held := s.known.Lock()
	defer s.known.Unlock()
	maps.DeleteFunc(*held, func(e *result.Experiment, _ judgedResult) bool { return !slices.Contains(listed, e) })
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
	s.forget(es)
	for _, e := range es {
		j := s.judged(e)
		r := summary(j.concluded)
		r.Origin = j.origin
		out.Results = append(out.Results, r)
	}
	return out
}

func summary(e *result.Experiment) web.ResultSummary {
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
	for _, c := range e.Comparisons {
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
	return s.judged(e).concluded, nil
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
	return verdict.JoinResults(es, s.judging)
}
