package launchers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// ssh reaches a confidential VM that someone else has started.
var ssh = bench.Launcher{
	Name: "ssh",
	Doc: "Runs the job on another Linux machine through the system's ssh client: one connection per arm, and a work folder there that is removed with it. " +
		"The other machine's programs are used as they are; this machine's counters do not see them. A load from outside comes from this machine, directly and not through ssh.",
	Remote:    true,
	Elsewhere: func(bench.Params) bool { return true },
	Params: []bench.Param{
		{Name: "host", Doc: "The other machine, as HOST or USER@HOST or a name of the ssh client's configuration."},
		{Name: "port", Doc: "Its port. Empty: as the ssh client is configured."},
		{Name: "identity", Path: true, Doc: "File of the private key. Empty: as the ssh client is configured."},
		{Name: "options", Doc: "Further options of the ssh client, as NAME=VALUE words (ssh_config(5))."},
		{Name: "address", Doc: "Its IPv4 address, on which servers listen there and at which the load reaches them. Empty: that of the ssh connection."},
		{Name: "work", Doc: "Folder there in which the work folder is made.", Default: "/tmp"},
		{Name: "data", Doc: "Folder there on the disk under test; a folder of our own is made in it and removed at the end. Empty: in the work folder."},
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
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		return []host.Cmd{sshCommand(p), job.Inside}, sshParams(p)
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		if err := sshParams(p); err != nil {
			return nil, err
		}
		e := &sshEnv{h: h, params: p}
		if err := e.connect(ctx); err != nil {
			return nil, err
		}
		return e, nil
	},
}

func sshParams(p bench.Params) error {
	if p["host"] == "" {
		return fmt.Errorf("launcher ssh: parameter host=HOST or host=USER@HOST: %w", bench.ErrAsks)
	}
	if strings.HasPrefix(p["host"], "-") {
		return fmt.Errorf("launcher ssh: parameter host=%q: want HOST or USER@HOST", p["host"])
	}
	if port := p["port"]; port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("launcher ssh: parameter port=%q: want a number from 1 to 65535", port)
		}
	}
	for _, name := range []string{"work", "data"} {
		if v := p[name]; v != "" && !path.IsAbs(v) || strings.ContainsRune(v, '\'') {
			return fmt.Errorf("launcher ssh: parameter %s=%q: want an absolute path without quotes", name, v)
		}
	}
	for _, o := range strings.Fields(p["options"]) {
		if name, _, ok := strings.Cut(o, "="); !ok || name == "" {
			return fmt.Errorf("launcher ssh: parameter options: %q: want NAME=VALUE", o)
		}
	}
	return nil
}

// arrival is the script for the other machine's shell: it makes the folders, reports the
// architecture, reads the worker from standard input and becomes it. The worker is sent only to a
// machine that can run it, and nothing follows before it answers, since head may read more than
// it passes on.
const arrival = `set -e
work=$(mktemp -d '%[1]s/teescope-ssh-XXXXXX')
data='%[2]s'
if [ -n "$data" ]; then data=$(mktemp -d "$data/teescope-ssh-XXXXXX"); else data=$work/data; mkdir "$data"; fi
trap 'rm -rf "$work" "$data"' EXIT
set -- ${SSH_CONNECTION:-}
printf 'machine %%s\nwork %%s\ndata %%s\naddress %%s\n' "$(uname -m)" "$work" "$data" "${3:-}"
read -r size
head -c "$size" >"$work/micro"
[ "$(wc -c <"$work/micro")" -eq "$size" ]
chmod 755 "$work/micro"
trap - EXIT
exec "$work/micro" agent "$work" "$data"`

// sshCommand is the connection. BatchMode never prompts; the host key is checked as the client is
// configured; keepalives detect a machine that is gone.
func sshCommand(p bench.Params) host.Cmd {
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
	argv = append(append([]string{argv[0]}, own...), argv[1:]...)
	script := fmt.Sprintf(arrival, p["work"], p["data"])
	return host.Cmd{Argv: append(argv, "--", p["host"], "exec sh -c "+host.Quote(script)), Pipe: true}
}

type sshEnv struct {
	h          *host.Host
	params     bench.Params
	process    *host.Process // nil: not connected
	agent      *agent
	work, data string
	address    string // there, as seen from here
	placed     placed
	loads      loads
}

func (e *sshEnv) connect(ctx context.Context) error {
	if micro.Program == nil {
		return errors.New("connect: there is no worker for this machine's architecture")
	}
	// The connection outlives this call; cut ends it.
	p, err := e.h.Start(context.WithoutCancel(ctx), sshCommand(e.params))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", e.params["host"], err)
	}
	e.process, e.placed = p, placed{}
	defer context.AfterFunc(ctx, p.Stop)()
	if err := e.greet(); err != nil {
		p.Stop() // the shell there reads end of file and cleans up
		e.process, e.agent = nil, nil
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		out, _ := p.Wait()
		return fmt.Errorf("connect to %s: %w%s", e.params["host"], err, said(out))
	}
	return nil
}

// greet sends the worker, if it fits that machine, and meets its agent.
func (e *sshEnv) greet() error {
	var machine string
	for _, want := range []struct {
		key string
		to  *string
	}{{"machine", &machine}, {"work", &e.work}, {"data", &e.data}, {"address", &e.address}} {
		line, err := readLine(e.process)
		if err != nil {
			return err
		}
		value, ok := strings.CutPrefix(line, want.key+" ")
		if !ok {
			return fmt.Errorf("its shell said %q; want %q: a login script must print nothing for commands", line, want.key+" ...")
		}
		*want.to = value
	}
	if machine != "x86_64" {
		return fmt.Errorf("it is of architecture %s, the worker is for x86_64", machine)
	}
	if _, err := e.process.Write(fmt.Appendf(nil, "%d\n%s", len(micro.Program), micro.Program)); err != nil {
		return fmt.Errorf("send the worker: %w", err)
	}
	var err error
	e.agent, err = meetAgent(e.process)
	return err
}

// readLine reads byte by byte, so it consumes nothing after the line.
func readLine(r io.Reader) (string, error) {
	var line bytes.Buffer
	var b [1]byte
	for line.Len() < 4096 {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", fmt.Errorf("the connection ended early: %w", err)
		}
		if b[0] == '\n' {
			return line.String(), nil
		}
		line.WriteByte(b[0])
	}
	return "", fmt.Errorf("a line of more than %d bytes", line.Len())
}

// cut ends the connection: the agent there reads end of file, kills the job's process group,
// removes its folders and ends. A client that still runs after cutGrace has lost the other
// machine.
func (e *sshEnv) cut() {
	p := e.process
	if p == nil {
		return
	}
	_ = p.Close()
	select {
	case <-p.Done():
	case <-time.After(cutGrace):
		p.Stop()
	}
	e.process, e.agent = nil, nil
}

func (e *sshEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["work"], d.Params["data"] = e.work, e.data
	d.Software.CachePolicy = "as found"
	return nil
}

func (e *sshEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if e.process == nil {
		if err := e.connect(ctx); err != nil {
			return bench.Outcome{}, err
		}
	}
	p := e.process
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	o, err := e.run(ctx, job)
	if !stop() || errors.Is(err, errLost) {
		e.cut()
		end, _ := p.Wait()
		if err == nil || ctx.Err() != nil {
			err = ctx.Err()
		}
		return o, fmt.Errorf("run on %s: %w%s", e.params["host"], err, said(end))
	}
	return o, err
}

func (e *sshEnv) run(ctx context.Context, job bench.Job) (o bench.Outcome, err error) {
	fresh, err := e.placed.fresh(e.h, job.Files)
	if err != nil {
		return o, err
	}
	for _, f := range fresh {
		if err := e.agent.put(path.Join(e.work, f.name), f.mode, f.data); err != nil {
			return o, err
		}
		e.placed[f.name] = f.id
	}
	inside, began := place(job.Inside, e.work, e.data), e.h.Now()
	if job.Outside == nil {
		o.Inside, err = e.agent.run(inside, began, e.h.Now)
		return o, err
	}
	if err := e.loads.prepare(e.h, "ssh", job); err != nil {
		return o, err
	}
	p, err := e.agent.start(inside, began, e.h.Now)
	if err != nil {
		return o, err
	}
	return e.loads.on(ctx, e.h, p, inside.Ready, job)
}

// Reach implements bench.Reached: servers listen on an address of the other machine.
func (e *sshEnv) Reach(ctx context.Context, offered bench.Place) (inside, outside bench.Place, way string, err error) {
	at := bench.Place{Host: e.params["address"]}
	if at.Host == "" {
		at.Host = e.address
	}
	if ip := net.ParseIP(at.Host); ip == nil || ip.To4() == nil {
		return inside, outside, "", fmt.Errorf("reach servers on %s: its ssh connection has the address %q: name an IPv4 address with address=", e.params["host"], at.Host)
	}
	o, err := e.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "ports", at.Host, strconv.Itoa(len(offered.Ports))}}})
	if err != nil {
		return inside, outside, "", fmt.Errorf("find free ports on %s: %w%s", e.params["host"], err, said(o.Inside))
	}
	for _, l := range o.Inside.Lines {
		port, err := strconv.Atoi(l.Text)
		if err != nil {
			return inside, outside, "", fmt.Errorf("find free ports on %s: %w", e.params["host"], err)
		}
		at.Ports = append(at.Ports, port)
	}
	return at, at, "the network between the machines, not through ssh", nil
}

// Idle has nothing to freeze: the agent waits and nothing else runs.
func (e *sshEnv) Idle(context.Context, bool) error { return nil }

func (e *sshEnv) Close() error {
	if e.agent != nil {
		_ = e.agent.quit() // it would end at the end of its input too
	}
	e.cut()
	return e.loads.close()
}
