package worker

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"

	"github.com/teescope/teescope/internal/host"
)

// A link between two machines has an end on each. The far one listens for a control connection, over which the near
// one tells it in lines of JSON when to start iperf3 and which stretch to measure. A tunnel's device is in a network
// namespace of its own, so nothing changes in the network of the machines; its datagrams are sent in theirs.

// farOrder is what the far end is to do.
type farOrder struct {
	Do       string `json:"do"` // open, begin, end
	Interval string `json:"interval,omitempty"`
	Key      string `json:"key,omitempty"` // the near end's, in hexadecimal; a tunnel is made if it is there
	MTU      int    `json:"mtu,omitempty"` // of the tunnel
}

// farAnswer is its answer.
type farAnswer struct {
	Error string `json:"error,omitempty"`
	Key   string `json:"key,omitempty"`
	Boot  string `json:"boot_id,omitempty"`
	Cores *cores `json:"cores,omitempty"`
}

// farEnd is the near end's view of the far one; nil is none, which used no CPU.
type farEnd struct {
	say       *json.Encoder
	hear      *json.Decoder
	elsewhere bool // under another kernel, by its boot ID
	hidden    bool // the way there begins at the loopback or is unknown: a port forward
}

// add adds the CPU time of the far end's machine to that of the near end's, nil if it is unknown. Behind a port forward the
// other kernel may be a guest of this machine, whose CPU time would count twice.
func (f *farEnd) add(near, far map[string]float64) (sum map[string]float64, unknown string) {
	switch {
	case f == nil:
		return near, ""
	case near == nil || far == nil:
		return nil, ""
	case !f.elsewhere: // both ends are on one machine, which is counted
		return near, ""
	case f.hidden:
		return nil, "the far end is behind a port forward, perhaps in a guest of this machine, whose CPU time would count twice"
	}
	sum = maps.Clone(near)
	for name, cores := range far {
		sum[name] += cores
	}
	return sum, ""
}

func bootID() string {
	id, _ := host.Local().ReadString("/proc/sys/kernel/random/boot_id")
	return id
}

func (f *farEnd) order(o farOrder) (*farAnswer, error) {
	var a farAnswer
	err := f.say.Encode(o)
	if err == nil {
		err = f.hear.Decode(&a)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("far end: control connection: %w", err)
	case a.Error != "":
		return nil, fmt.Errorf("far end: %s", a.Error)
	}
	return &a, nil
}

func (f *farEnd) begin() error {
	if f == nil {
		return nil
	}
	_, err := f.order(farOrder{Do: "begin"})
	return err
}

func (f *farEnd) stop() (*cores, error) {
	if f == nil {
		return &cores{}, nil
	}
	a, err := f.order(farOrder{Do: "end"})
	if err == nil && a.Cores == nil {
		err = errors.New("the far end did not report the CPU time that it used")
	}
	if err != nil {
		return nil, err
	}
	return a.Cores, nil
}

// measureNear measures from here to the far end.
func (l *link) measureNear(ctx context.Context, s Streams) (*linkReport, error) {
	target, text, err := net.SplitHostPort(l.connect)
	if err != nil {
		return nil, fmt.Errorf("-connect: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("-connect %q: want HOST:PORT", l.connect)
	}
	c, err := reach(ctx, net.JoinHostPort(target, l.control))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	end, unknown := linkTo(net.JoinHostPort(target, l.control))
	if err := sayLink(s.Out, end, unknown); err != nil {
		return nil, err
	}
	if unknown == nil && end.PathMTU < l.mtu {
		return nil, fmt.Errorf("the path to %s carries packets of at most %d bytes, less than mtu=%d: set mtu=%d in all environments", target, end.PathMTU, l.mtu, end.PathMTU)
	}
	r := &linkReport{}
	far := &farEnd{say: json.NewEncoder(c), hear: json.NewDecoder(c)}
	running := map[string]int{}
	start := host.Local().Start
	open := farOrder{Do: "open", Interval: l.interval()}
	var at *namespace
	var key *ecdh.PrivateKey
	if l.tunnel {
		if at, err = newNamespace(); err != nil {
			return nil, err
		}
		defer at.close()
		start = at.start
		if key, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return nil, fmt.Errorf("make a key for the tunnel: %w", err)
		}
		open.Key, open.MTU = hex.EncodeToString(key.PublicKey().Bytes()), l.path()
	}
	a, err := far.order(open)
	if err != nil {
		return nil, err
	}
	far.elsewhere, far.hidden = a.Boot != bootID(), unknown != nil || end.Interface == "lo"
	if l.tunnel {
		config := fmt.Sprintf("private_key=%x\npublic_key=%s\nendpoint=%s:%s\nallowed_ip=%s/32\n", key.Bytes(), a.Key, target, l.tunnelPort, farTunnel)
		if r.Tunnel, err = digEnd(ctx, at, "tunnel-near", config, nearTunnel, l.path(), running); err != nil {
			return nil, err
		}
		target, port = farTunnel, iperfPort
	}
	client, err := start(ctx, l.client(target, port))
	if err != nil {
		return nil, fmt.Errorf("%w (package iperf3)", err)
	}
	defer client.Stop()
	running["client"] = client.PID
	if err := l.watch(ctx, client, running, r, far); err != nil {
		return nil, err
	}
	both, err := iperfDocument(client)
	if err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(both, &parts); err != nil {
		return nil, fmt.Errorf("document of iperf3: %w", err)
	}
	if r.Server = parts["server_output_json"]; r.Server == nil {
		return nil, errors.New("document of iperf3: the server's part is missing (iperf3 3.1 and later sends it)")
	}
	delete(parts, "server_output_json")
	r.Client, err = json.Marshal(parts)
	return r, err
}

// serve is the far end. It serves one near end, and is then ended by the harness.
func (l *link) serve(ctx context.Context, s Streams) error {
	name, text, err := net.SplitHostPort(l.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("-listen %q: want HOST:PORT", l.listen)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(name, l.control))
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	link, unknown := linkOf(listener.Addr().String())
	if err := sayLink(s.Out, link, unknown); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "listening")
	c, err := listener.Accept()
	switch {
	case ctx.Err() != nil: // the near end could not even connect, and says why
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	end := &servingEnd{address: name, port: port, tunnelPort: l.tunnelPort, running: map[string]int{}}
	defer end.close()
	say, hear := json.NewEncoder(c), json.NewDecoder(c)
	for {
		var o farOrder
		if hear.Decode(&o) != nil { // the near end has ended, and says why
			<-ctx.Done()
			return nil
		}
		a, err := end.follow(ctx, o)
		if err != nil {
			a = &farAnswer{Error: err.Error()}
		}
		if err := say.Encode(a); err != nil {
			return fmt.Errorf("control connection: %w", err)
		}
	}
}

// servingEnd is the far end at work.
type servingEnd struct {
	address, tunnelPort string
	port                int
	at                  *namespace // of the tunnel; nil without one
	server              *host.Process
	running             map[string]int
	begun               *use
}

func (e *servingEnd) follow(ctx context.Context, o farOrder) (*farAnswer, error) {
	switch {
	case o.Do == "open" && e.server == nil:
		return e.open(ctx, o)
	case o.Do == "begin" && e.server != nil:
		var err error
		e.begun, err = beginUse(e.running)
		return &farAnswer{}, err
	case o.Do == "end" && e.begun != nil:
		used, err := e.begun.stop()
		return &farAnswer{Cores: used}, err
	}
	return nil, fmt.Errorf("unexpected order %q", o.Do)
}

// open starts iperf3, in the tunnel if there is one.
func (e *servingEnd) open(ctx context.Context, o farOrder) (*farAnswer, error) {
	if v, err := strconv.ParseFloat(o.Interval, 64); err != nil || !(v > 0 && v < 100) {
		return nil, fmt.Errorf("interval %q: want seconds", o.Interval)
	}
	a := &farAnswer{Boot: bootID()}
	server, start := iperfServer(o.Interval, e.port), host.Local().Start
	port := e.port
	if o.Key == "" {
		server.Argv = append(server.Argv, "--bind", e.address)
	} else {
		peer, err := hex.DecodeString(o.Key)
		if err != nil || len(peer) != 32 || o.MTU < 1200 || o.MTU > 65535 {
			return nil, fmt.Errorf("a tunnel with a key of %d bytes and an MTU of %d: want 32 and at least 1200", len(peer), o.MTU)
		}
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key for the tunnel: %w", err)
		}
		if e.at, err = newNamespace(); err != nil {
			return nil, err
		}
		// The near end's address is learned from its first datagram.
		config := fmt.Sprintf("private_key=%x\nlisten_port=%s\npublic_key=%x\nallowed_ip=%s/32\n", key.Bytes(), e.tunnelPort, peer, nearTunnel)
		if _, err := digEnd(ctx, e.at, "tunnel-far", config, farTunnel, o.MTU, e.running); err != nil {
			return nil, err
		}
		a.Key = hex.EncodeToString(key.PublicKey().Bytes())
		start, port = e.at.start, iperfPort
		server = iperfServer(o.Interval, port)
	}
	var err error
	if e.server, err = start(ctx, server); err != nil {
		return nil, fmt.Errorf("%w (package iperf3)", err)
	}
	e.running["server"] = e.server.PID
	return a, listening(ctx, e.server, port)
}

func (e *servingEnd) close() {
	if e.server != nil {
		e.server.Stop()
	}
	if e.at != nil {
		e.at.close()
	}
}

// digEnd makes one end of a tunnel whose device is in a namespace, and adds its process to those that run.
func digEnd(ctx context.Context, at *namespace, name, config, own string, mtu int, running map[string]int) (*tunnelEnd, error) {
	self, err := host.Local().FindOwnProgram("teescope-work")
	if err != nil {
		return nil, fmt.Errorf("find the worker for the tunnel: %w", err)
	}
	p, err := host.Local().Start(ctx, host.Cmd{Argv: []string{self, wireGuard.Name, "--device", "wg", "--netns", at.path, "--mtu", strconv.Itoa(mtu)}, Stdin: []byte(config)})
	if err != nil {
		return nil, err
	}
	said, err := tunnelSays(ctx, p)
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	maps.Copy(running, map[string]int{name: p.PID})
	for _, c := range []string{"link set dev lo up", "address add " + own + "/24 dev wg", "link set dev wg up"} {
		if err := at.ip(ctx, c); err != nil {
			p.Stop()
			return nil, err
		}
	}
	return said, nil
}
