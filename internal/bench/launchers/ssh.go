package launchers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// ssh reaches a confidential VM that someone else has started.
var ssh = bench.Launcher{
	Name: "ssh",
	Doc: "Runs the job on another Linux machine through the system's ssh client, with one connection per environment. The work folder on the other machine is removed at the end. " +
		"The job uses the other machine's installed programs; this machine's counters do not count their events. A load from outside reaches the servers directly, or with through=ssh through ssh's port forwarding.",
	Remote:    true,
	Elsewhere: func(bench.Params) bool { return true },
	Short:     "host",
	Params: []bench.Param{
		{Name: "host", Doc: "The other machine, as HOST, USER@HOST or a name in the ssh client's configuration; ssh:HOST is short for ssh,host=HOST."},
		{Name: "port", Doc: "Port of the other machine's sshd. Empty: the ssh client's configuration."},
		{Name: "identity", Path: true, Doc: "File of the private key. Empty: the ssh client's configuration."},
		{Name: "options", Doc: "More options for the ssh client, as NAME=VALUE words (ssh_config(5))."},
		{Name: "address", Doc: "IPv4 address of the other machine, on which the servers listen and at which the load reaches the servers. Empty: the address of the ssh connection."},
		{Name: "through", Doc: "How a load from outside reaches servers on the other machine. direct: through the network. ssh: through an ssh connection that forwards the ports; the encryption of ssh is then part of the result.",
			Default: throughDirect, Values: []string{throughDirect, throughSSH}},
		{Name: "work", Doc: "Folder on the other machine in which the work folder is made.", Default: "/tmp"},
		{Name: "data", Doc: "Folder of the other machine on the disk under test; teescope makes its own folder in it and removes it at the end. Empty: the work folder."},
	},
	Check: func(h *host.Host, p bench.Params) error {
		needs := []need{{Command: "ssh", Hint: "package openssh-client"}}
		if p["identity"] != "" {
			needs = append(needs, need{Path: p["identity"], Hint: "the private key that identity names"})
		}
		if err := missing(h, needs...); err != nil {
			return err
		}
		return sshParams(p)
	},
	Refuses: func(p bench.Params, job bench.Job) error {
		if p["through"] == throughSSH && job.Datagrams {
			return errors.New("the load sends UDP, which ssh does not forward (through=ssh): use through=direct")
		}
		return nil
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		cs := []host.Cmd{sshCommand(p)}
		if p["through"] == throughSSH && job.Outside != nil {
			cs = append(cs, sshClient(p, forwarded, "-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO", "-L", "{host}:{port}:127.0.0.1:{port there}"))
		}
		return append(cs, job.Inside), sshParams(p)
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		if err := sshParams(p); err != nil {
			return nil, err
		}
		e := &sshEnv{shell: shell{h: h, launcher: "ssh", to: p["host"], way: "the network between the machines, not through ssh", params: p,
			dial: func(context.Context) (host.Cmd, error) { return sshCommand(p), nil }}}
		if err := e.connect(ctx); err != nil {
			return nil, err
		}
		return e, nil
	},
}

// Values of the parameter through.
const (
	throughDirect = "direct"
	throughSSH    = "ssh"
)

func sshParams(p bench.Params) error {
	if p["host"] == "" {
		return fmt.Errorf("launcher ssh: parameter host=HOST or host=USER@HOST, in short ssh:HOST: %w", bench.ErrAsks)
	}
	if strings.HasPrefix(p["host"], "-") {
		return fmt.Errorf("launcher ssh: parameter host=%q: want HOST or USER@HOST", p["host"])
	}
	if port := p["port"]; port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("launcher ssh: parameter port=%q: want a number from 1 to 65535", port)
		}
	}
	if err := bench.PlainIdentity(p["identity"]); err != nil {
		return fmt.Errorf("launcher ssh: parameter identity=%q: %w", p["identity"], err)
	}
	for _, o := range strings.Fields(p["options"]) {
		if name, _, ok := strings.Cut(o, "="); !ok || name == "" {
			return fmt.Errorf("launcher ssh: parameter options: %q: want NAME=VALUE", o)
		}
	}
	return arriveParams("ssh", p)
}

// sshCommand is the connection. BatchMode never prompts; the host key is checked as the client is
// configured; keepalives detect a machine that is gone.
func sshCommand(p bench.Params) host.Cmd {
	return sshClient(p, "exec sh -c "+host.Quote(arrive("ssh", p)))
}

// sshClient runs a command of the shell there, with further arguments of the client.
func sshClient(p bench.Params, command string, more ...string) host.Cmd {
	argv := []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4",
		"-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "LogLevel=ERROR"}
	if p["port"] != "" {
		argv = append(argv, "-p", p["port"])
	}
	if p["identity"] != "" {
		argv = append(argv, "-i", p["identity"], "-o", "IdentitiesOnly=yes")
	}
	// The first value of an option counts (ssh_config(5)), so the user's come first.
	var own []string
	for _, o := range strings.Fields(p["options"]) {
		own = append(own, "-o", o)
	}
	argv = slices.Concat(argv[:1], own, more, argv[1:])
	return host.Cmd{Argv: append(argv, "--", p["host"], command), Pipe: true}
}

// sshEnv is a shell whose servers a load can also reach through ssh.
type sshEnv struct {
	shell
	forward         *host.Process // leads ports here to those there; nil: there is none
	inside, outside bench.Place   // those ports, if the load comes through ssh
}

// forwarded reports that the ports are forwarded, since ssh listens on them before it runs a command, and ends with
// its standard input.
const forwarded = "echo forwarded && exec cat"

// Reach implements bench.Reached.
func (e *sshEnv) Reach(ctx context.Context, offered bench.Place) (inside, outside bench.Place, way string, err error) {
	if e.params["through"] != throughSSH {
		return e.shell.Reach(ctx, offered)
	}
	if e.inside, err = e.freePorts(ctx, "127.0.0.1", len(offered.Ports)); err != nil {
		return inside, outside, "", err
	}
	e.outside = offered
	return e.inside, e.outside, "ports forwarded by ssh, in one encrypted connection", e.lead(ctx)
}

// lead forwards the ports, unless they are.
func (e *sshEnv) lead(ctx context.Context) error {
	if e.forward != nil {
		select {
		case <-e.forward.Done():
		default:
			return nil
		}
	}
	more := []string{"-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO"} // at which forbidden is said
	for i, port := range e.outside.Ports {
		more = append(more, "-L", fmt.Sprintf("%s:%d:%s:%d", e.outside.Host, port, e.inside.Host, e.inside.Ports[i]))
	}
	p, err := e.h.Start(context.WithoutCancel(ctx), sshClient(e.params, forwarded, more...))
	if err != nil {
		return fmt.Errorf("forward ports to %s: %w", e.to, err)
	}
	defer context.AfterFunc(ctx, p.Stop)()
	line, err := readLine(p)
	if err == nil && line != "forwarded" {
		err = fmt.Errorf("the shell printed %q, want \"forwarded\"", line)
	}
	if err != nil {
		_ = p.Close()
		p.Stop()
		out, _ := p.Wait()
		return fmt.Errorf("forward ports to %s: %w%s", e.to, cmp.Or(ctx.Err(), err), lastWords(out))
	}
	e.forward = p
	return nil
}

// forbidden is what the client says for each connection if sshd does not forward (ssh_config(5), RFC 4254, section 5.1).
const forbidden = "administratively prohibited"

func (e *sshEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if job.Outside == nil || e.outside.Ports == nil {
		return e.shell.Run(ctx, job)
	}
	if err := e.lead(ctx); err != nil {
		return bench.Outcome{}, err
	}
	o, err := e.shell.Run(ctx, job)
	if err == nil || ctx.Err() != nil {
		return o, err
	}
	lost := false
	select {
	case <-e.forward.Done():
		lost = true
	default:
	}
	switch said := e.unlead(); {
	case strings.Contains(said, forbidden):
		err = fmt.Errorf("the sshd of %s forwards no ports (AllowTcpForwarding in its sshd_config): use through=direct: %w", e.to, err)
	case lost:
		err = fmt.Errorf("the ssh connection that forwards the load was lost: %w", err)
	}
	return o, err
}

// unlead ends the forwarding and returns what its client said.
func (e *sshEnv) unlead() string {
	p := e.forward
	if p == nil {
		return ""
	}
	_ = p.Close()
	p.Stop()
	out, _ := p.Wait()
	e.forward = nil
	return string(out.Stderr)
}

func (e *sshEnv) Close() error {
	e.unlead()
	return e.shell.Close()
}
