package launchers

import (
	"bytes"
	"cmp"
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

// shell is an environment behind the standard streams of a client that runs a shell elsewhere: ssh, or kubectl. The shell
// becomes the worker's agent.
type shell struct {
	h            *host.Host
	launcher, to string // its name, and where the shell is
	way          string // how a load reaches servers there
	params       bench.Params
	// dial prepares a new connection and returns its client.
	dial func(context.Context) (host.Cmd, error)
	// hangUp removes what a connection that has ended leaves; nil: nothing.
	hangUp func() error

	process    *host.Process // nil: not connected
	agent      *agent
	work, data string
	address    string // there, as seen from here
	boot       string // boot ID of the machine at the first connection; "" is unknown
	clock      *result.ClockOffset
	placed     placed
	// Loads run behind load, or on the harness's machine if that is nil.
	load  *shell
	loads loads
}

// arriveParams checks the parameters that the script of the shell takes.
func arriveParams(launcher string, p bench.Params) error {
	for _, name := range []string{"work", "data"} {
		if v := p[name]; v != "" && !path.IsAbs(v) || !quotable(v) {
			return fmt.Errorf("launcher %s: parameter %s=%q: want an absolute path without quotes and line breaks", launcher, name, v)
		}
	}
	return nil
}

func arrive(launcher string, p bench.Params) string {
	return fmt.Sprintf(arrival, host.Quote(p["work"]+"/teescope-"+launcher+"-XXXXXX"), host.Quote(p["data"]), launcher)
}

// arrival is the script for the shell elsewhere: it makes the folders, reports the architecture, reads the worker from
// standard input and becomes it. It says nothing before it was greeted, because a client may connect late and lose what was
// said before. The worker is sent only to a machine that can run it, and nothing follows before it answers, since head may
// read more than it passes on.
const arrival = `set -e
read -r greeting
printf 'boot %%s\n' "$(cat /proc/sys/kernel/random/boot_id)"
work=$(mktemp -d %[1]s)
data=%[2]s
if [ -n "$data" ]; then data=$(mktemp -d "$data/teescope-%[3]s-XXXXXX"); else data=$work/data; mkdir "$data"; fi
trap 'rm -rf "$work" "$data"' EXIT
set -- ${SSH_CONNECTION:-}
printf 'machine %%s\nwork %%s\ndata %%s\naddress %%s\n' "$(uname -m)" "$work" "$data" "${3:-$POD_IP}"
read -r size
head -c "$size" >"$work/micro"
[ "$(wc -c <"$work/micro")" -eq "$size" ]
chmod 755 "$work/micro"
trap - EXIT
exec "$work/micro" agent "$work" "$data"`

func (e *shell) connect(ctx context.Context) error {
	if err := micro.Missing(micro.Static); err != nil {
		return fmt.Errorf("connect to %s: %w", e.to, err)
	}
	// The connection outlives this call; cut ends it.
	client, err := e.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", e.to, err)
	}
	p, err := e.h.Start(context.WithoutCancel(ctx), client)
	if err != nil {
		return errors.Join(fmt.Errorf("connect to %s: %w", e.to, err), e.hungUp())
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
		return errors.Join(fmt.Errorf("connect to %s: %w%s", e.to, err, lastWords(out)), e.hungUp())
	}
	return nil
}

func (e *shell) hungUp() error {
	if e.hangUp == nil {
		return nil
	}
	return e.hangUp()
}

// greet sends the worker, if it fits that machine, and meets its agent.
func (e *shell) greet() error {
	_, _ = e.process.Write([]byte("hello\n")) // if the client has ended, reading says why
	var boot, machine, address string
	for _, want := range []struct {
		key string
		to  *string
	}{{"boot", &boot}, {"machine", &machine}, {"work", &e.work}, {"data", &e.data}, {"address", &address}} {
		line, err := readLine(e.process)
		if err != nil {
			return err
		}
		value, ok := strings.CutPrefix(line, want.key+" ")
		if !ok {
			return fmt.Errorf("the shell printed %q, want %q: a login script must print nothing when ssh runs a command", line, want.key+" ...")
		}
		*want.to = value
	}
	switch {
	case e.params["runtimeClass"] != "": // each pod may be a machine of its own
	case e.boot == "":
		e.boot = boot
	case boot != e.boot:
		return fmt.Errorf("the machine's boot ID was %s and is now %q: the machine was rebooted, or this is another machine: %w", e.boot, boot, bench.ErrRebooted)
	}
	e.address = cmp.Or(e.params["address"], address)
	if machine != "x86_64" {
		return fmt.Errorf("the machine's architecture is %s, but the worker is built for x86_64", machine)
	}
	if _, err := e.process.Write(fmt.Appendf(nil, "%d\n%s", len(micro.Program), micro.Program)); err != nil {
		return fmt.Errorf("send the worker: %w", err)
	}
	var err error
	if e.agent, err = meetAgent(e.process); err == nil && e.clock == nil {
		e.readClock()
	}
	return err
}

// readClock compares that machine's clock with this one's, over a connection that is there already.
func (e *shell) readClock() {
	before := e.h.Now()
	if o, err := e.agent.run(host.Cmd{Argv: []string{"sh", "-c", bench.AskClock}}, before, e.h.Now); err == nil {
		e.clock = bench.CompareClocks(string(o.Stdout), before, e.h.Now())
	}
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
func (e *shell) cut() {
	p := e.process
	if p == nil {
		return
	}
	release(p)
	e.process, e.agent = nil, nil
}

// release ends a client, if it does not end by itself.
func release(p *host.Process) {
	_ = p.Close()
	select {
	case <-p.Done():
	case <-time.After(cutGrace):
		p.Stop()
	}
}

func (e *shell) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.Params["work"], d.Params["data"] = e.work, e.data
	d.Boot, d.Clock = e.boot, e.clock
	d.Software.CachePolicy = "as found"
	return nil
}

func (e *shell) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if e.process == nil {
		if err := e.connect(ctx); err != nil {
			return bench.Outcome{}, err
		}
	}
	p := e.process
	stop := context.AfterFunc(ctx, func() { release(p) })
	o, err := e.run(ctx, job)
	if !stop() || errors.Is(err, errLost) {
		e.cut()
		end, _ := p.Wait()
		if err == nil || ctx.Err() != nil {
			err = ctx.Err()
		}
		return o, errors.Join(fmt.Errorf("run on %s: %w%s", e.to, err, lastWords(end)), e.hungUp())
	}
	return o, err
}

func (e *shell) run(ctx context.Context, job bench.Job) (o bench.Outcome, err error) {
	if err := e.placeFiles(job.Files); err != nil {
		return o, err
	}
	inside, began := place(job.Inside, e.work, e.data), e.h.Now()
	if job.Outside == nil {
		o.Inside, err = e.agent.run(inside, began, e.h.Now)
		return o, err
	}
	if e.load != nil {
		client := e.load.process
		defer context.AfterFunc(ctx, func() { release(client) })()
		err = e.load.placeFiles(job.Files)
	} else {
		err = e.loads.prepare(e.h, e.launcher, job)
	}
	if err != nil {
		return o, err
	}
	p, err := e.agent.start(inside, began, e.h.Now)
	if err != nil {
		return o, err
	}
	if e.load != nil {
		return underLoad(ctx, p, job, func(ctx context.Context) (host.Output, error) { return e.load.generate(ctx, job) })
	}
	return e.loads.runAgainst(ctx, e.h, p, job)
}

// placeFiles brings a job's files there, each once.
func (e *shell) placeFiles(files []bench.File) error {
	fresh, err := e.placed.fresh(e.h, files)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		if err := e.agent.sendFile(path.Join(e.work, f.name), f.mode, f.data); err != nil {
			return err
		}
		e.placed[f.name] = f.id
	}
	return nil
}

// generate runs a job's load here. No counters see it, so nobody reads them at the edges of its window: it need not wait.
func (e *shell) generate(ctx context.Context, job bench.Job) (host.Output, error) {
	c := place(*job.Outside, e.work, e.data)
	if job.Window[0] != "" {
		c.Stdin = []byte("go on\ngo on\n")
	}
	p, err := e.agent.start(c, e.h.Now(), e.h.Now)
	if err != nil {
		return host.Output{}, err
	}
	defer context.AfterFunc(ctx, p.Stop)()
	return p.Wait()
}

// Reach implements bench.Reached: servers listen on an address of the other machine.
func (e *shell) Reach(ctx context.Context, offered bench.Place) (inside, outside bench.Place, way string, err error) {
	if ip := net.ParseIP(e.address); ip == nil || ip.To4() == nil {
		return inside, outside, "", fmt.Errorf("reach servers on %s: the address %q is not an IPv4 address: name one with address=", e.to, e.address)
	}
	at, err := e.freePorts(ctx, e.address, len(offered.Ports))
	return at, at, e.way, err
}

// freePorts asks for n free ports of an address there.
func (e *shell) freePorts(ctx context.Context, address string, n int) (bench.Place, error) {
	at := bench.Place{Host: address}
	o, err := e.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "ports", address, strconv.Itoa(n)}}})
	if err != nil {
		return at, fmt.Errorf("find free ports on %s: %w%s", e.to, err, lastWords(o.Inside))
	}
	for _, l := range o.Inside.Lines {
		port, err := strconv.Atoi(l.Text)
		if err != nil {
			return at, fmt.Errorf("find free ports on %s: %w", e.to, err)
		}
		at.Ports = append(at.Ports, port)
	}
	return at, nil
}

// Idle has nothing to freeze: the agent waits and nothing else runs.
func (e *shell) Idle(context.Context, bool) error { return nil }

func (e *shell) Close() error {
	if e.process == nil {
		return e.loads.close()
	}
	if e.agent != nil {
		_ = e.agent.quit() // it would end at the end of its input too
	}
	e.cut()
	return errors.Join(e.hungUp(), e.loads.close())
}
