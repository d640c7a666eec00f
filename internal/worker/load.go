package worker

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/load/protocols"
)

var loadCommand = Command{
	Name: "load",
	Doc:  "put load on a server and time its answers",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var l serverFlags
		var asJSON, open bool
		var arrivals string
		l.declare(f, "http1")
		o := &l.o
		f.BoolVar(&l.t.resume, "resume", false, "resume TLS sessions")
		f.BoolVar(&o.Fresh, "no-keep-alive", false, "make a connection for each request")
		count(f, &o.Pipeline, "pipeline", 1, 1, load.MostPipeline, "requests under way on each connection")
		count(f, &o.Threads, "threads", 1, 1, load.MostConnections, "threads, each of which can fill a CPU, and has a connection or more")
		count(f, &o.Connections, "connections", 8, 1, load.MostConnections, "connections at once")
		f.Float64Var(&o.Rate, "rate", 0, "offer `REQUESTS` per second on a schedule (open loop); 0 sends as fast as answers come (closed loop)")
		f.StringVar(&arrivals, "arrivals", "constant", "distribution of the requests over time: constant or poisson")
		f.Uint64Var(&o.Seed, "seed", 1, "seed of keys and of poisson arrivals")
		f.DurationVar(&o.Warm, "warm", time.Second, "warm-up before the measured time")
		f.DurationVar(&o.Measure, "measure", 10*time.Second, "measured time")
		f.Uint64Var(&o.Requests, "requests", 0, "`NUMBER` of requests that are made after the warm-up and measured, however long they take (not with measure)")
		f.BoolVar(&asJSON, "json", false, "print the whole report as one JSON document")
		return func(ctx context.Context, s Streams) error {
			if open, o.Poisson = o.Rate > 0, arrivals == "poisson"; !o.Poisson && arrivals != "constant" {
				return fmt.Errorf("arrivals %q: want constant or poisson", arrivals)
			}
			if o.Poisson && !open {
				return errors.New("arrivals need an open loop: give a rate")
			}
			if err := l.apply(s); err != nil {
				return err
			}
			if o.Requests > 0 {
				timed := false
				f.Visit(func(given *flag.Flag) { timed = timed || given.Name == "measure" })
				if timed {
					return errors.New("a load ends after a time or after a number of requests: leave out measure or requests")
				}
			}
			r, err := load.Run(ctx, *o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(s.Out).Encode(r)
			}
			return printLoad(s.Out, r)
		}
	},
}

// serverFlags are the flags that say what server a load is on, what it is filled with and what it is asked.
type serverFlags struct {
	o                    load.Options
	t                    loadTLS
	protocol, statistics string
	hold                 bool
}

// declare declares the flags; protocol is the default.
func (l *serverFlags) declare(f *flag.FlagSet, protocol string) {
	o, t := &l.o, &l.t
	f.StringVar(&l.protocol, "protocol", protocol, "one of "+strings.Join(protocolNames(), ", "))
	f.StringVar(&l.statistics, "stats", "", "ask the server for its own counters, as one of "+strings.Join(statisticsNames(), ", "))
	f.StringVar(&o.StatisticsAddress, "stats-address", "", "address of the server's counters, if it is not --address")
	f.StringVar(&o.Address, "address", "", "the server, as `HOST:PORT` or the path of a Unix socket")
	f.BoolVar(&t.on, "tls", false, "use TLS 1.2 or 1.3 (not postgres)")
	f.StringVar(&t.ca, "ca", "", "`FILE` of the certificates (PEM) that sign the server's certificate; default: the system's certificates")
	f.StringVar(&t.name, "server-name", "", "name in the server's certificate, and in HTTP's Host; default: the host of --address")
	f.StringVar(&t.most, "tls-max", "1.3", "newest version of TLS: 1.2 or 1.3")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "longest wait for a server that is not ready")
	f.DurationVar(&o.Start, "start", 0, "longest wait for the first answer, however wrong, of a server that starts; 0 is wait")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Second, "longest wait for an answer")
	f.StringVar(&o.Ask.Path, "path", "/", "what to get (http1, http2)")
	f.StringVar(&o.Ask.Command, "command", "", "what to ask, with {key} for a number (resp, memcached, postgres, mongodb), or the line to send (line)")
	count(f, &o.Ask.Keys, "keys", 1, 1, load.MostKeys, "keys that {key} stands for (resp, memcached, postgres, mongodb)")
	count(f, &o.Ask.Bytes, "value-size", 64, 1, load.MostBuffered, "bytes of a value (resp, memcached, mongodb) or of a message (raw)")
	f.BoolVar(&o.Populate, "populate", false, "put a value under every key first (resp, memcached, mongodb)")
	f.StringVar(&o.Ask.User, "user", "postgres", "user (postgres)")
	f.StringVar(&o.Ask.Database, "database", "postgres", "database (postgres)")
	f.StringVar(&o.Ask.Password, "password", "", "password (postgres, resp); it can be seen in the list of processes")
	holdFlag(f, &l.hold)
}

// apply puts the flags into the options; without a protocol the server is not asked.
func (l *serverFlags) apply(s Streams) error {
	o := &l.o
	if o.Protocol = find(protocols.All, func(p *load.Protocol) bool { return p.Name == l.protocol }); o.Protocol == nil && l.protocol != "" {
		return fmt.Errorf("protocol %q: want one of %s", l.protocol, strings.Join(protocolNames(), ", "))
	}
	if o.Statistics = find(protocols.Statistics, func(p *load.Statistics) bool { return p.Name == l.statistics }); o.Statistics == nil && l.statistics != "" {
		return fmt.Errorf("stats %q: want one of %s", l.statistics, strings.Join(statisticsNames(), ", "))
	}
	if err := l.t.apply(o); err != nil {
		return err
	}
	if l.hold {
		o.Counting = counting(s)
	}
	o.Waiting = waiting(s)
	o.Grace = host.Patience(load.Grace)
	return nil
}

// holdFlag declares the flag that makes a load wait for the process that counts its effects.
func holdFlag(f *flag.FlagSet, into *bool) {
	f.BoolVar(into, "hold", false, "before and after the counted requests, with none in flight, report it on standard error and wait for a line on standard input, or its end")
}

// waiting says what the load waits for.
func waiting(s Streams) func(string) {
	return func(what string) { fmt.Fprintln(s.Err, load.Waits+what) }
}

// counting announces the start to the process that counts the load's effects, and waits for a line.
func counting(s Streams) func(context.Context, bool) error {
	lines := make(chan struct{})
	in := bufio.NewScanner(s.In)
	return func(ctx context.Context, begins bool) error {
		line := load.Ends
		if begins {
			line = load.Begins
		}
		if _, err := fmt.Fprintln(s.Err, line); err != nil {
			return fmt.Errorf("say that requests are counted: %w", err)
		}
		go func() {
			in.Scan()
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
			}
		}()
		select {
		case <-lines:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// find returns the first element of a list for which is holds, or nil.
func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

func protocolNames() []string {
	var out []string
	for _, p := range protocols.All {
		out = append(out, p.Name)
	}
	return out
}

func statisticsNames() []string {
	var out []string
	for _, p := range protocols.Statistics {
		out = append(out, p.Name)
	}
	return out
}

// loadTLS holds the flags about TLS.
type loadTLS struct {
	on, resume     bool
	ca, name, most string
}

// sessions is the number of TLS sessions kept for resumption.
const sessions = 4096

// apply applies the flags about address and TLS.
func (t *loadTLS) apply(o *load.Options) error {
	o.Network = "tcp"
	if strings.HasPrefix(o.Address, "/") {
		if err := host.CheckSocketPath(o.Address); err != nil {
			return fmt.Errorf("address: %w", err)
		}
		o.Network = "unix"
		o.Ask.Host = "localhost"
	} else if name, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("address %q: want HOST:PORT, or the path of a Unix socket", o.Address)
	} else {
		o.Ask.Host = name
	}
	if t.name != "" {
		o.Ask.Host = t.name
	}
	if !t.on {
		if t.ca != "" || t.resume {
			return errors.New("flags ca and resume need TLS: add tls")
		}
		return nil
	}
	if o.Protocol.Name == "postgres" {
		return errors.New("postgres: TLS is not supported here; leave out tls")
	}
	c := &tls.Config{ServerName: o.Ask.Host, MinVersion: tls.VersionTLS12}
	switch t.most {
	case "1.2":
		c.MaxVersion = tls.VersionTLS12
	case "1.3":
		c.MaxVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("tls-max %q: want 1.2 or 1.3", t.most)
	}
	if o.Protocol.ALPN != "" {
		c.NextProtos = []string{o.Protocol.ALPN}
	}
	if t.resume {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return fmt.Errorf("read the certificates of ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("file %s of ca: there is no certificate in it", t.ca)
		}
	}
	o.TLS = c
	return nil
}

// printLoad writes the report for people.
func printLoad(w io.Writer, r *load.Report) error {
	fmt.Fprintf(w, "%s, %s loop, %d connections, %.4g s\n", r.Protocol, r.Loop, r.Connections, r.Seconds)
	fmt.Fprintf(w, "answered  %.1f requests/s, %.3g MB/s\n", float64(r.Requests)/r.Seconds, float64(r.Received)/r.Seconds/1e6)
	if r.Loop == "open" {
		fmt.Fprintf(w, "offered   %.1f requests/s; late for the client's sake: %d\n", r.Rate, r.Late)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "error     %d x %s", r.Errors[kind], kind)
		if said := r.Words[kind]; said != "" {
			fmt.Fprintf(w, ", the first: %s", said)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "client    %.2f of %d cores\n", r.CPUSeconds/r.Seconds, r.Cores)
	for _, t := range []struct{ name, encoded string }{{"response", r.Response}, {"service", r.Service}, {"connect", r.Connect}, {"handshake", r.Handshake}} {
		if t.encoded == "" {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(t.encoded))
		if err != nil {
			return fmt.Errorf("decode the histogram of %s: %w", t.name, err)
		}
		us := func(v int64) float64 { return float64(v) / 1e3 }
		fmt.Fprintf(w, "%-9s p50 %.1f us, p99 %.1f us, p99.9 %.1f us, max %.1f us, of %d\n", t.name,
			us(h.ValueAtPercentile(50)), us(h.ValueAtPercentile(99)), us(h.ValueAtPercentile(99.9)), us(h.Max()), h.TotalCount())
	}
	_, err := fmt.Fprintf(w, "answers   %s\n", r.Digest)
	return err
}
