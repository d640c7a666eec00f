package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// twice wraps an error twice, once among others.
func twice(err error) error {
	return fmt.Errorf("outer: %w", errors.Join(errors.New("before"), fmt.Errorf("inner: %w", err)))
}

// TestReasons: each fault is counted, and reported to the peer, as its kind, however deep it
// is. A fault that has the time limit as its cause is a timeout.
func TestReasons(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code byte
		n    func(*Counters) uint64
	}{
		{ErrEvidence, 1, func(c *Counters) uint64 { return c.Evidence.Load() }},
		{ErrForged, 2, func(c *Counters) uint64 { return c.Forged.Load() }},
		{ErrTooLarge, 3, func(c *Counters) uint64 { return c.TooLarge.Load() }},
		{ErrMalformed, 4, func(c *Counters) uint64 { return c.Malformed.Load() }},
		{ErrTimeout, 5, func(c *Counters) uint64 { return c.Timeouts.Load() }},
		{errSuite, 6, func(c *Counters) uint64 { return c.Mismatched.Load() }},
		{errService, 7, func(c *Counters) uint64 { return c.Mismatched.Load() }},
		{ErrMismatch, 0, func(c *Counters) uint64 { return c.Mismatched.Load() }},
		{ErrTruncated, 0, func(c *Counters) uint64 { return c.Truncated.Load() }},
		{ErrRefused, 0, func(c *Counters) uint64 { return c.Refused.Load() }},
		{&interrupted{ErrTimeout, ErrEvidence}, 5, func(c *Counters) uint64 { return c.Timeouts.Load() }},
		{&interrupted{ErrTimeout, ErrTruncated}, 5, func(c *Counters) uint64 { return c.Timeouts.Load() }},
	} {
		var c Counters
		if c.count(twice(tc.err)); tc.n(&c) != 1 || code(twice(tc.err)) != tc.code {
			t.Errorf("%v: counted %d times as its kind, code %d, want 1 and %d", tc.err, tc.n(&c), code(twice(tc.err)), tc.code)
		}
	}
}

// TestEnded: why a handshake ended does not depend on which of two ways out came first.
func TestEnded(t *testing.T) {
	stopped, device := errors.New("the tunnel stops"), errors.New("no device")
	made := fmt.Errorf("make this side's evidence: %w", context.DeadlineExceeded)
	for _, tc := range []struct {
		name       string
		err, cause error
		is, isNot  []error
		text       string
	}{
		{"it goes on", nil, nil, nil, nil, ""},
		{"a fault", twice(ErrForged), nil, []error{ErrForged}, []error{ErrTimeout}, "outer: before\ninner: " + ErrForged.Error()},
		{"evidence that cannot be made", device, nil, []error{device}, []error{ErrTimeout}, "no device"},
		{"the deadline, seen by the attester", made, context.DeadlineExceeded, []error{ErrTimeout, context.DeadlineExceeded}, nil, ErrTimeout.Error() + ": make this side's evidence: context deadline exceeded"},
		{"the same, before the context was looked at", made, nil, []error{ErrTimeout, context.DeadlineExceeded}, nil, ErrTimeout.Error() + ": make this side's evidence: context deadline exceeded"},
		{"the deadline, seen by the connection", cut(twice(io.ErrClosedPipe)), twice(context.DeadlineExceeded), []error{ErrTimeout, ErrTruncated, io.ErrClosedPipe}, nil, ErrTimeout.Error()},
		{"the deadline, seen by the verifier", fmt.Errorf("%w: %w", ErrEvidence, context.DeadlineExceeded), context.DeadlineExceeded, []error{ErrTimeout, ErrEvidence}, nil, ErrTimeout.Error() + ": " + ErrEvidence.Error() + ": context deadline exceeded"},
		{"the verifier's own deadline", fmt.Errorf("%w: %w", ErrEvidence, twice(os.ErrDeadlineExceeded)), nil, []error{ErrTimeout, ErrEvidence}, nil, ErrTimeout.Error() + ": " + ErrEvidence.Error() + ": outer: before\ninner: i/o timeout"},
		{"the connection's own deadline", cut(os.ErrDeadlineExceeded), nil, []error{ErrTimeout, ErrTruncated}, nil, ErrTimeout.Error()},
		{"the deadline after the last step", nil, context.DeadlineExceeded, []error{ErrTimeout}, []error{ErrTruncated}, ErrTimeout.Error()},
		{"a stop, seen by the attester", fmt.Errorf("make this side's evidence: %w", context.Canceled), stopped, []error{stopped, context.Canceled}, []error{ErrTimeout}, "the tunnel stops: make this side's evidence: context canceled"},
		{"a stop, seen by the connection", cut(io.ErrClosedPipe), stopped, []error{stopped, ErrTruncated}, []error{ErrTimeout}, "the tunnel stops"},
		{"a stop while evidence was late", made, stopped, []error{stopped, context.DeadlineExceeded}, []error{ErrTimeout}, "the tunnel stops: make this side's evidence: context deadline exceeded"},
		{"a stop after the last step", nil, context.Canceled, []error{context.Canceled}, []error{ErrTimeout}, "context canceled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := handshakeError(tc.err, tc.cause)
			if text := fmt.Sprint(got); got == nil && tc.text != "" || got != nil && text != tc.text {
				t.Errorf("%q, want %q", text, tc.text)
			}
			for _, want := range tc.is {
				if !errors.Is(got, want) {
					t.Errorf("%q is not in the chain of %q", want, got)
				}
			}
			for _, other := range tc.isNot {
				if errors.Is(got, other) {
					t.Errorf("%q is in the chain of %q", other, got)
				}
			}
		})
	}
}

// TestDeadlines: a deadline at any point of the handshake, of either side, is a timeout of
// the side that had it.
func TestDeadlines(t *testing.T) {
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	own := func(context.Context) error { return context.DeadlineExceeded }
	for _, tc := range []struct {
		name           string
		client, server func(*Config, func(context.Context) error)
	}{
		{"server's evidence", nil, slowEvidence},
		{"client's evidence", slowEvidence, nil},
		{"server verifies", nil, slowVerification},
		{"client verifies", slowVerification, nil},
	} {
		for wait, how := range map[string]func(context.Context) error{"until the end": waits, "with a limit of its own": own} {
			t.Run(tc.name+" "+wait, func(t *testing.T) {
				c, s := configs(AESGCM)
				x, y := Pipe(1 << 20)
				late, counters := "client", c.Counters
				if tc.client != nil {
					tc.client(&c, how)
				} else {
					tc.server(&s, how)
					late, counters = "server", s.Counters
				}
				_, _, aerr, berr := shake(t, x, y, c, s)
				err, other := aerr, berr
				if late == "server" {
					err, other = berr, aerr
				}
				if !errors.Is(err, ErrTimeout) || counters.Timeouts.Load() != 1 {
					t.Errorf("the %s: %v, counted %d times", late, err, counters.Timeouts.Load())
				}
				if other != nil && (errors.Is(other, ErrTimeout) || strings.Contains(other.Error(), ErrEvidence.Error())) {
					t.Errorf("the other side: %v", other)
				}
			})
		}
	}
}

func slowEvidence(c *Config, wait func(context.Context) error) {
	c.HandshakeTimeout = time.Millisecond
	c.Attester = AttesterFunc(func(ctx context.Context, _ [64]byte) ([]byte, error) { return nil, wait(ctx) })
}

func slowVerification(c *Config, wait func(context.Context) error) {
	c.Verifier = VerifierFunc(func(ctx context.Context, _ []byte, _ [64]byte) error {
		ctx, stop := context.WithTimeout(ctx, time.Millisecond)
		defer stop()
		return wait(ctx)
	})
}
