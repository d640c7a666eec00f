package launchers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	Doc: "Runs the job on another Linux machine through the system's ssh client: one connection per arm, a work folder there that goes with it. " +
		"The other machine's programs are used as they are; this machine's counters do not see them.",
	Remote:    true,
	Elsewhere: func(bench.Params) bool { return true },
	Params: []bench.Param{
		{Name: "host", Doc: "The other machine, as HOST or USER@HOST or a name of the ssh client's configuration."},
		{Name: "port", Doc: "Its port. Empty: as the ssh client is configured."},
		{Name: "identity", Path: true, Doc: "File of the private key. Empty: as the ssh client is configured."},
		{Name: "options", Doc: "Further options of the ssh client, as NAME=VALUE words (ssh_config(5))."},
		{Name: "work", Doc: "Folder there in which the work folder is made.", Default: "/tmp"},
		{Name: "data", Doc: "Folder there on the disk under test; a folder of our own is made in it and removed at the end. Empty: in the work folder."},
	},
	Check: func(h *host.Host, p bench.Params) error {
		needs := []need{{Command: "ssh", Hint: "package openssh-client"}}
		if p["identity"] != "" {
			needs = append(needs, need{Path: p["identity"], Hint: "the private key that identity names"})
		}
		return errors.Join(missing(h, needs...), sshParams(p))
	},
	Refuses: func(_ bench.Params, job bench.Job) error {
		return noLoad(job, "the connection carries commands and files only")
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
	if p["host"] == "" || strings.HasPrefix(p["host"], "-") {
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

// arrival is what the other machine's shell does: it makes the folders, says
// what it is, takes the worker from standard input and becomes it. The worker is
// only sent to a machine that can run it, and nothing is sent behind it before
// it speaks, since head may read more than it passes on.
const arrival = `set -e
work=$(mktemp -d '%[1]s/teescope-ssh-XXXXXX')
data='%[2]s'
if [ -n "$data" ]; then data=$(mktemp -d "$data/teescope-ssh-XXXXXX"); else data=$work/data; mkdir "$data"; fi
trap 'rm -rf "$work" "$data"' EXIT
printf 'machine %%s\nwork %%s\ndata %%s\n' "$(uname -m)" "$work" "$data"
read -r size
head -c "$size" >"$work/micro"
[ "$(wc -c <"$work/micro")" -eq "$size" ]
chmod 755 "$work/micro"
trap - EXIT
exec "$work/micro" agent "$work" "$data"`

// sshCommand is the connection. BatchMode asks nothing; the host key is
// checked as the client is configured. Keepalives notice a machine that has gone.
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
	return host.Cmd{Argv: append(argv, "--", p["host"], "exec sh -c "+quote(script)), Pipe: true}
}

// quote makes one word of a text for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

type sshEnv struct {
	h          *host.Host
	params     bench.Params
	process    *host.Process // nil: not connected
	agent      *agent
	work, data string
	placed     placed
}

func (e *sshEnv) connect(ctx context.Context) error {
	if micro.Program == nil {
		return errors.New("connect: there is no worker for this machine's architecture")
	}
	// The connection outlives this call; its end is cut's business.
	p, err := e.h.Start(context.WithoutCancel(ctx), sshCommand(e.params))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", e.params["host"], err)
	}
	e.process, e.placed = p, placed{}
	defer context.AfterFunc(ctx, p.Stop)()
	if err := e.greet(); err != nil {
		p.Stop() // the shell there reads an end and cleans up
		e.process, e.agent = nil, nil
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		out, _ := p.Wait()
		return fmt.Errorf("connect to %s: %w%s", e.params["host"], err, said(out))
	}
	return nil
}

// greet sends the worker, if it is one for that machine, and meets its agent.
func (e *sshEnv) greet() error {
	var machine string
	for _, want := range []struct {
		key string
		to  *string
	}{{"machine", &machine}, {"work", &e.work}, {"data", &e.data}} {
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

// cut ends the connection: the agent there reads an end, kills the job's
// process group, removes its folders and ends. A client that is not gone some
// seconds later has lost the other machine.
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

// cutGrace is above the three seconds that the agent gives a job to end.
const cutGrace = 6 * time.Second

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
	out, err := e.run(job)
	if !stop() || errors.Is(err, errLost) {
		e.cut()
		end, _ := p.Wait()
		if err == nil || ctx.Err() != nil {
			err = ctx.Err()
		}
		return bench.Outcome{Inside: out}, fmt.Errorf("run on %s: %w%s", e.params["host"], err, said(end))
	}
	return bench.Outcome{Inside: out}, err
}

func (e *sshEnv) run(job bench.Job) (host.Output, error) {
	fresh, err := e.placed.fresh(e.h, job.Files)
	if err != nil {
		return host.Output{}, err
	}
	for _, f := range fresh {
		if err := e.agent.put(path.Join(e.work, f.name), f.mode, f.data); err != nil {
			return host.Output{}, err
		}
		e.placed[f.name] = f.id
	}
	return e.agent.run(place(job.Inside, e.work, e.data), e.h.Now(), e.h.Now)
}

// Idle has nothing to freeze: the agent waits and nothing else runs.
func (e *sshEnv) Idle(context.Context, bool) error { return nil }

func (e *sshEnv) Close() error {
	if e.agent != nil {
		_ = e.agent.quit() // it would end at the end of its input too
	}
	e.cut()
	return nil
}
