package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/result"
)

// ethernet are network namespaces that stand for machines on one Ethernet. Each lives as long as a program of the test, so
// nothing is left however the test ends.
// stand-in: namespaces
type ethernet struct {
	at map[string][]string // by name, the command that brings another there
}

// The addresses are for documentation (RFC 5737).
var addresses = map[string]string{"here": "198.51.100.1", "server": "198.51.100.2", "client": "198.51.100.3"}

// newEthernet joins the machine "here" with others.
func newEthernet(t *testing.T, others ...string) *ethernet {
	t.Helper()
	tool(t, "ip", "iproute2")
	unshare, nsenter := tool(t, "unshare", "util-linux"), tool(t, "nsenter", "util-linux")
	if out, err := exec.Command(unshare, "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("network namespaces cannot be made here: %v: %s", err, out)
	}
	e := &ethernet{at: map[string][]string{}}
	for i, name := range append([]string{"here"}, others...) {
		c := exec.Command(unshare, "--net", "cat")
		p := await.Converse(t, c)
		if _, err := fmt.Fprintln(p.In, name); err != nil {
			t.Fatal(err)
		}
		if line := p.Line(t); line != name { // it is in its namespace
			t.Fatalf("it says %q", line)
		}
		pid := strconv.Itoa(c.Process.Pid)
		e.at[name] = []string{nsenter, "--target", pid, "--net"}
		e.ip(t, name, "link set dev lo up")
		if i == 0 {
			if _, said, code := e.run(t, name, "ip", "link", "add", "name", "lan", "type", "bridge"); code != 0 {
				t.Skipf("this kernel makes no bridge: %s", strings.TrimSpace(said))
			}
			e.ip(t, name, "address add "+addresses[name]+"/24 dev lan")
			e.ip(t, name, "link set dev lan up")
			continue
		}
		e.ip(t, "here", "link add name "+name+" type veth peer name eth0 netns "+pid)
		e.ip(t, "here", "link set dev "+name+" master lan up")
		e.ip(t, name, "address add "+addresses[name]+"/24 dev eth0")
		e.ip(t, name, "link set dev eth0 up")
		// A delay, where the kernel has netem: what is tested holds with and without.
		if _, said, code := e.run(t, name, "tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "2ms"); code != 0 {
			t.Logf("%s has no delay: tc netem: %s", name, strings.TrimSpace(said))
		}
	}
	return e
}

func (e *ethernet) ip(t *testing.T, name, words string) {
	t.Helper()
	if _, said, code := e.run(t, name, append([]string{"ip"}, strings.Fields(words)...)...); code != 0 {
		t.Fatalf("%s: ip %s: %s", name, words, said)
	}
}

// run runs a command on a machine to its end.
func (e *ethernet) run(t *testing.T, name string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runArgv(t, append(append([]string{}, e.at[name]...), argv...)...)
}

// bench runs a benchmark from the machine "here" and returns its result. It must make all runs; pairs too few for a
// verdict are fine.
func (e *ethernet) bench(t *testing.T, args ...string) *result.Experiment {
	t.Helper()
	out := filepath.Join(t.TempDir(), "r.json")
	argv := append([]string{binary, "bench", "run"}, args...)
	if _, said, code := e.run(t, "here", append(argv, "--pairs", "1", "--no-counters", "--out", out, "--data", t.TempDir())...); code != 0 && code != 3 {
		t.Fatalf("exit status %d: %s", code, said)
	}
	return whole(t, out)
}

// ssh starts an sshd on a machine.
func (e *ethernet) ssh(t *testing.T, name, lines string, by ...string) *sshServer {
	t.Helper()
	return startSSHAt(t, addresses[name], append(append([]string{}, e.at[name]...), by...), lines)
}

// moved returns the bytes that have come and gone at the card of a machine.
func (e *ethernet) moved(t *testing.T, name string) (received, sent float64) {
	t.Helper()
	text, _, _ := e.run(t, name, "cat", "/proc/net/dev")
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 9 && f[0] == "eth0:" {
			for i, to := range map[int]*float64{1: &received, 9: &sent} {
				v, err := strconv.ParseFloat(f[i], 64)
				if err != nil {
					t.Fatal(err)
				}
				*to = v
			}
		}
	}
	return received, sent
}

// metricSum is the sum of a metric over the runs of an environment with a value of a parameter.
func metricSum(t *testing.T, e *result.Experiment, env, name string, of func(result.Case) bool) (sum float64) {
	t.Helper()
	for i := range e.Runs {
		r := &e.Runs[i]
		for _, c := range e.Cases {
			if c.ID == r.Case && r.Env == env && of(c) {
				m := r.Metric(name)
				if m == nil || m.Value == nil {
					t.Fatalf("%s has no %s", r.ID, name)
				}
				sum += *m.Value
			}
		}
	}
	return sum
}

// TestTwoHosts: iperf3 between two machines next to the same on one, TCP and UDP, in both directions. What was sent has
// passed the cards in the direction that was asked for.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	tool(t, "iperf3", "iperf3")
	net := newEthernet(t, "server")
	server := net.ssh(t, "server", "")
	received, sent := net.moved(t, "server")
	e := net.bench(t, "iperf", "--env", "one-host=native", "--env", "two-hosts="+server.env(), "--param", "peer=outside", "--param", "protocol=tcp|udp", "--param", "direction=to-server|to-client",
		"--param", "streams=1", "--param", "rate=4000000", "--param", "omit=0s", "--param", "measure=2s", "--metric", "sent_bytes_total")
	afterReceived, afterSent := net.moved(t, "server")
	towards := func(d string) float64 {
		return metricSum(t, e, "two-hosts", "sent_bytes_total", func(c result.Case) bool { return c.Params["direction"] == d })
	}
	if got, want := afterReceived-received, towards("to-server"); want == 0 || got < want {
		t.Errorf("the server's card received %v bytes, and %v bytes of payload were sent to it", got, want)
	}
	if got, want := afterSent-sent, towards("to-client"); want == 0 || got < want {
		t.Errorf("the server's card sent %v bytes, and %v bytes of payload came from it", got, want)
	}
	one, two := e.Environment("one-host"), e.Environment("two-hosts")
	for _, c := range []struct {
		env       *result.Environment
		key, want string
	}{
		{one, "near.interface", "lo"}, {one, "far.interface", "lo"},
		{two, "near.interface", "lan"}, {two, "near.path_mtu", "1500"}, {two, "far.interface", "eth0"}, {two, "far.mtu", "1500"}, {two, "far.driver", "veth"}, {two, "far.offload.tso", "on"},
	} {
		if got := c.env.Path[c.key]; got != c.want {
			t.Errorf("%s of %s is %q, want %q: %v", c.key, c.env.ID, got, c.want, c.env.Path)
		}
	}
	if one.Network == two.Network || one.Fingerprint == two.Fingerprint || one.Clock != nil {
		t.Errorf("networks %q and %q, clock of this machine %v", one.Network, two.Network, one.Clock)
	}
	if c := two.Clock; c == nil || math.Abs(c.Seconds) > c.Uncertainty || two.Boot == "" { // it is one clock
		t.Errorf("clock %+v, boot ID %q", c, two.Boot)
	}

	_, said, code := net.run(t, "here", binary, "bench", "run", "iperf", "--env", server.env(), "--param", "peer=outside", "--param", "mtu=9000", "--param", "streams=1", "--pairs", "1", "--no-counters",
		"--out", filepath.Join(t.TempDir(), "r.json"), "--data", t.TempDir())
	if code == 0 || !strings.Contains(said, "at most 1500 bytes") {
		t.Errorf("packets that are too large for the path: exit status %d: %s", code, said)
	}
}

// TestThreeHosts: the server on one machine, its load on a second, and this one a third: directly, through ssh, and
// through a tunnel.
func TestThreeHosts(t *testing.T) {
	t.Parallel()
	tool(t, "redis-server", "redis-server")
	tool(t, "iperf3", "iperf3")
	net := newEthernet(t, "server", "client")
	server, client := net.ssh(t, "server", ""), net.ssh(t, "client", "")
	const requests = 500
	before, _ := net.moved(t, "client")
	e := net.bench(t, "redis", "--env", "direct="+server.env(), "--env", "forwarded="+server.env("through=ssh"), "--client", client.client(), "--param", "connections=2", "--param", "pipeline=1",
		"--param", "keys=100", "--param", "warm=50ms", "--param", "requests="+strconv.Itoa(requests), "--metric", "server_cpu_per_request_seconds")
	for i := range e.Runs {
		if m := e.Runs[i].Metric("requests_total"); m == nil || m.Value == nil || *m.Value != requests {
			t.Errorf("%s: requests_total is %v, want %d", e.Runs[i].ID, valueOf(m), requests)
		}
	}
	const answer = 64 // bytes of a value
	if after, _ := net.moved(t, "client"); after-before < 2*requests*answer {
		t.Errorf("the client's card received %v bytes, less than the answers have", after-before)
	}
	direct, forwarded := e.Environments[0], e.Environments[1]
	if !strings.Contains(forwarded.Network, "ssh, in one encrypted connection") || strings.Contains(direct.Network, "encrypted") || direct.Fingerprint == forwarded.Fingerprint {
		t.Errorf("networks %q and %q", direct.Network, forwarded.Network)
	}
	if c := e.Design.ClientClock; c == nil || math.Abs(c.Seconds) > c.Uncertainty || e.Design.Client != "ssh:"+client.user+"@"+client.address {
		t.Errorf("client %q, its clock %+v", e.Design.Client, c)
	}

	e = net.bench(t, "channel", "--env", server.env(), "--client", client.client(), "--param", "measure=echo", "--param", "peer=outside", "--param", "size=1KiB", "--param", "windows=2", "--param", "window=10ms", "--param", "warm=10ms",
		"--metric", "plain_echo_mean_seconds")
	if p := e.Environments[0].Path; p["near.interface"] != "eth0" || p["far.interface"] != "eth0" || p["near.path_mtu"] != "1500" {
		t.Errorf("path of the channel: %v", p)
	}

	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("the tunnel was left out: it needs /dev/net/tun")
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("the tunnel was left out: user namespaces cannot be made here: %v: %s", err, out)
	}
	e = net.bench(t, "iperf", "--env", "plain="+server.env("tunnel=none"), "--env", "wireguard="+server.env("tunnel=wireguard"), "--client", client.client(), "--param", "peer=outside", "--param", "streams=1",
		"--param", "rate=4000000", "--param", "omit=0s", "--param", "measure=2s", "--metric", "sent_bytes_total")
	if m := e.Runs[len(e.Runs)-1].Metric("received_bits_per_second"); m == nil {
		t.Error("nothing was received")
	}
	for _, s := range []*sshServer{server, client} {
		if left, err := os.ReadDir(s.temp); err != nil || len(left) > 0 {
			t.Errorf("left behind at %s: %v, %v", s.address, left, err)
		}
	}
}

// TestHostsFail: each fault of another machine ends with one line that names it.
func TestHostsFail(t *testing.T) {
	t.Parallel()
	net := newEthernet(t, "server")
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The machine's clock is an hour ahead, and its boot ID is a file.
	tools := filepath.Join(dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	write("tools/date", "#!/bin/sh\nexec /bin/date -d '+1 hour' \"$@\"\n", 0o755)
	boot := write("boot", "first\n", 0o644)
	server := net.ssh(t, "server", "AllowTcpForwarding no\nSetEnv PATH="+tools+":/usr/local/bin:/usr/bin:/bin", "unshare", "--mount", "sh", "-c",
		`mount --bind `+boot+` /proc/sys/kernel/random/boot_id && exec "$@"`, "sh")

	bench := func(name string, more ...string) (*result.Experiment, string, int) {
		t.Helper()
		out := filepath.Join(dir, name+".json")
		_, said, code := net.run(t, "here", append([]string{binary, "bench", "run", "--no-counters", "--out", out, "--data", t.TempDir()}, more...)...)
		e, err := result.Read(out)
		if err != nil {
			e = nil
		}
		return e, said, code
	}
	line := func(what, said, want string, code, wantCode int) {
		t.Helper()
		last := strings.TrimSpace(said[strings.LastIndexByte(strings.TrimSpace(said), '\n')+1:])
		if code != wantCode || !strings.Contains(last, want) {
			t.Errorf("%s: exit status %d, the last line is %q, want %d and %q", what, code, last, wantCode, want)
		}
	}
	// The job counts its runs in a file. The first is not counted by the benchmark, and in the third it ends its connection:
	// the process above the agent is sshd's.
	job := func(name, also string) string {
		count := filepath.Join(dir, name)
		return "sh -c 'echo >>" + count + "; if [ $(wc -l <" + count + ") = 3 ]; then " + also + "kill -9 $(sed -n \"s/^PPid:[[:space:]]*//p\" /proc/$PPID/status); sleep 600; fi'"
	}

	_, said, code := bench("key", "null", "--pairs", "1", "--env", strings.Replace(server.env(), filepath.Join(server.dir, "user"), filepath.Join(server.dir, "other"), 1))
	line("another key", said, "Permission denied", code, 4)

	e, said, code := bench("cut", "custom", "--pairs", "3", "--env", server.env(), "--param", "command="+job("cuts", ""))
	if e == nil || code != 0 && code != 3 {
		t.Fatalf("a connection that was cut: exit status %d: %s", code, said)
	}
	for i := range e.Runs {
		r := &e.Runs[i]
		if cut := i == 1; cut != (r.Status == result.Failed) || cut && (!strings.Contains(r.Reason, "connection to the environment was lost") || strings.Contains(r.Reason, "\n")) {
			t.Errorf("%s: %s, %q", r.ID, r.Status, r.Reason)
		}
	}
	if c := e.Environments[0].Clock; c == nil || math.Abs(c.Seconds-3600) > c.Uncertainty {
		t.Errorf("the clock is an hour ahead: %+v", c)
	}
	told := false
	for _, g := range e.Guards {
		told = told || g.ID == "machine-clocks" && strings.Contains(g.Message, "ahead of teescope's clock")
	}
	if !told {
		t.Errorf("no guard tells of the clocks: %+v", e.Guards)
	}

	_, said, code = bench("boot", "custom", "--pairs", "3", "--env", server.env(), "--param", "command="+job("boots", "echo second >"+boot+"; "))
	line("a machine that was rebooted", said, "the machine was rebooted", code, 4)

	if _, err := exec.LookPath("iperf3"); err == nil {
		_, said, _ = bench("forward", "iperf", "--pairs", "3", "--env", server.env("through=ssh"), "--param", "peer=outside", "--param", "streams=1", "--param", "measure=1s")
		if !strings.Contains(said, "AllowTcpForwarding") {
			t.Errorf("an sshd that forwards nothing: %s", said)
		}
	}
	_, said, code = bench("udp", "iperf", "--pairs", "1", "--env", server.env("through=ssh"), "--param", "peer=outside", "--param", "protocol=udp", "--param", "streams=1")
	line("UDP through ssh", said, "which ssh does not forward", code, 4)
	if left, err := os.ReadDir(server.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
