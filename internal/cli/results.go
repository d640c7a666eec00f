package cli

import (
	"errors"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
	"github.com/teescope/teescope/internal/web"
)

// summaries lists the results of an archive for the page.
func summaries(a *result.Archive) web.Results {
	es, err := a.List()
	out := web.Results{Results: []web.ResultSummary{}}
	var all interface{ Unwrap() []error }
	switch {
	case errors.As(err, &all):
		for _, e := range all.Unwrap() {
			out.Problems = append(out.Problems, oneLine(e))
		}
	case err != nil:
		out.Problems = []string{oneLine(err)}
	}
	for _, e := range es {
		out.Results = append(out.Results, summary(e))
	}
	return out
}

func summary(e *result.Experiment) web.ResultSummary {
	s := web.ResultSummary{ID: e.ID, Name: e.Name, Workload: e.Workload.Name, Started: e.StartedAt, Grade: e.Design.Grade,
		Pairs: e.Design.PairsPlanned, Runs: len(e.Runs), Calibration: e.Design.Calibration, Comparisons: []result.Comparison{}}
	if e.EndedAt != nil {
		s.Ended = *e.EndedAt
	}
	if e.Commit != nil {
		s.Commit = e.Commit.ID
	}
	for _, v := range e.Environments {
		s.Environments = append(s.Environments, v.ID)
	}
	for _, c := range e.Cases {
		s.Cases = append(s.Cases, c.ID)
	}
	for _, c := range e.Comparisons {
		if c.Primary {
			s.Comparisons = append(s.Comparisons, c)
		}
	}
	return s
}

// sideBySide joins results of an archive into one document.
func sideBySide(a *result.Archive, ids []string) (*result.Experiment, error) {
	var es []*result.Experiment
	for _, id := range ids {
		e, err := a.Get(id)
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return verdict.Across(es, judged())
}
