package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/await"
)

// output is written by a command while a test reads it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is that of io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// side is a running `channel listen` or `channel connect`.
type side struct {
	plain, attested, metrics string
	errs                     *output
	stop                     func() error
}

var sideLine = regexp.MustCompile(`^teescope channel: plain (\S+), attested (\S+?)(?:, metrics (\S+))?\n`)

// startSide runs a command until the test ends or stop is called, and waits until it listens.
func startSide(t *testing.T, command func(*tunneling, Env) *cobra.Command, m *attesttest.Machine, args ...string) *side {
	t.Helper()
	here := &attest.Provider{Name: "test", Open: func(attest.Settings) (attest.Quoter, attest.Collateral, error) { return m, m.Collateral, nil }}
	flags := &tunneling{providers: []*attest.Provider{here}, collateral: func() attest.Collateral { return m.Collateral }, roots: m.Trust,
		now: func() time.Time { return attesttest.Made.Add(time.Minute) }}
	out := &output{}
	s := &side{errs: &output{}}
	c := command(flags, Env{Stdout: out, Stderr: s.errs})
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(ctx) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	await.Event(t, "the side listens", func() error {
		found := sideLine.FindStringSubmatch(out.String())
		if found == nil {
			if len(done) > 0 {
				t.Fatalf("it ended: %v", s.stop())
			}
			return errors.New(out.String())
		}
		s.plain, s.attested, s.metrics = found[1], found[2], found[3]
		return nil
	})
	return s
}

// echoing is a service that sends back what it gets.
func echoing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// through sends a text to an address and returns what comes back.
func through(t *testing.T, address, text string) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil { // it may be cut before it is made
		return "", err
	}
	defer c.Close()
	_, err = io.WriteString(c, text)
	err = errors.Join(err, c.(*net.TCPConn).CloseWrite())
	got, err2 := io.ReadAll(c)
	return string(got), errors.Join(err, err2)
}

func writePolicy(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestChannelCommand: connections pass where the listening side's TEE is what the policy wants,
// and only there.
func TestChannelCommand(t *testing.T) {
	pcr0 := "07" + strings.Repeat("00", 47)
	const least = "min_tcb: {milan: db18000000000004}\n"
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		far := startSide(t, (*tunneling).listenCommand, m, "--listen", "127.0.0.1:0", "--to", echoing(t), "--metrics", "127.0.0.1:0", "--service", "s")
		for _, tc := range []struct {
			policy string
			pass   bool
		}{
			{"tee: [" + name + "]\n" + least, true},
			{"tee: [" + name + "]\n" + least + "measurements: [" + strings.Repeat("ab", 48) + "]\n", false},
			{"registers: {pcr0: " + pcr0 + "}\n", name == "nitro"},
			{"tee: [" + name + "]\n", name != "sev-snp"},
			{"tcb: unchecked\n", true},
		} {
			near := startSide(t, (*tunneling).connectCommand, m, "--listen", "127.0.0.1:0", "--to", far.attested, "--policy", writePolicy(t, tc.policy), "--service", "s")
			for range 2 {
				if got, err := through(t, near.plain, "hello"); (err == nil && got == "hello") != tc.pass || !tc.pass && got != "" {
					t.Errorf("%s, %q: %q, %v\n%s%s", name, tc.policy, got, err, near.errs, far.errs)
				}
			}
			const refused = "reason=evidence"
			if tc.pass {
				said := near.errs.String()
				if strings.Contains(said, refused) {
					t.Errorf("%s, %q: it said %s", name, tc.policy, said)
				}
				if strings.Contains(said, "with any firmware are accepted") != strings.Contains(tc.policy, "unchecked") {
					t.Errorf("%s, %q: at its start it said %s", name, tc.policy, said)
				}
				continue
			}
			await.Event(t, name+": it says why it refused", func() error { // after the client was cut off
				if said := near.errs.String(); !strings.Contains(said, refused) {
					return errors.New(said)
				}
				return nil
			})
			if said := near.errs.String(); tc.policy == "tee: [sev-snp]\n" && (!strings.Contains(said, "names no min_tcb, so SEV-SNP machines are refused") || !strings.Contains(said, "write into a policy: min_tcb: {milan: {bootloader: 4, tee: 0, snp: 24, microcode: 219}}")) {
				t.Errorf("%s does not name the missing key: %s", name, said)
			}
		}
		r, err := http.Get(far.metrics)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || !strings.Contains(string(text), `teescope_channel_handshake_seconds_count{kind="resumed"} `) || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("metrics: %v\n%s", err, text)
		}
	}
}

// TestChannelMutual: a listening side with a policy takes only clients that prove what they
// are.
func TestChannelMutual(t *testing.T) {
	m := attesttest.SEV(t, attesttest.Options{})
	policy := writePolicy(t, "tee: [sev-snp]\nmin_tcb: {milan: db18000000000004}\n")
	far := startSide(t, (*tunneling).listenCommand, m, "--listen", "127.0.0.1:0", "--to", echoing(t), "--policy", policy)
	for provider, pass := range map[string]bool{"test": true, "none": false, "mock": false} {
		t.Run(provider, func(t *testing.T) {
			near := startSide(t, (*tunneling).connectCommand, m, "--listen", "127.0.0.1:0", "--to", far.attested, "--policy", policy, "--provider", provider)
			if got, err := through(t, near.plain, "hello"); (err == nil) != pass || pass && got != "hello" {
				t.Errorf("provider %s: %q, %v\n%s", provider, got, err, far.errs)
			}
		})
	}
}

// TestChannelMock: the tunnel can be tried without a TEE, and says each time what that proves.
func TestChannelMock(t *testing.T) {
	m := attesttest.SEV(t, attesttest.Options{})
	far := startSide(t, (*tunneling).listenCommand, m, "--listen", "127.0.0.1:0", "--to", echoing(t), "--provider", "mock", "--suite", "chacha20-poly1305")
	near := startSide(t, (*tunneling).connectCommand, m, "--listen", "127.0.0.1:0", "--to", far.attested, "--mock-peer", "--suite", "chacha20-poly1305")
	if got, err := through(t, near.plain, "hello"); err != nil || got != "hello" {
		t.Errorf("%q, %v\n%s%s", got, err, near.errs, far.errs)
	}
	for _, s := range []*side{near, far} {
		if !strings.Contains(s.errs.String(), "proves nothing") {
			t.Errorf("it does not say what mock evidence proves: %s", s.errs)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if c, err := net.Dial("tcp", s.plain); err == nil && s == near {
			_ = c.Close()
			t.Error("it still listens")
		}
	}
}

// TestChannelRefuses: what cannot be done is said in one line.
func TestChannelRefuses(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	good := writePolicy(t, "tee: [tdx]\n")
	listen := []string{"listen", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"}
	connect := []string{"connect", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"}
	for _, tc := range []struct {
		base []string
		args string
		want string
	}{
		{nil, "listen", "required flag(s) \"listen\", \"to\" not set; see `teescope channel listen --help`"},
		{connect, "", "at least one of the flags in the group [policy mock-peer] is required"},
		{connect, "--mock-peer --policy " + good, "none of the others can be"},
		{connect, "--policy /nonexistent/policy.yaml", "--policy: open /nonexistent"},
		{connect, "--policy " + writePolicy(t, "mesurements: []\n"), "field mesurements not found"},
		{connect, "--policy " + writePolicy(t, "nonce: 0aff\n"), "nonce: a nonce is only for results"},
		{connect, "--mock-peer --to nowhere", "want HOST:PORT"},
		{connect, "--mock-peer --listen " + busy.Addr().String(), "the port is in use"},
		{connect, "--mock-peer --metrics " + busy.Addr().String(), "choose another port with --metrics"},
		{connect, "--mock-peer --suite rot13", "want aes-gcm or chacha20-poly1305"},
		{connect, "--mock-peer --record 1", "want 512 to 49152"},
		{connect, "--mock-peer --idle -1s", "--idle -1s, --max-session 0s, --grace 10s: want a time of 0 or more"},
		{connect, "--mock-peer --handshake-timeout 0s", "want a time above 0"},
		{connect, "--mock-peer --max-connections 0", "want at least 1"},
		{connect, "--mock-peer --service " + strings.Repeat("s", 256), "at most 255"},
		{listen, "", "no TEE on this machine (open configfs-tsm: "},
		{listen, "--provider nitro", "evidence of this kind needs an AWS Nitro enclave"},
		{listen, "--provider sgx", `--provider "sgx": want configfs-tsm, nitro`},
		{listen, "--provider simulated", `--provider "simulated": want`},
		{listen, "--provider nvidia", `--provider "nvidia": want`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := append(append([]string{"channel"}, tc.base...), strings.Fields(tc.args)...)
			out, errs, code := run(t, args...)
			if code != exitUsage || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("%s: status %d\n%s%s want %q", fmt.Sprint(args[1:]), code, out, errs, tc.want)
			}
		})
	}
}
