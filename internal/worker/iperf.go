package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/host"
)

// iperf measures a link with iperf3, and the CPU time during that measurement.
var iperf = Command{
	Name: "iperf",
	Doc:  "measure a link with iperf3, plain or through user-space WireGuard: between two network namespaces, or from here to a machine where it listens",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var l link
		f.BoolVar(&l.udp, "udp", false, "UDP instead of TCP")
		count(f, &l.streams, "streams", 1, 1, mostStreams, "streams at once")
		f.Float64Var(&l.rate, "rate", 0, "offered bits per second, all streams together; 0 is unlimited")
		f.StringVar(&l.congestion, "congestion", "cubic", "congestion control of TCP; \"\" is the machine's own")
		count(f, &l.mtu, "mtu", 1500, 1280, 65535, "largest packet of the link in bytes, a tunnel's is 80 less")
		f.BoolVar(&l.offload, "offload", true, "let the kernel pass up to 64 KiB over the link at once; =false for packets of the MTU at most")
		f.BoolVar(&l.tunnel, "wireguard", false, "send through a WireGuard tunnel over the link")
		f.DurationVar(&l.omit, "omit", time.Second, "time at the start that is not measured, in whole seconds")
		f.DurationVar(&l.measure, "measure", 10*time.Second, "measured time, in whole seconds")
		f.StringVar(&l.listen, "listen", "", "run only the far end, at this address (`HOST:PORT` of iperf3)")
		f.StringVar(&l.connect, "connect", "", "run only the near end, with the far end at this address")
		f.StringVar(&l.control, "control", "", "`PORT` there at which the near end tells the far one what to do")
		f.StringVar(&l.tunnelPort, "wireguard-port", "", "UDP `PORT` there of the tunnel")
		f.BoolVar(&l.reverse, "reverse", false, "send from the far end to the near end")
		return l.run
	},
}

// mostStreams is the maximum of iperf3 (its MAX_STREAMS).
const mostStreams = 128

// link describes the link to measure.
type link struct {
	udp, offload, tunnel bool
	streams, mtu         int
	rate                 float64
	congestion           string
	omit, measure        time.Duration
	// Of two machines; iperf_hosts.go.
	listen, connect, control, tunnelPort string
	reverse                              bool
}

// linkReport is the document of a run. Cores are CPU seconds per second of wall time, over the
// measured time without its edges.
type linkReport struct {
	Client json.RawMessage `json:"client"` // iperf3's own documents
	Server json.RawMessage `json:"server"`
	// Processes are the cores of "client", "server" and, with a tunnel, of its ends
	// "tunnel-near" and "tunnel-far".
	Processes map[string]float64 `json:"process_cores"`
	// Machine are the cores used on this machine, or on both: "busy", of which "softirq" is a part,
	// and "steal". Absent if a kernel does not count them, or for the reason in Unknown.
	Machine map[string]float64 `json:"machine_cores,omitempty"`
	Unknown string             `json:"machine_cores_unknown,omitempty"`
	Tunnel  *tunnelEnd         `json:"tunnel,omitempty"`
}

const (
	iperfPort     = 5201
	wireGuardPort = 51820
	// tunnelBytes is WireGuard's maximum overhead per packet: IPv6 40, UDP 8, its own 32
	// (wg-quick(8)).
	tunnelBytes = 80
	// segmentHeaders are those of IPv4 and TCP with timestamps, 52 bytes: a datagram carries as
	// much payload as a segment, which is iperf3's own choice if the kernel reports the segment
	// size (gVisor always reports 536).
	segmentHeaders = 52
	// ipHeaders are those of IPv4 and TCP without options.
	ipHeaders = 40
)

// patience is the time limit for everything except the measurement.
var patience = host.Patience(20 * time.Second)

func (l *link) run(ctx context.Context, s Streams) error {
	switch {
	case l.omit%time.Second != 0 || l.measure%time.Second != 0 || l.omit < 0 || l.measure <= 0:
		return fmt.Errorf("omit %s and measure %s: want whole seconds", l.omit, l.measure)
	case l.rate < 0:
		return fmt.Errorf("a rate of %g bits/s: want 0 for no limit, or more", l.rate)
	case l.listen != "" && l.connect != "":
		return errors.New("-listen and -connect: give only one of them, because an end is either near or far")
	case l.listen != "":
		return l.serve(ctx, s)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.omit+l.measure+patience, errors.New("iperf3 did not finish in time"))
	defer cancel()
	report := l.report
	if l.connect != "" {
		report = func(ctx context.Context) (*linkReport, error) { return l.measureNear(ctx, s) }
	}
	r, err := report(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	} else if err != nil {
		return err
	}
	return json.NewEncoder(s.Out).Encode(r)
}

func (l *link) report(ctx context.Context) (*linkReport, error) {
	j, err := join(ctx, l.mtu, l.offload)
	if err != nil {
		return nil, err
	}
	defer j.close()
	target := farLink
	running := map[string]int{} // process IDs by role
	r := &linkReport{}
	if l.tunnel {
		target = farTunnel
		if r.Tunnel, err = l.dig(ctx, j, running); err != nil {
			return nil, err
		}
	}
	server, err := j.far.start(ctx, iperfServer(l.interval(), iperfPort))
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := listening(ctx, server, iperfPort); err != nil {
		return nil, err
	}
	client, err := j.near.start(ctx, l.client(target, iperfPort))
	if err != nil {
		return nil, err
	}
	defer client.Stop()
	running["client"], running["server"] = client.PID, server.PID
	if err := l.watch(ctx, client, running, r, nil); err != nil {
		return nil, err
	}
	if r.Client, err = iperfDocument(client); err != nil {
		return nil, err
	}
	if r.Server, err = iperfDocument(server); err != nil {
		return nil, err
	}
	return r, nil
}

// iperfServer serves one client.
func iperfServer(interval string, port int) host.Cmd {
	return host.Cmd{Argv: []string{"iperf3", "--server", "--one-off", "--json", "--interval", interval, "--port", strconv.Itoa(port)}}
}

// client is iperf3's other end.
func (l *link) client(target string, port int) host.Cmd {
	argv := []string{"iperf3", "--client", target, "--port", strconv.Itoa(port), "--json",
		"--omit", seconds(l.omit), "--time", seconds(l.measure), "--parallel", strconv.Itoa(l.streams),
		"--interval", l.interval()}
	if l.connect != "" {
		argv = append(argv, "--get-server-output")
		if !l.udp { // the path may carry larger packets in some arms, such as the loopback
			argv = append(argv, "--set-mss", strconv.Itoa(l.path()-ipHeaders))
		}
	}
	if l.reverse {
		argv = append(argv, "--reverse")
	}
	switch {
	case l.udp:
		argv = append(argv, "--udp", "--length", strconv.Itoa(l.path()-segmentHeaders))
	case l.congestion != "":
		argv = append(argv, "--congestion", l.congestion)
	}
	if l.udp || l.rate > 0 { // UDP's own default is 1 Mbit/s
		argv = append(argv, "--bitrate", strconv.FormatFloat(l.rate/float64(l.streams), 'f', 0, 64))
	}
	return host.Cmd{Argv: argv}
}

// interval is the length of iperf3's reports: a tenth of a run, so a drift shows, but at least 0.1 s
// and at most 1 s.
func (l *link) interval() string {
	const shortest, longest = 100 * time.Millisecond, time.Second
	return strconv.FormatFloat(min(max(l.measure/10, shortest), longest).Seconds(), 'f', 2, 64)
}

// path is the largest packet on the measured path, in bytes.
func (l *link) path() int {
	if l.tunnel {
		return l.mtu - tunnelBytes
	}
	return l.mtu
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// dig makes the tunnel, with a process at each end of the link.
func (l *link) dig(ctx context.Context, j *joined, running map[string]int) (*tunnelEnd, error) {
	self, err := host.Local().FindOwnProgram("teescope-work")
	if err != nil {
		return nil, fmt.Errorf("find the worker for the tunnel: %w", err)
	}
	var keys [2]*ecdh.PrivateKey
	for i := range keys {
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return nil, fmt.Errorf("make a key for the tunnel: %w", err)
		}
	}
	var said *tunnelEnd
	for i, end := range []struct {
		name             string
		at               *namespace
		own, peer, inner string
	}{
		{"tunnel-near", j.near, nearTunnel, farLink, farTunnel},
		{"tunnel-far", j.far, farTunnel, nearLink, nearTunnel},
	} {
		config := fmt.Sprintf("private_key=%x\nlisten_port=%d\npublic_key=%x\nendpoint=%s:%d\nallowed_ip=%s/32\n",
			keys[i].Bytes(), wireGuardPort, keys[1-i].PublicKey().Bytes(), end.peer, wireGuardPort, end.inner)
		p, err := end.at.start(ctx, host.Cmd{Argv: []string{self, wireGuard.Name, "--device", "wg", "--mtu", strconv.Itoa(l.path())}, Stdin: []byte(config)})
		if err != nil {
			return nil, err
		}
		running[end.name] = p.PID
		if said, err = tunnelSays(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: %w", end.name, err)
		}
		for _, c := range []string{"address add " + end.own + "/24 dev wg", "link set dev wg up"} {
			if err := end.at.ip(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	return said, nil
}

// tunnelSays waits until an end of a tunnel works.
func tunnelSays(ctx context.Context, p *host.Process) (*tunnelEnd, error) {
	line, err := firstLine(ctx, p)
	if err != nil {
		return nil, err
	}
	said := new(tunnelEnd)
	if err := json.Unmarshal([]byte(line), said); err != nil {
		return nil, fmt.Errorf("cannot read the tunnel's line %.80q: %w", line, err)
	}
	return said, nil
}

// watch measures CPU times while the client runs, also at the far end of two machines. On a machine so busy that it
// looks too late there are none.
func (l *link) watch(ctx context.Context, client *host.Process, running map[string]int, r *linkReport, far *farEnd) error {
	// Half a second, because the client may end before a late second look; less of a short run.
	edge := min(max(l.measure/20, 500*time.Millisecond), l.measure/4)
	var begun *use
	for _, wait := range []time.Duration{l.omit + edge, l.measure - 2*edge} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-client.Done(): // its document says why, or this look is late and the times stay unknown
			return nil
		case <-time.After(wait):
		}
		if begun != nil {
			break
		}
		var err error
		if begun, err = beginUse(running); err != nil {
			return err
		}
		if err := far.begin(); err != nil {
			return err
		}
	}
	own, err := begun.stop()
	if err != nil {
		return err
	}
	there, err := far.stop()
	if err != nil {
		return err
	}
	r.Processes = own.Processes
	maps.Copy(r.Processes, there.Processes)
	r.Machine, r.Unknown = far.add(own.Machine, there.Machine)
	return nil
}

// use is the CPU time of processes and of their machine at a moment.
type use struct {
	running map[string]int // process IDs by role
	at      time.Time
	of      map[string]time.Duration
	machine map[string]float64
}

// cores is the CPU time of a stretch, in seconds per second of wall time.
type cores struct {
	Processes map[string]float64 `json:"processes"`
	Machine   map[string]float64 `json:"machine,omitempty"` // absent if the kernel does not count
}

func beginUse(running map[string]int) (*use, error) {
	u := &use{running: running, at: host.Local().Now(), of: map[string]time.Duration{}, machine: machineTime()}
	for name, pid := range running {
		t, err := processTime(pid)
		if err != nil {
			return nil, fmt.Errorf("read the CPU time of %s: %w", name, err)
		}
		u.of[name] = t
	}
	return u, nil
}

// stop returns what was used since.
func (u *use) stop() (*cores, error) {
	now, err := beginUse(u.running)
	if err != nil {
		return nil, err
	}
	wall := now.at.Sub(u.at).Seconds()
	c := &cores{Processes: map[string]float64{}}
	for name := range u.running {
		c.Processes[name] = (now.of[name] - u.of[name]).Seconds() / wall
	}
	if now.machine["busy"] > u.machine["busy"] { // a kernel that does not count says 0
		c.Machine = map[string]float64{}
		for name := range now.machine {
			c.Machine[name] = (now.machine[name] - u.machine[name]) / wall
		}
	}
	return c, nil
}

// processTime returns the user and system CPU time of a process from its clock
// (clock_getcpuclockid(3)): in nanoseconds, while /proc counts hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduler), &t)
	return time.Duration(t.Nano()), err
}

// machineTime returns the CPU time of all CPUs in seconds by kind; nil if it is unreadable.
func machineTime() map[string]float64 {
	text, err := host.Local().ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	m, err := parseMachine(text)
	if err != nil {
		return nil
	}
	out := map[string]float64{"busy": m.busy, "softirq": 0, "steal": m.stolen}
	for _, v := range m.softirq {
		out["softirq"] += v
	}
	return out
}

// listening waits until a process listens on a TCP port of its namespace (proc_net_tcp.rst). It
// must not connect: an iperf3 with --one-off serves only the first connection.
func listening(ctx context.Context, p *host.Process, port int) error {
	socket, listen := fmt.Sprintf(":%04X", port), "0A"
	for {
		for _, file := range []string{"tcp", "tcp6"} {
			b, _ := host.Local().ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.PID, file))
			for line := range bytes.Lines(b) {
				if f := strings.Fields(string(line)); len(f) > 3 && strings.HasSuffix(f[1], socket) && f[3] == listen {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Done():
			out, err := p.Wait()
			return host.WithReason(fmt.Errorf("the server of iperf3 did not start: %w", err), out)
		case <-time.After(poll):
		}
	}
}

// poll is how often a wait looks again.
const poll = 5 * time.Millisecond

// firstLine waits for a process's first line.
func firstLine(ctx context.Context, p *host.Process) (string, error) {
	for {
		if lines := p.Lines(); len(lines) > 0 {
			return lines[0].Text, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-p.Done():
			out, err := p.Wait()
			return "", host.WithReason(fmt.Errorf("it ended: %w", err), out)
		case <-time.After(poll):
		}
	}
}

// iperfDocument returns the output of an iperf3 that ends; it includes errors.
func iperfDocument(p *host.Process) (json.RawMessage, error) {
	out, err := p.Wait()
	var said struct {
		Error string `json:"error"`
	}
	text := bare.ReplaceAll(out.Stdout, []byte("${1}null"))
	text, bad := document.One(text)
	if bad == nil {
		bad = json.Unmarshal(text, &said)
	}
	switch {
	case bad != nil:
		return nil, host.WithReason(cmp.Or(err, fmt.Errorf("iperf3 printed no valid document: %w", bad)), host.Output{Stderr: out.Stderr})
	case said.Error != "":
		return nil, fmt.Errorf("iperf3: %s", said.Error)
	}
	return text, err
}

// bare matches nan and inf as printed by printf(3), which are not valid JSON (iperf issue 613): the value is unknown.
var bare = regexp.MustCompile(`([:\[,]\s*)-?(?:nan|inf)\b`)
