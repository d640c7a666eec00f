package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var fullDisks = part{name: "full", cases: 200, begin: beginFullDisks,
	doc: "the disk of a process that records is filled and freed (tmpfs of 24 to 64 MiB); half of the processes are then killed (-9) and started on a full disk"}

func beginFullDisks(ctx context.Context, dir string, _ int) (func(int, *rand.Rand) (outcome, error), error) {
	mount := filepath.Join(dir, "small")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		return nil, err
	}
	return func(_ int, rnd *rand.Rand) (o outcome, err error) {
		size, kill := 24+rnd.IntN(40), rnd.IntN(2) == 0
		o.What = fmt.Sprintf("a disk of %d MiB, killed while it is full: %v", size, kill)
		if err := unix.Mount("tmpfs", mount, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
			return o, fmt.Errorf("mount a small disk: %w: it needs root", err)
		}
		defer func() { err = errors.Join(err, unix.Unmount(mount, 0)) }()
		o.Lost, err = fillDisk(ctx, filepath.Join(mount, "data"), filepath.Join(mount, "filler"), kill)
		return o, err
	}, nil
}

// fillDisk fills a disk under a process that records, until it refuses rounds, and frees it, until it stores them again.
func fillDisk(ctx context.Context, data, filler string, kill bool) (lost string, err error) {
	r, err := startRecorder(data, 0)
	if err != nil {
		return "", err
	}
	defer func() { r.kill() }()
	if err := r.await(20, 0); err != nil {
		return "", err
	}
	if err := fillUp(filler); err != nil {
		return "", err
	}
	if err := r.await(0, 5); err != nil {
		return "", err
	}
	var acked []int
	next := 0
	if kill {
		acked, next = r.kill()
		if r, err = startRecorder(data, next); err != nil {
			return "", err
		}
		// On a full disk it says why it does not start, or starts and refuses.
		if err := r.await(0, 1); err != nil && !containsAny(err.Error(), "free some space", "nearly full") {
			return "", err
		}
	}
	if err := os.Remove(filler); err != nil {
		return "", err
	}
	if r.failure != "" { // it did not start
		r.kill()
		if r, err = startRecorder(data, next); err != nil {
			return "", err
		}
	}
	if err := r.await(20, 0); err != nil {
		return "", fmt.Errorf("with free space again: %w", err)
	}
	more, end := r.kill()
	return check(ctx, data, append(acked, more...), end)
}

// fillUp writes a file until the disk is full.
func fillUp(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		size /= 2
	}
	return nil
}
