package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/result"
)

var bits = part{name: "bits", cases: 500, begin: beginBits,
	doc: "a bit of a file is turned, or the file is cut, zeroed in part or extended by garbage: log, head chunks, blocks, history of findings, queues, results"}

func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// damage changes a file, and says how. A file that is only cut at a place where its format allows it looks sound.
func damage(path string, rnd *rand.Rand) (what string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	at := rnd.IntN(len(b))
	switch rnd.IntN(4) {
	case 0:
		b[at] ^= 1 << rnd.IntN(8)
		what = fmt.Sprintf("a bit turned at byte %d of %d", at, len(b))
	case 1:
		b = b[:at]
		what = fmt.Sprintf("cut to %d bytes", at)
	case 2:
		for i := at; i < min(len(b), at+4096); i++ {
			b[i] = 0
		}
		what = fmt.Sprintf("zeros from byte %d of %d", at, len(b))
	default:
		for range 1 + rnd.IntN(5000) {
			b = append(b, byte(rnd.UintN(256)))
		}
		what = fmt.Sprintf("garbage after %d bytes", at)
	}
	return what, os.WriteFile(path, b, 0o644)
}

func beginBits(ctx context.Context, dir string, _ int) (func(int, *rand.Rand) (outcome, error), error) {
	sound, work := filepath.Join(dir, "sound"), filepath.Join(dir, "work")
	acked, err := soundFolder(ctx, sound)
	if err != nil {
		return nil, err
	}
	names, err := files(sound)
	if err != nil {
		return nil, err
	}
	return func(number int, rnd *rand.Rand) (o outcome, err error) {
		switch number % 5 {
		case 0:
			return damageHistory(dir, rnd)
		case 1:
			return damageResult(dir, rnd)
		}
		if err := copyFolder(sound, work); err != nil {
			return o, err
		}
		rel, err := filepath.Rel(sound, names[rnd.IntN(len(names))])
		if err != nil {
			return o, err
		}
		how, err := damage(filepath.Join(work, rel), rnd)
		o.What = rel + ": " + how
		if err != nil {
			return o, err
		}
		o.Lost, err = check(ctx, work, acked, sessions*perSession)
		if strings.Contains(how, "cut to") && err != nil && strings.HasPrefix(rel, "wal") { // a log that ends after a whole record is sound, and what follows in it was lost with the cut
			o.Lost, err = "what was cut off", nil
		}
		return o, err
	}, nil
}

// spoken collects what is logged.
type spoken struct {
	slog.Handler
	said *[]string
}

func (s spoken) Handle(_ context.Context, r slog.Record) error {
	*s.said = append(*s.said, r.Message)
	return nil
}

func (s spoken) Enabled(context.Context, slog.Level) bool { return true }

// damageHistory damages the history of findings. Those that are gone have to be said; the others are as they were.
func damageHistory(dir string, rnd *rand.Rand) (o outcome, err error) {
	path := filepath.Join(dir, "findings.jsonl")
	if err := os.RemoveAll(path); err != nil {
		return o, err
	}
	var said []string
	options := findings.HistoryOptions{Path: path, Max: 100, Retention: 24 * time.Hour, Now: time.Now, Log: slog.New(spoken{slog.DiscardHandler, &said})}
	h, _, err := findings.OpenHistory(options)
	if err != nil {
		return o, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	was := map[string]findings.Record{}
	var open []findings.Record
	for i := range 10 {
		r := findings.Record{Finding: findings.Finding{Rule: "torture", Subject: fmt.Sprint("number ", i), Title: "A title.", Severity: findings.Warning},
			ID: fmt.Sprint("id", i), State: findings.Open, Since: now.Add(-time.Hour), LastSeen: now}
		open, was[r.ID] = append(open, r), r
	}
	h.WriteChanges(open, open)
	if err := h.Close(); err != nil {
		return o, err
	}
	how, err := damage(path, rnd)
	o.What = "findings.jsonl: " + how
	if err != nil {
		return o, err
	}
	sound := strings.Contains(how, "cut to") && wholeLines(path) // what followed was lost with the cut
	h, have, err := findings.OpenHistory(options)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, r := range have {
		if was[r.ID].Subject != r.Subject && len(said) == 0 {
			return o, fmt.Errorf("finding %s is about %q, and was about %q", r.ID, r.Subject, was[r.ID].Subject)
		}
	}
	if gone := len(was) - len(have); gone > 0 {
		o.Lost = fmt.Sprintf("%d findings", gone)
		if len(said) == 0 && !sound {
			return o, fmt.Errorf("%d findings are gone, and nothing is said", gone)
		}
	}
	return o, nil
}

// wholeLines is whether a file ends after a whole line, or is empty.
func wholeLines(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && (len(b) == 0 || b[len(b)-1] == '\n')
}

// damageResult damages a result. It is refused, or says the same as before.
func damageResult(dir string, rnd *rand.Rand) (o outcome, err error) {
	path := filepath.Join(dir, "result.json")
	if err := os.RemoveAll(path); err != nil {
		return o, err
	}
	e := sample()
	if err := result.Write(path, e); err != nil {
		return o, err
	}
	how, err := damage(path, rnd)
	o.What = "result: " + how
	if err != nil {
		return o, err
	}
	got, err := result.Read(path)
	if err != nil {
		o.Lost = "the result"
		return o, nil //nolint:nilerror // it is refused
	}
	a, err := json.Marshal(e)
	if err != nil {
		return o, err
	}
	b, err := json.Marshal(got)
	if err != nil {
		return o, err
	}
	if !reflect.DeepEqual(a, b) {
		return o, errors.New("it is believed, and says something else")
	}
	return o, nil
}

// sample is a small result.
func sample() *result.Experiment {
	e := &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: "4f6c0c9e-0000-4000-8000-000000000001", Name: "torture",
		StartedAt:    time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Design:       result.Design{Kind: result.Interleaved, PairsPlanned: 6, Primary: "x_seconds"},
		Workload:     result.Workload{Name: "null", Version: 1, Metrics: []result.MetricDesc{{Name: "x_seconds", Unit: "seconds", Better: "lower"}}},
		Cases:        []result.Case{{ID: "default", Identity: "sha256:00"}},
		Environments: []result.Environment{{ID: "native", Role: result.Baseline, Launcher: "native"}},
	}
	for i := range 6 {
		v := float64(i) + 0.5
		e.Runs = append(e.Runs, result.Run{ID: fmt.Sprintf("p%02d-default-native", i), Env: "native", Case: "default", Pair: i, Status: result.OK,
			Metrics: []result.Metric{{Name: "x_seconds", Value: &v, Source: result.Measured}}})
	}
	return e
}
