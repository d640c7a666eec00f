package worker

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/host"
)

// attestation answers lines: "quote" gets evidence over data that is different for each quote,
// "verify" verifies one quote. A load generator asks from outside, as the users of a service
// would; the times measured inside are reported at the end.
var attestation = Command{
	Name: "attest",
	Doc:  "a server that makes and verifies quotes, one line per request, and reports at its end",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var a attestServer
		address := f.String("address", "127.0.0.1:0", "where to listen")
		provider := f.String("provider", "simulated", "configfs-tsm for the TEE of this guest, or simulated")
		f.BoolVar(&a.fetched, "fetched", false, "fetch collateral for each verification, not once")
		f.DurationVar(&a.settings.Delay, "delay", 39*time.Millisecond, "duration of a simulated quote")
		count(f, &a.settings.Parallel, "parallel", 1, 1, 1024, "simulated quotes that are made at once")
		f.DurationVar(&a.settings.Fetch, "fetch", time.Second, "duration of fetching simulated collateral")
		return func(ctx context.Context, s Streams) error { return a.run(ctx, s, *provider, *address) }
	},
}

// attestServer makes and verifies quotes.
type attestServer struct {
	settings attest.Settings
	fetched  bool
	now      func() time.Time

	quoter     attest.Quoter
	collateral attest.Collateral
	evidence   *attest.Evidence
	bound      [attest.Size]byte
	quotes     tally
	verified   tally
}

// tally counts operations and their time.
type tally struct{ done, failed, nanoseconds atomic.Int64 }

func (t *tally) add(began time.Time, err error) {
	if err != nil {
		t.failed.Add(1)
		return
	}
	t.done.Add(1)
	t.nanoseconds.Add(int64(time.Since(began)))
}

// attestReport is the server's document.
type attestReport struct {
	Provider string `json:"provider"`
	// Simulated: no hardware was asked, and the times are the configured ones.
	Simulated bool   `json:"simulated"`
	Format    string `json:"format"`
	Bytes     int    `json:"quote_bytes"`
	// Delay, Parallel and Fetch are the configured times in seconds and the configured
	// parallelism; only if simulated.
	Delay    float64 `json:"stated_quote_seconds,omitempty"`
	Parallel int     `json:"stated_parallel,omitempty"`
	Fetch    float64 `json:"stated_fetch_seconds,omitempty"`
	// For each operation: how many, how many failed, and the sum of their times by the clock
	// inside.
	Quotes   attestTally `json:"quotes"`
	Verified attestTally `json:"verified"`
}

type attestTally struct {
	Done    int64   `json:"done"`
	Failed  int64   `json:"failed"`
	Seconds float64 `json:"seconds"`
}

func (t *tally) report() attestTally {
	return attestTally{t.done.Load(), t.failed.Load(), time.Duration(t.nanoseconds.Load()).Seconds()}
}

func (a *attestServer) run(ctx context.Context, s Streams, provider, address string) error {
	p, err := attest.Find(provider)
	if err != nil {
		return err
	}
	a.now = host.Local().Now
	if a.quoter, a.collateral, err = p.Open(a.settings); err != nil {
		return err
	}
	if a.evidence, err = a.quoter.Quote(ctx, a.bound); err != nil {
		return err
	}
	if !a.fetched {
		a.collateral = attest.Cached(a.collateral, 0)
	}
	if err := a.serve(ctx, s, address); err != nil {
		return err
	}
	r := attestReport{Provider: p.Name, Simulated: p.Simulated, Format: a.evidence.Format, Bytes: len(a.evidence.Quote),
		Quotes: a.quotes.report(), Verified: a.verified.report()}
	if p.Simulated {
		r.Delay, r.Parallel, r.Fetch = a.settings.Delay.Seconds(), a.settings.Parallel, a.settings.Fetch.Seconds()
	}
	return json.NewEncoder(s.Out).Encode(r)
}

// serve answers connections until the context ends.
func (a *attestServer) serve(ctx context.Context, s Streams, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var open sync.WaitGroup
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		open.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer func() { _ = c.Close() }()
			if err := a.converse(ctx, c); err != nil && ctx.Err() == nil {
				fmt.Fprintf(s.Err, "teescope-work attest: %v\n", err)
			}
		})
	}
	open.Wait()
	return nil
}

// converse answers the lines of a connection.
func (a *attestServer) converse(ctx context.Context, c net.Conn) error {
	const mostLine = 256
	lines := bufio.NewScanner(c)
	lines.Buffer(make([]byte, mostLine), mostLine)
	for lines.Scan() {
		var err error
		switch word := lines.Text(); word {
		case "quote":
			err = a.quote(ctx)
		case "verify":
			err = a.verify(ctx)
		default:
			return fmt.Errorf("unknown request %.40q: want quote or verify", word)
		}
		// The right answer is the same each time, so the load generator detects a wrong one.
		answer := "done " + a.evidence.Format + "\n"
		if err != nil {
			answer = fmt.Sprintf("failed %v\n", err)
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return lines.Err()
}

func (a *attestServer) quote(ctx context.Context) error {
	var data [attest.Size]byte
	_, _ = rand.Read(data[:]) // never fails
	began := a.now()
	e, err := a.quoter.Quote(ctx, data)
	if err == nil && len(e.Quote) == 0 {
		err = errors.New("the quote is empty")
	}
	if ctx.Err() == nil { // operations cut off by the end of the run did not fail
		a.quotes.add(began, err)
	}
	return err
}

func (a *attestServer) verify(ctx context.Context) error {
	began := a.now()
	err := attest.Verify(ctx, a.evidence, a.bound, a.collateral, began)
	a.verified.add(began, err)
	return err
}
