package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/observe"
)

// The parts of web configurations: a certificate of writeCertificate, and a user with the password "fakepassword".
const (
	withTLS   = "tls_server_config: {cert_file: server.crt, key_file: server.key"
	withUsers = "basic_auth_users: {ann: '$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi'}\n"
)

// writeCertificate writes server.crt and server.key, for two names.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "t"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		DNSNames: []string{"Monitor.example", "*.pods.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	writeFile(t, filepath.Join(dir, "server.crt"), string(text))
	writeFile(t, filepath.Join(dir, "server.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestExposed: which web configurations let a port be opened beyond loopback; the others are refused before it is, with the line that
// mends them.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	const all = "RequireAndVerifyClientCert"
	for name, c := range map[string]struct {
		config string // "" for no file
		want   []string
	}{
		"nothing":                       {"", []string{"there is no --web-config", "add `--web-config=FILE`", withTLS + "}", "basic_auth_users: {NAME: 'HASH'}", "htpasswd -nB NAME"}},
		"an empty file":                 {"# nothing\n", []string{"web.yml has neither TLS nor users", "add to it", withTLS + "}", "basic_auth_users"}},
		"TLS only":                      {withTLS + "}\n", []string{"web.yml has TLS but asks nobody who they are", "add to it `basic_auth_users"}},
		"users only":                    {withUsers, []string{"web.yml has users but no TLS", "add to it `" + withTLS}},
		"an empty list of users":        {withTLS + "}\nbasic_auth_users: {}\n", []string{"has TLS but asks nobody"}},
		"any client certificate":        {withTLS + ", client_auth_type: RequireAnyClientCert, client_ca_file: server.crt}\n", []string{"(client_auth_type RequireAnyClientCert)", "`client_auth_type: " + all + "`"}},
		"one that is asked for":         {withTLS + ", client_auth_type: RequestClientCert}\n", []string{"(client_auth_type RequestClientCert)"}},
		"verified if given":             {withTLS + ", client_auth_type: VerifyClientCertIfGiven, client_ca_file: server.crt}\n", []string{"(client_auth_type VerifyClientCertIfGiven)"}},
		"any that the system verifies":  {withTLS + ", client_auth_type: " + all + "}\n", []string{"without a certificate of an authority that it names"}},
		"TLS with users":                {withTLS + "}\n" + withUsers, nil},
		"client certificates":           {withTLS + ", client_auth_type: " + all + ", client_ca_file: server.crt}\n", nil},
		"client certificates by a name": {withTLS + ", client_auth_type: " + all + ", client_allowed_sans: [prometheus.example]}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s observe.Settings
			s.Flags(pflag.NewFlagSet("", pflag.ContinueOnError), "127.0.0.1:0")
			e := &s.Port
			args := []string{"--listen", "0.0.0.0:0"}
			if c.config != "" {
				e.Config = filepath.Join(dir, "web.yml")
				writeFile(t, e.Config, c.config)
				args = append(args, "--web-config", e.Config)
			}
			var said bytes.Buffer
			log := slog.New(slog.NewTextHandler(&said, nil))
			for _, local := range []string{"127.0.0.1:0", "localhost:0", "127.3.2.1:0"} {
				if l, err := e.Listen(t.Context(), local, log); err != nil || l.Close() != nil {
					t.Errorf("%s: %v", local, err)
				}
			}
			l, err := e.Listen(t.Context(), "0.0.0.0:0", log)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				_ = l.Close()
			} else {
				busy, err := net.Listen("tcp", "0.0.0.0:0") // a port that is taken shows that none is opened
				if err != nil {
					t.Fatal(err)
				}
				defer busy.Close()
				for _, at := range []string{"0.0.0.0", "", "[::]", "192.0.2.1", "[2001:db8::1]", "[fe80::1%lo]", "[::ffff:192.0.2.1]"} {
					_, port, _ := net.SplitHostPort(busy.Addr().String())
					_, err := e.Listen(t.Context(), at+":"+port, log)
					for _, want := range append(c.want, "--listen "+at+":"+port+": other machines reach this address", "`--listen=127.0.0.1:"+port+"`", "`--insecure`") {
						if err == nil || !strings.Contains(err.Error(), want) {
							t.Errorf("%s: %v, want %s", at, err, want)
						}
					}
				}
				for _, command := range []string{"monitor", "agent"} {
					out, errs, code := run(t, append([]string{command, "--data", filepath.Join(dir, "data")}, args...)...)
					if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want[0]) {
						t.Errorf("%s: exit status %d, %q, %q", command, code, out, errs)
					}
				}
			}
			if said.Len() > 0 {
				t.Errorf("it warns: %s", &said)
			}
			e.Insecure = true
			if l, err = e.Listen(t.Context(), "0.0.0.0:0", log); err != nil || l.Close() != nil {
				t.Errorf("--insecure: %v", err)
			}
			if warns := strings.Contains(said.String(), "everyone who reaches this port can read") && strings.Contains(said.String(), "allowed_by=--insecure"); warns != (c.want != nil) {
				t.Errorf("--insecure says %q", &said)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused monitor made its data folder: %v", err)
	}
}

func TestWrongPortFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--host-name http://monitor.example":   "--host-name: \"http://monitor.example\": want only the name",
		"--host-name monitor.example:443":      "--host-name: \"monitor.example:443\": want only the name",
		"--listen 127.0.0.1":                   "listen on 127.0.0.1: address 127.0.0.1: missing port in address; --listen wants HOST:PORT",
		"--web-config /nonexistent/web.yml":    "web configuration /nonexistent/web.yml: open /nonexistent/web.yml: no such file",
		"--listen nowhere.invalid:1":           "listen on nowhere.invalid:1: lookup nowhere.invalid",
		"--listen 127.0.0.1:noport --insecure": "listen on 127.0.0.1:noport: ",
	} {
		t.Run(flags, func(t *testing.T) {
			if _, errs, code := run(t, append([]string{"agent"}, strings.Fields(flags)...)...); code != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s: exit status %d, %q, want %q", flags, code, errs, want)
			}
		})
	}
	for _, command := range []string{"agent", "monitor"} {
		const want = "missing port in address; --listen wants HOST:PORT"
		if _, errs, code := run(t, command, "--listen", ""); code != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s without an address: exit status %d, %q, want %q", command, code, errs, want)
		}
	}
	name := filepath.Join(t.TempDir(), "web.yml")
	writeFile(t, name, "tls: {}\n")
	if _, errs, code := run(t, "agent", "--web-config", name); code != exitUsage || !strings.Contains(errs, "web configuration "+name+": ") || !strings.Contains(errs, "tls") {
		t.Errorf("exit status %d, %q", code, errs)
	}
}

// runAgent runs an agent in this process until the test ends, and returns its port and its standard error.
func runAgent(t *testing.T, args ...string) (port string, errs *output) {
	t.Helper()
	out, errs := &output{}, &output{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	ended := make(chan int, 1)
	all.Go(func() {
		ended <- Main(ctx, Env{Args: append([]string{"agent", "--privileges", "keep", "--sources", "^self$"}, args...), Stdout: out, Stderr: errs})
	})
	await.Event(t, "the agent listens", func() error {
		if m := regexp.MustCompile(`metrics: https?://\S+:(\d+)/metrics\n`).FindStringSubmatch(out.String()); m != nil {
			port = m[1]
			return nil
		}
		if len(ended) > 0 {
			t.Fatalf("it ended with %d: %s", <-ended, errs)
		}
		return errors.New(out.String())
	})
	return port, errs
}

// TestInsecure: an agent that everybody may read warns, and answers by its addresses and its own names only.
func TestInsecure(t *testing.T) {
	port, errs := runAgent(t, "--listen", "0.0.0.0:0", "--insecure", "--host-name", "Proxy.example", "--host-name", "*.tee.example")
	for _, want := range []string{"level=WARN", "everyone who reaches this port can read", "Unix socket", "address=0.0.0.0:0", "--insecure"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it warns %q, want %s", errs, want)
		}
	}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	name := net.JoinHostPort("127.0.0.1", port)
	hosts := map[string]int{name: 200, "localhost:" + port: 200, own + ":" + port: 200, strings.ToUpper(own) + ".": 200, "proxy.example": 200, "a.tee.example:443": 200,
		"evil.example:" + port: 403, "0.0.0.0:" + port: 403}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs { // what a kubelet names
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			hosts[net.JoinHostPort(p.Addr().String(), port)] = 200
		}
	}
	for host, want := range hosts {
		for _, path := range []string{"/metrics", "/-/healthy", "/-/ready", "/api/teescope/v1/sources"} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+name+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != want || resp.Header.Get("Strict-Transport-Security") != "" {
				t.Errorf("%s by the name %s: %d %.300s, want %d", path, host, resp.StatusCode, text, want)
			}
			if host == "evil.example:"+port && !strings.Contains(string(text), "--host-name=evil.example") {
				t.Errorf("the refusal does not name the flag: %s", text)
			}
		}
	}
}

// TestProtected: with TLS and users nobody gets in without both, and once the file no longer has users, nobody gets in.
func TestProtected(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	file := filepath.Join(dir, "web.yml")
	writeFile(t, file, withTLS+"}\n"+withUsers)
	port, errs := runAgent(t, "--listen", "0.0.0.0:0", "--web-config", file)
	if errs.String() != "" {
		t.Errorf("it warns: %s", errs)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	ask := func(host, password string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port+"/-/healthy", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = host; password != "" {
			r.SetBasicAuth("ann", password)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0, nil, err.Error()
		}
		text, _ := io.ReadAll(resp.Body) // so the connection is used again
		_ = resp.Body.Close()
		return resp.StatusCode, resp.Header, string(text)
	}
	for _, c := range []struct {
		host, password string
		code           int
	}{
		{"127.0.0.1", "", 401}, {"127.0.0.1", "wrong", 401}, {"127.0.0.1", "fakepassword", 200},
		{"monitor.example:" + port, "fakepassword", 200}, {"a.pods.example", "fakepassword", 200}, {"pods.example", "fakepassword", 403}, {"evil.example", "fakepassword", 403},
	} {
		code, header, text := ask(c.host, c.password)
		if code != c.code {
			t.Errorf("%+v: %d %s", c, code, text)
		}
		if code != 401 && header.Get("Strict-Transport-Security") != "max-age=31536000" {
			t.Errorf("%+v: headers %v", c, header)
		}
	}
	resp, err := http.Get("http://127.0.0.1:" + port + "/-/healthy")
	if err == nil {
		if _ = resp.Body.Close(); resp.StatusCode == 200 {
			t.Error("it answers without TLS")
		}
	}
	for what, text := range map[string]string{"empty": "", "no users": withTLS + "}\n", "no TLS": withUsers, "no configuration": "tls: {}\n"} {
		t.Run(what, func(t *testing.T) {
			writeFile(t, file, text)
			if code, _, said := ask("127.0.0.1", ""); code == 200 {
				t.Errorf("%s: a stranger gets %s", what, said)
			}
			writeFile(t, file, withTLS+"}\n"+withUsers)
			if code, _, said := ask("127.0.0.1", "fakepassword"); code != 200 {
				t.Errorf("after %s, the file as it was: %d %s", what, code, said)
			}
		})
	}
	if !strings.Contains(errs.String(), "level=ERROR") || !strings.Contains(errs.String(), "has TLS but asks nobody") {
		t.Errorf("the log has %q", errs)
	}
}
