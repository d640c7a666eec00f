//go:build linux

// Package top shows in a terminal what is wrong on a machine, what its processes use, and where the time of one of them
// goes.
package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
)

// NewModel asks for the first numbers. It asks again after each interval once the result runs; ctx ends it. The filter selects
// processes by their names, nil all.
func NewModel(ctx context.Context, b client.Backend, interval time.Duration, filter *metric.NamePattern) (Model, error) {
	s, err := takeSnapshot(ctx, b)
	if err != nil {
		return Model{}, err
	}
	m := Model{every: interval, filter: filter, width: usualWidth, height: usualHeight, backend: b, ctx: ctx, theme: themeOf(true), snapshot: s}
	m.remember(s)
	return m, nil
}

// PrintTables writes a table now and after each interval, until an answer or a write fails.
func (m Model) PrintTables(w io.Writer) error {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, m.Table()); err != nil {
			return err
		}
		select {
		case <-m.ctx.Done():
			return m.ctx.Err()
		case <-tick.C:
		}
		var err error
		if m.snapshot, err = takeSnapshot(m.ctx, m.backend); err != nil {
			return err
		}
		m.remember(m.snapshot)
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
}

// Run shows the live view on a terminal and acts on its keys until the user ends it.
func (m Model) Run(stdin io.Reader, stdout io.Writer) error {
	defer sized(stdout)()
	p := tea.NewProgram(m, tea.WithContext(m.ctx), tea.WithInput(stdin), tea.WithOutput(stdout), tea.WithoutSignalHandler(), tea.WithFPS(drawn))
	_, err := p.Run()
	if m.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // a signal has ended it
	}
	return err
}

// drawn is how often a second the screen is looked at for changes: each look wakes the process up.
const drawn = 10

// usualWidth and usualHeight are the size of a terminal that does not say its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// sized gives a terminal without a size, as one of script(1) in a pipe, the usual one, and returns a function that takes it
// back: nothing is drawn on a screen of 0x0.
func sized(stdout io.Writer) (back func()) {
	f, ok := stdout.(interface{ Fd() uintptr })
	if !ok {
		return func() {}
	}
	fd := int(f.Fd())
	was, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil || was.Col > 0 && was.Row > 0 {
		return func() {}
	}
	usual := unix.Winsize{Col: usualWidth, Row: usualHeight}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &usual); err != nil {
		return func() {}
	}
	return func() {
		if now, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && *now == usual { // else somebody resized it
			_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, was)
		}
	}
}
