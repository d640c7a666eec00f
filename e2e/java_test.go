package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// javaPrograms compiles workloads/java with javac alone, as its Maven build does, and returns a
// folder with the archive and the classes.
func javaPrograms(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"javac", "java", "jar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here; package openjdk-17-jdk-headless has it", tool)
		}
	}
	dir, sources := t.TempDir(), "../workloads/java/src/main/java"
	files, err := filepath.Glob(sources + "/*/*.java")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Java sources: %v", err)
	}
	classes := filepath.Join(dir, "classes")
	said(t, append([]string{"javac", "--release", "17", "-Xlint:all", "-Werror", "-d", classes}, files...)...)
	said(t, "jar", "--create", "--file", filepath.Join(dir, "tls-bench.jar"), "-C", classes, ".")
	return dir
}

// worker returns the teescope-work next to the binary under test.
func worker() string { return filepath.Join(filepath.Dir(binary), "teescope-work") }

// said runs a program to its end and returns its output.
func said(t *testing.T, argv ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}

// tlsServer starts a server of the newline protocol. It returns its port and a function that
// stops it and returns its last line.
func tlsServer(t *testing.T, argv ...string) (port string, end func() string) {
	t.Helper()
	p := start(t, argv[0], argv[1:]...)
	await.Event(t, "the server is ready", func() error {
		if !strings.Contains(p.Out.String(), "\nready\n") {
			return fmt.Errorf("it said %q", p.Out)
		}
		return nil
	})
	_, after, _ := strings.Cut(p.Out.String(), "listening 127.0.0.1:")
	port, _, _ = strings.Cut(after, "\n")
	return port, func() string {
		p.Stop(syscall.SIGTERM)
		lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n")
		return lines[len(lines)-1]
	}
}

// TestJavaAndGo: both clients get the same answers to the same 10,000 messages from both
// servers, in both versions of TLS.
func TestJavaAndGo(t *testing.T) {
	programs, certs := javaPrograms(t), filepath.Join(t.TempDir(), "certs")
	classes := filepath.Join(programs, "classes")
	said(t, worker(), "certificate", "--out", certs)
	cert, key := filepath.Join(certs, "server.pem"), filepath.Join(certs, "server.key")
	servers := map[string][]string{
		"java": {"java", "-cp", classes, "server.BenchServer"},
		"go":   {worker(), "tlsserver"},
	}
	digests := map[string]bool{}
	for name, argv := range servers {
		for _, version := range []string{"1.2", "1.3"} {
			port, end := tlsServer(t, append(argv, "--port", "0", "--threads", "2", "--tls", version, "--cert", cert, "--key", key)...)
			var r struct {
				Requests int
				Digest   string
				Versions map[string]string
			}
			out := said(t, worker(), "tlsclient", "--address", "127.0.0.1:"+port, "--ca", cert, "--tls", version, "--clients", "2", "--messages", "10000")
			if err := json.Unmarshal([]byte(out), &r); err != nil || r.Requests != 10000 {
				t.Fatalf("%s, TLS %s: the client says %s, %v", name, version, out, err)
			}
			if digests[r.Digest] = true; !strings.HasSuffix(r.Versions["cipher"], "AES_128_GCM_SHA256") {
				t.Errorf("%s, TLS %s: the cipher is %s", name, version, r.Versions["cipher"])
			}
			text := said(t, "java", "-cp", classes, "client.BenchClient", "--host", "localhost", "--port", port, "--load-test", "--clients", "2", "--messages", "100",
				"--warm", "10", "--tls", version, "--ca", cert)
			if !strings.Contains(text, "clients 2, messages 200,") || !strings.Contains(text, "wrong answers 0") {
				t.Errorf("%s, TLS %s: the Java client says %s", name, version, text)
			}
			var last struct {
				Runtime  string `json:"runtime"`
				Messages int    `json:"messages"`
				Failed   int    `json:"failed"`
				Peak     int64  `json:"peak_rss_bytes"`
				Program  int64  `json:"program_bytes"`
			}
			statistics := end()
			if err := json.Unmarshal([]byte(statistics), &last); err != nil || last.Messages != 10000+1+220 || last.Failed != 0 || last.Peak <= 0 || last.Program <= 0 {
				t.Errorf("%s, TLS %s: the server's last line is %s, %v; want 10221 messages and its sizes", name, version, statistics, err)
			}
			t.Logf("%s, TLS %s: %s %s", name, version, statistics, strings.ReplaceAll(text, "\n", "; "))
		}
	}
	if len(digests) != 1 {
		t.Errorf("the servers gave different answers: %v", digests)
	}
}

// TestScalingExperiment runs an experiment with both servers. The engine checks that they do
// the same work.
func TestScalingExperiment(t *testing.T) {
	programs, dir := javaPrograms(t), t.TempDir()
	path := filepath.Join(dir, "r.json")
	_, errs, code := run(t, "bench", "run", "e10-sandbox", "--variants", "jvm-local,go-static", "--runs", "1", "--no-counters", "--data", dir, "--out", path,
		"--param", "programs="+programs, "--param", "clients=2|4", "--param", "scaling=strong", "--param", "strong-total=1000", "--param", "warm=10",
		"--metric", "server_start_seconds")
	if code != 0 && code != 3 { // one pair gives no verdict
		t.Fatalf("exit status %d: %s", code, errs)
	}
	e := whole(t, path)
	digests := map[string]bool{}
	for i := range e.Runs {
		r := &e.Runs[i]
		digests[r.OutputDigest] = true
		for _, name := range []string{"messages_per_second", "server_start_seconds", "load_seconds", "first_handshake_seconds", "first_message_seconds",
			"peak_rss_bytes", "program_bytes"} {
			if m := r.Metric(name); m == nil || m.Value == nil || !(*m.Value > 0) {
				t.Errorf("%s (%s %s): %s is %v", r.ID, r.Status, r.Reason, name, valueOf(m))
			}
		}
	}
	if len(e.Runs) != 4 || len(digests) != 1 {
		t.Errorf("%d runs with the digests %v, want 4 with one", len(e.Runs), digests)
	}
	plots := filepath.Join(dir, "plots")
	said(t, binary, "report", path, "--out", filepath.Join(dir, "report.html"), "--plots", plots)
	for _, name := range []string{"start.svg", "scaling.svg", "scaling.png"} {
		if _, err := os.Stat(filepath.Join(plots, name)); err != nil {
			t.Errorf("a plot is not there: %v", err)
		}
	}
}

// TestMaven builds the Java programs as a user does. The first time, Maven fetches its plugins
// from its repository.
func TestMaven(t *testing.T) {
	for _, tool := range []string{"mvn", "javac", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not here; packages maven, openjdk-17-jdk-headless and make have what is needed", tool)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../workloads/java")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "target")); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "make", "-C", dir, "jar")
	if out, err := c.CombinedOutput(); strings.Contains(string(out), "ould not transfer") || strings.Contains(string(out), "in offline mode") {
		t.Skipf("Maven cannot reach its repository: %.200s", out)
	} else if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "target/tls-bench.jar.build")); err != nil || len(b) < 2 {
		t.Errorf("the build notes %q as its time, %v", b, err)
	}
	if text := said(t, "jar", "--list", "--file", filepath.Join(dir, "target/tls-bench.jar")); !strings.Contains(text, "server/BenchServer.class") || !strings.Contains(text, "client/BenchClient.class") {
		t.Errorf("the archive has %s", text)
	}
	javaRefusals(t, filepath.Join(dir, "target/classes"))
}

// javaRefusals: errors of the Java programs are one line with what was tried, what happened and
// what to do, and the exit status is not 0.
func javaRefusals(t *testing.T, classes string) {
	t.Helper()
	dir := t.TempDir()
	said(t, worker(), "certificate", "--out", dir)
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	locked := file("locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
	broken := file("broken.key", "-----BEGIN PRIVATE KEY-----\nMIIB!\n-----END PRIVATE KEY-----\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	server := []string{"server.BenchServer", "--port", "0", "--cert"}
	const maker = "teescope-work certificate"
	for _, c := range []struct {
		name string
		argv []string
		want []string
	}{
		{"no key", append(server, cert, "--key", filepath.Join(dir, "none.key")), []string{"read key", "none.key", "no such file", maker}},
		{"a key with a password", append(server, cert, "--key", locked), []string{"read key", "ENCRYPTED", "without a password", maker}},
		{"a key that is none", append(server, cert, "--key", broken), []string{"read key", "PKCS #8", maker}},
		{"a certificate for a key", append(server, cert, "--key", cert), []string{"read key", "no private key", maker}},
		{"a key for a certificate", append(server, key, "--key", key), []string{"read certificate", "server.key", maker}},
		{"a port in use", append(server, cert, "--key", key, "--port", port), []string{"listen on 127.0.0.1:" + port, "in use", "--port"}},
		{"no such host", append(server, cert, "--key", key, "--host", "192.0.2.1"), []string{"listen on 192.0.2.1:0", "--host"}},
		{"no server", []string{"client.BenchClient", "--host", "127.0.0.1", "--port", "1", "--ca", cert}, []string{"connect to 127.0.0.1:1", "refused", "start the server"}},
		{"a client without certificate", []string{"client.BenchClient", "--ca", filepath.Join(dir, "none.pem")}, []string{"read certificate", "no such file", maker}},
	} {
		p := exec.CommandContext(t.Context(), "java", append([]string{"-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", classes}, c.argv...)...)
		var errs strings.Builder
		p.Stderr = &errs
		if err := p.Run(); p.ProcessState == nil || p.ProcessState.ExitCode() != 1 || strings.Count(errs.String(), "\n") != 1 || !strings.HasPrefix(errs.String(), c.argv[0]+": ") {
			t.Errorf("%s: %v, want exit status 1 and one line, not %q", c.name, err, errs.String())
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s: it says %q, want %q", c.name, errs.String(), want)
			}
		}
	}
}
