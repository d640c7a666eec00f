package prices

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// Unit is what one event costs, in seconds.
type Unit struct {
	Event string `json:"event"`
	// Seconds is the median of the batches, Low and High what 95 % of them lie
	// between: the spread of the cost over times of a few hundred microseconds, which
	// no more batches make smaller.
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// Batches is their number, Operations that of the events in all of them.
	Batches    int    `json:"batches"`
	Operations uint64 `json:"operations"`
	// Method says in a sentence what was measured and what is part of it.
	Method string `json:"method"`
}

// Missing is a unit that could not be measured.
type Missing struct {
	Event  string `json:"event"`
	Reason string `json:"reason"`
}

// Calibration is the outcome of one measurement of all units.
type Calibration struct {
	// Version is that of the methods: costs do not compare across it.
	Version     int                 `json:"version"`
	Fingerprint machine.Fingerprint `json:"fingerprint"`
	// Traced are the tracepoints on which programs ran during the measurement: what they took is
	// part of the costs.
	Traced     []string  `json:"traced,omitempty"`
	MeasuredAt time.Time `json:"measured_at"`
	// Hurried: the machine was so busy that not everything could be measured.
	Hurried bool `json:"hurried,omitempty"`
	// CPUSeconds is what the measurement itself cost.
	CPUSeconds float64   `json:"cpu_seconds"`
	Units      []Unit    `json:"units"`
	Missing    []Missing `json:"missing"`
}

// Version of the methods of this program.
const Version = 1

// fileName is where a data folder keeps its calibration.
const fileName = "calibration.json"

// mostText is more than it has in bytes.
const mostText = 1 << 20

// file is its path. The host's paths begin at its root, a user's folder may be
// relative to the current one.
func file(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	return filepath.Join(dir, fileName), err
}

// Unit returns the cost of an event.
func (c *Calibration) Unit(event string) (Unit, bool) {
	for _, u := range c.Units {
		if u.Event == event {
			return u, true
		}
	}
	return Unit{}, false
}

// Load reads the calibration of a data folder. There is none, fs.ErrNotExist, or
// a file that says no costs is an error; a new measurement replaces either. The
// host is the one that this process runs on, as the folder is in its own tree.
func Load(local *host.Host, dir string) (*Calibration, error) {
	name, err := file(dir)
	if err != nil {
		return nil, err
	}
	f, _, err := local.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostText)) // one that goes on is cut off, and no JSON
	if err != nil {
		return nil, err
	}
	c := new(Calibration)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	if c.Version != Version {
		return nil, fmt.Errorf("parse %s: it is of version %d, want %d", name, c.Version, Version)
	}
	for _, u := range c.Units {
		if !(u.Seconds > 0 && u.Low <= u.Seconds && u.Seconds <= u.High) || u.Low < 0 || math.IsInf(u.High, 0) {
			return nil, fmt.Errorf("parse %s: the cost of %.40q is %g s, between %g and %g", name, u.Event, u.Seconds, u.Low, u.High)
		}
	}
	return c, nil
}

// Store writes the calibration into a data folder. A crash during the write leaves a file
// that Load refuses, so that the next start measures again.
func (c *Calibration) Store(local *host.Host, dir string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write the calibration: %w", err)
	}
	name, err := file(dir)
	if err == nil {
		err = local.WriteFile(name, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the calibration: %w", err)
	}
	return nil
}

// Stale says why a calibration does not hold on a machine any more, or is worth
// another try; "" where it holds.
func (c *Calibration) Stale(now machine.Fingerprint) string {
	switch why := c.Fingerprint.Differs(now); {
	case why != "":
		return why
	case len(c.Traced) > 0:
		return "they were measured while programs ran on " + strings.Join(c.Traced, ", ")
	case c.Hurried:
		return "the machine was too busy to measure all of them"
	}
	return ""
}

// patience bounds a measurement on a machine that has no time for it.
var patience = host.Patience(10 * time.Second)

// Measure measures every unit on the machine that this process runs on. It takes
// about a second of one core; a machine that has none to spare within ten
// seconds lacks units, which name that as their reason. An error means that
// nothing could be measured, or that ctx ended. traced is kept with the outcome.
func Measure(ctx context.Context, local *host.Host, f machine.Fingerprint, traced []string) (*Calibration, error) {
	return MeasureWithin(ctx, local, f, traced, patience)
}

// MeasureWithin is Measure for a caller with less than ten seconds to spare.
func MeasureWithin(ctx context.Context, local *host.Host, f machine.Fingerprint, traced []string, most time.Duration) (*Calibration, error) {
	c := &Calibration{Version: Version, Fingerprint: f, Traced: traced, MeasuredAt: local.Now().UTC().Truncate(time.Second)}
	runs, none := jobs(local) // which may take a second: the signature of an enclave
	limited, stop := context.WithTimeout(ctx, most)
	defer stop()
	w, err := newWorker(limited, local, most)
	if err != nil {
		return nil, err
	}
	defer w.close()
	// In rounds, so that a moment in which something else is up spoils a third of
	// each unit's batches, and not all of one's.
	for range rounds {
		for name, args := range runs {
			if limited.Err() == nil {
				w.run(name, args)
			}
		}
	}
	for _, p := range All {
		u, err := Unit{}, none[p.Event]
		if err == nil {
			u, err = p.unit(w)
		}
		if err != nil {
			c.Missing = append(c.Missing, Missing{p.Event, err.Error()})
			continue
		}
		u.Event, u.Method = p.Event, p.method
		c.Units = append(c.Units, u)
	}
	c.CPUSeconds = w.cpu.Seconds()
	c.Hurried = limited.Err() != nil
	switch err := ctx.Err(); {
	case err != nil:
		return nil, fmt.Errorf("calibrate: %w", err)
	case len(c.Units) == 0:
		return nil, fmt.Errorf("calibrate: nothing could be measured: %s", c.Missing[0].Reason)
	}
	return c, nil
}
