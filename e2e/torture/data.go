package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/store/repair"
)

// The data: rounds of some series, each value unique, so that a wrong value, series or time is seen.

const (
	seriesOfRound = 20
	sessions      = 6
	perSession    = 80
	between       = 30 * time.Second
)

var counted = &metric.Desc{Name: "torture_rounds", Kind: metric.Gauge, Labels: []string{"series"}, Help: "Number of the round and of the series."}

// first is the time of round 0.
var first = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func timeOf(round int) time.Time { return first.Add(time.Duration(round) * between) }

func valueOf(series, round int) float64 { return float64(series*1_000_000 + round + 1) }

func samplesOf(round int) (out []metric.Sample) {
	for s := range seriesOfRound {
		out = append(out, metric.Sample{Desc: counted, Labels: []string{strconv.Itoa(s)}, Value: valueOf(s, round)})
	}
	return out
}

func options(dir string) store.Options {
	o := store.DefaultOptions()
	o.Dir, o.Instance, o.Interval, o.RuleInterval = dir, "here", between, time.Hour
	o.Reserve, o.MinFree, o.SyncInterval = 1<<20, 4<<20, 200*time.Millisecond
	return o
}

// record appends rounds, and returns those that were acknowledged.
func record(s *store.Store, from, to int) (acked []int) {
	for i := from; i < to; i++ {
		if s.Append(timeOf(i), samplesOf(i)) == nil {
			acked = append(acked, i)
		}
	}
	return acked
}

// soundFolder makes a data folder with blocks, a log of several segments and head chunks, and returns its rounds.
func soundFolder(ctx context.Context, dir string) (acked []int, err error) {
	for n := range sessions {
		s, err := store.Open(ctx, options(dir))
		if err != nil {
			return nil, err
		}
		acked = append(acked, record(s, n*perSession, (n+1)*perSession)...)
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	if len(acked) != sessions*perSession {
		return nil, fmt.Errorf("%d of %d rounds are recorded", len(acked), sessions*perSession)
	}
	return acked, nil
}

// found returns the rounds that a store has in whole. A value that is wrong is an error.
func found(ctx context.Context, s *store.Store, rounds int) (map[int]bool, error) {
	whole := map[int]int{}
	const chunk = 500
	for from := 0; from < rounds; from += chunk {
		got, err := s.QueryRange(ctx, "last_over_time(torture_rounds[1s])", timeOf(from), timeOf(min(from+chunk, rounds)-1), between)
		if err != nil {
			return nil, err
		}
		for _, line := range got {
			series, err := strconv.Atoi(line.Labels["series"])
			if err != nil {
				return nil, fmt.Errorf("a series that nobody wrote: %v", line.Labels)
			}
			for i, at := range line.At {
				round := int(at.Sub(first) / between)
				if line.Values[i] != valueOf(series, round) {
					return nil, fmt.Errorf("series %d has %v in round %d, want %v", series, line.Values[i], round, valueOf(series, round))
				}
				whole[round]++
			}
		}
	}
	out := map[int]bool{}
	for round, n := range whole {
		out[round] = n == seriesOfRound
	}
	return out, nil
}

// check opens a store and looks for rounds. What is missing has to be in a loss that the store states.
func check(ctx context.Context, dir string, acked []int, rounds int) (lost string, err error) {
	s, err := store.Open(ctx, options(dir))
	if err != nil {
		return "", fmt.Errorf("open it afterwards: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	have, err := found(ctx, s, rounds)
	if err != nil {
		return "", err
	}
	losses := s.Losses()
	missing := 0
	for _, round := range acked {
		if have[round] {
			continue
		}
		if missing++; !isCovered(losses, timeOf(round)) {
			return "", fmt.Errorf("round %d (%s) was acknowledged and is not there; the store says %v", round, timeOf(round).Format(time.TimeOnly), losses)
		}
	}
	if missing > 0 {
		lost = fmt.Sprintf("%d rounds", missing)
	}
	return lost, nil
}

// isCovered reports whether a loss covers a time.
func isCovered(losses []repair.Loss, at time.Time) bool {
	for _, l := range losses {
		if l.Lost != "nothing" && (l.From.IsZero() || !at.Before(l.From.Add(-between))) && (l.To.IsZero() || !at.After(l.To.Add(between))) {
			return true
		}
	}
	return false
}

// copyFolder copies a data folder.
func copyFolder(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// files lists the regular files of a folder, with their sizes, without those that are empty.
func files(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if fi, err := d.Info(); err == nil && fi.Size() > 0 {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}
