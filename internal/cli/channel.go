//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/port"
	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/proof/peer"
	"github.com/teescope/teescope/internal/tunnel"
)

func channelCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "channel",
		Short: "Carry TCP connections to a service in a TEE over an attested channel",
		Long: `Channel puts an attested tunnel in front of any TCP service and client, as stunnel does
with TLS. ` + "`listen`" + ` runs next to the service, in the confidential VM or the enclave, and
proves this with a quote in each full handshake. ` + "`connect`" + ` runs next to the clients, and
lets a connection pass only if the quote meets its policy. The service and the clients
need no change. docs/channel.md lists what the tunnel protects against and what it does not.`,
		Example: "  teescope channel listen --listen 0.0.0.0:9443 --to 127.0.0.1:5432\n" +
			"  teescope channel connect --listen 127.0.0.1:5432 --to server:9443 --policy policy.yaml",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newTunneling().listenCommand(env), newTunneling().connectCommand(env))
	return c
}

// tunneling are the flags of `channel listen` and `channel connect`.
type tunneling struct {
	listen, to, service, suite, provider, policy, metrics string
	mockPeer                                              bool
	tpm                                                   tpmFlags
	port                                                  port.Exposure // of the metrics
	connections, handshakes                               int
	handshake, retry, idle, session, grace                time.Duration
	record                                                int

	serves     bool
	providers  []*attest.Provider
	collateral func() attest.Collateral
	roots      attest.Trust
	now        func() time.Time
}

func newTunneling() *tunneling {
	return &tunneling{providers: attest.Providers, collateral: attest.Vendors, now: host.Local().Now}
}

// The provider of evidence that proves nothing, and who makes it: everybody can.
const (
	mockProvider = "mock"
	mockSecret   = "teescope channel mock"
	noProvider   = "none"
)

// collateralFor is how long answers of the vendors' services are kept.
const collateralFor = time.Hour

func (t *tunneling) listenCommand(env Env) *cobra.Command {
	t.serves = true
	c := &cobra.Command{
		Use:   "listen",
		Short: "Accept attested sessions, and connect each to a service",
		Long: `Listen accepts sessions and connects each to the service. It proves the identity of this
machine. With --policy it accepts only clients whose evidence meets the policy.

SIGINT or SIGTERM closes the port, lets open connections continue for --grace, and then
closes them. Exit status: 0 stopped, 4 usage or tool error.`,
		Example: "  teescope channel listen --listen 0.0.0.0:9443 --to 127.0.0.1:5432\n" +
			"  teescope channel listen --listen 127.0.0.1:9443 --to 127.0.0.1:5432 --provider mock   # to try it without a TEE",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c.Context(), env) },
	}
	t.flags(c, "", "address on which to accept sessions, `HOST:PORT`", "address of the service to connect each session to, `HOST:PORT`",
		"source of this side's evidence: "+t.names()+", mock (proves nothing), none (default: this machine's TEE)")
	return c
}

func (t *tunneling) connectCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "connect",
		Short: "Accept connections of clients, and carry each to an attested listener",
		Long: `Connect accepts connections and carries each in its own session to the listening side,
if that side's evidence meets the policy. Later sessions resume an earlier one without a
new quote, for as long as the policy's max_age allows (default 10m).

Traffic between the clients and this end of the tunnel is not protected: listen on loopback.

SIGINT or SIGTERM closes the port, lets open connections continue for --grace, and then
closes them. Exit status: 0 stopped, 4 usage or tool error.`,
		Example: "  teescope channel connect --listen 127.0.0.1:5432 --to server:9443 --policy policy.yaml\n" +
			"  teescope channel connect --listen 127.0.0.1:5432 --to 127.0.0.1:9443 --mock-peer   # to try it without a TEE",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c.Context(), env) },
	}
	t.flags(c, noProvider, "address on which to accept connections, `HOST:PORT`", "address of the listening side, `HOST:PORT`",
		"source of this side's evidence, if the listening side requires evidence: "+t.names()+", mock (proves nothing), none")
	c.Flags().DurationVar(&t.retry, "retry", 2*time.Second, "how long to retry while the listening side refuses the connection; the client waits for this time")
	return c
}

func (t *tunneling) flags(c *cobra.Command, provider, listen, to, from string) {
	f := c.Flags()
	f.StringVar(&t.listen, "listen", "", listen)
	f.StringVar(&t.to, "to", "", to)
	f.StringVar(&t.service, "service", "", "name of the service; both sides must give the same name")
	f.StringVar(&t.suite, "suite", "aes-gcm", "cipher, the same on both sides: aes-gcm or chacha20-poly1305")
	f.StringVar(&t.provider, "provider", provider, from)
	f.StringVar(&t.policy, "policy", "", "YAML `FILE` with what the other side must prove (docs/channel.md)")
	f.BoolVar(&t.mockPeer, "mock-peer", false, "instead of a policy, accept mock evidence, which proves nothing")
	t.tpm.flags(c)
	f.StringVar(&t.metrics, "metrics", "", "address on which to serve /metrics, `HOST:PORT`")
	t.port.Flags(c.Flags(), "metrics", "metrics-insecure", "everyone who reaches this port can read without a password how much the tunnel carries and what the tunnel refused")
	f.IntVar(&t.connections, "max-connections", 1000, "maximum number of open connections; further connections are closed at once")
	f.IntVar(&t.handshakes, "max-handshakes", 100, "maximum number of connections that are still in the handshake; a further connection replaces the oldest")
	f.DurationVar(&t.handshake, "handshake-timeout", 30*time.Second, "time limit of a handshake, including its evidence")
	f.DurationVar(&t.idle, "idle", 0, "close connections that are idle for this long (default: never)")
	f.DurationVar(&t.session, "max-session", 0, "close connections that are older than this (default: never)")
	f.DurationVar(&t.grace, "grace", 10*time.Second, "how long open connections may continue after SIGINT or SIGTERM")
	f.IntVar(&t.record, "record", 16<<10, fmt.Sprintf("size of a record in bytes: the data that is encrypted at once, %d to %d", tunnel.LeastRecord, tunnel.MostRecord))
	for _, name := range []string{"listen", "to"} {
		_ = c.MarkFlagRequired(name)
	}
	c.MarkFlagsMutuallyExclusive("policy", "mock-peer")
	if !t.serves {
		c.MarkFlagsOneRequired("policy", "mock-peer")
	}
}

func (t *tunneling) names() string {
	var names []string
	for _, p := range t.providers {
		if !p.Simulated && !p.Device {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (t *tunneling) run(ctx context.Context, env Env) error {
	log := slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o, err := t.options(env)
	if err != nil {
		return err
	}
	o.Log = log
	var scraped net.Listener
	if t.metrics != "" {
		if scraped, err = t.port.Listen(ctx, t.metrics, log); err != nil {
			return err
		}
		defer scraped.Close()
	}
	if o.Listener, err = port.Listen(ctx, "--listen", t.listen); err != nil {
		return err
	}
	side := tunnel.New(o)
	plain, far := o.Listener.Addr().String(), t.to
	if t.serves {
		plain, far = t.to, o.Listener.Addr().String()
	}
	if !onLoopback(plain) {
		fmt.Fprintf(env.Stderr, "note: %s is not on loopback, so traffic between this address and this end of the tunnel is not protected\n", plain)
	}
	fmt.Fprintf(env.Stdout, "teescope channel: plain %s, attested %s%s\n", plain, far, metricsAddress(t.port.Scheme(), scraped))
	failed := make(chan error, 1)
	work, stop := context.WithCancel(ctx)
	defer stop()
	if scraped != nil {
		go func() {
			h := t.port.Hosts(host.Local(), scraped).Guard(metricsOf(side))
			failed <- port.Serve(work, scraped, t.port.Protected(scraped, h, log), t.port.Config, log)
			stop() // without its metrics it is not what was asked for
		}()
	}
	err = side.Serve(work)
	stop()
	if scraped != nil {
		err = errors.Join(err, <-failed)
	}
	return err
}

// metricsAddress names the address of the metrics.
func metricsAddress(scheme string, l net.Listener) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf(", metrics %s://%s/metrics", scheme, l.Addr())
}

// onLoopback reports whether an address is of this machine only.
func onLoopback(address string) bool {
	name, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(name)
	return err == nil && (name == "localhost" || ip != nil && ip.IsLoopback())
}

// metricsOf serves the metrics of a side.
func metricsOf(side *tunnel.Tunnel) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(metric.AppendText(nil, side.Samples())) // the scraper is gone
	})
	for _, path := range []string{"GET /-/healthy", "GET /-/ready"} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	}
	return m
}

// options checks the flags and opens what they name, except for the ports.
func (t *tunneling) options(env Env) (tunnel.Options, error) {
	o := tunnel.Options{Serves: t.serves, To: t.to, Connections: t.connections, Handshakes: t.handshakes, Retry: t.retry, Idle: t.idle, Session: t.session,
		Grace: t.grace, Record: t.record, Now: t.now, Channel: channel.Config{Service: t.service, HandshakeTimeout: t.handshake}}
	if _, _, err := net.SplitHostPort(t.to); err != nil {
		return o, fmt.Errorf("--to %q: want HOST:PORT", t.to)
	}
	switch {
	case len(t.service) > 255:
		return o, fmt.Errorf("--service: %d bytes, want at most 255", len(t.service))
	case t.connections < 1 || t.handshakes < 1:
		return o, fmt.Errorf("--max-connections %d, --max-handshakes %d: want at least 1 of each", t.connections, t.handshakes)
	case t.handshake <= 0:
		return o, fmt.Errorf("--handshake-timeout %s: want a time above 0", t.handshake)
	case t.retry < 0 || t.idle < 0 || t.session < 0 || t.grace < 0:
		return o, fmt.Errorf("--retry %s, --idle %s, --max-session %s, --grace %s: want a time of 0 or more", t.retry, t.idle, t.session, t.grace)
	case t.record < tunnel.LeastRecord || t.record > tunnel.MostRecord:
		return o, fmt.Errorf("--record %d: want %d to %d", t.record, tunnel.LeastRecord, tunnel.MostRecord)
	}
	var ok bool
	if o.Channel.Suite, ok = map[string]channel.Suite{"aes-gcm": channel.AESGCM, "chacha20-poly1305": channel.ChaChaPoly}[t.suite]; !ok {
		return o, fmt.Errorf("--suite %q: want aes-gcm or chacha20-poly1305", t.suite)
	}
	if err := t.verifier(env, &o.Channel); err != nil {
		return o, err
	}
	return o, t.attester(env, &o.Channel)
}

// attester opens where this side's evidence comes from.
func (t *tunneling) attester(env Env, c *channel.Config) error {
	switch t.provider {
	case noProvider:
		if t.serves {
			fmt.Fprintln(env.Stderr, "note: this side proves nothing (--provider none), so only a client that requires no evidence can connect")
		}
		return nil
	case mockProvider:
		c.Attester = channel.NewMock(mockSecret)
		fmt.Fprintln(env.Stderr, "note: mock evidence proves nothing; anybody can make mock evidence")
		return nil
	}
	var lacks []string
	settings, err := t.tpm.settings()
	if err != nil {
		return err
	}
	settings.Log = []byte{} // a policy judges registers, and the log may be larger than evidence can be
	for _, p := range t.providers {
		if p.Simulated || p.Device || t.provider != "" && p.Name != t.provider || t.provider == "" && p.Named {
			continue
		}
		q, _, err := p.Open(attest.Settings{Parallel: 1, TPM: settings})
		switch {
		case errors.Is(err, errors.ErrUnsupported) && t.provider == "":
			lacks = append(lacks, contain.OneLine(err))
		case err != nil:
			return fmt.Errorf("--provider %s: %w", p.Name, err)
		default:
			c.Attester = peer.Self{Quoter: q}
			return nil
		}
	}
	if t.provider != "" {
		return fmt.Errorf("--provider %q: want %s, %s or %s", t.provider, t.names(), mockProvider, noProvider)
	}
	return fmt.Errorf("no TEE on this machine (%s), so there is nothing to prove; --provider mock lets you try the tunnel without a TEE", strings.Join(lacks, "; "))
}

// verifier reads what the other side must prove.
func (t *tunneling) verifier(env Env, c *channel.Config) error {
	if t.mockPeer {
		c.Verifier = channel.NewMock(mockSecret)
		fmt.Fprintln(env.Stderr, "note: the other side's evidence is mock and proves nothing (--mock-peer)")
		return nil
	}
	if t.policy == "" { // listen takes any client
		return nil
	}
	text, err := os.ReadFile(t.policy)
	if err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	p, err := proof.ReadPolicy(text)
	if err == nil {
		err = p.ForChannel()
	}
	if err != nil {
		return fmt.Errorf("--policy %s: %w", t.policy, err)
	}
	if len(p.Measurements) == 0 && len(p.Registers) == 0 {
		fmt.Fprintf(env.Stderr, "note: %s names no measurement, so any program in a genuine TEE is accepted\n", t.policy)
	}
	switch snp := len(p.Formats) == 0 || slices.Contains(p.Formats, "sev-snp"); {
	case p.TCBUnchecked:
		fmt.Fprintf(env.Stderr, "note: %s says tcb: unchecked, so SEV-SNP machines with any firmware are accepted, even firmware with known vulnerabilities\n", t.policy)
	case snp && len(p.MinTCB) == 0:
		fmt.Fprintf(env.Stderr, "note: %s names no min_tcb, so SEV-SNP machines are refused (tcb: unchecked accepts any firmware)\n", t.policy)
	}
	c.ResumeFor = p.MaxAge
	c.Verifier = &peer.Other{Policy: p, Collateral: attest.Cached(t.collateral(), collateralFor), Now: t.now, Roots: t.roots}
	return nil
}
