package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// Client is another machine on which the outside of jobs runs, reached through the
// system's ssh client. Without one, it runs on the harness's machine.
type Client struct {
	// Name is what the user wrote.
	Name string
	// Server is this machine's address as seen by the client, on which servers listen.
	Server string

	ssh    []string // the command up to the remote one
	clock  *result.ClockOffset
	work   string // the folder there
	placed map[string]string
}

// ParseClient reads ssh:[USER@]HOST[,server=ADDRESS][,port=N][,identity=FILE][,options=NAME=VALUE...], in the notation
// of environments.
func ParseClient(text string) (*Client, error) {
	wrong := func(why string) error {
		return fmt.Errorf("client %q: %s: want ssh:[USER@]HOST, optionally followed by ,server=ADDRESS ,port=N ,identity=FILE or ,options=NAME=VALUE (of ssh_config(5), separated by spaces)", text, why)
	}
	name, given, err := parseNotation(text)
	if err == nil {
		err = given.named("host")
	}
	if err != nil {
		return nil, wrong(err.Error())
	}
	to := given["host"]
	if name != "ssh" || to == "" || strings.HasPrefix(to, "-") {
		return nil, wrong("an ssh host is missing")
	}
	c := &Client{Name: "ssh:" + to, placed: map[string]string{}}
	// As for environments over ssh: there are no prompts, and the host key is checked
	// as configured for the ssh client.
	common := []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ForwardAgent=no", "-o", "LogLevel=ERROR"}
	c.ssh = []string{"ssh"} // the first value of an option counts, so the user's come first
	for _, k := range slices.Sorted(maps.Keys(given)) {
		v := given[k]
		switch {
		case v == "":
			return nil, wrong(k + " is empty")
		case k == "host": // last
		case k == "server":
			if net.ParseIP(v) == nil {
				return nil, wrong(fmt.Sprintf("server=%s is not an address", v))
			}
			c.Server = v
		case k == "port":
			c.ssh = append(c.ssh, "-p", v)
		case k == "identity":
			if err := PlainIdentity(v); err != nil {
				return nil, wrong(err.Error())
			}
			c.ssh = append(c.ssh, "-i", v, "-o", "IdentitiesOnly=yes")
		case k == "options":
			for _, o := range strings.Fields(v) {
				c.ssh = append(c.ssh, "-o", o)
			}
		default:
			return nil, wrong(fmt.Sprintf("the option %q is unknown", k))
		}
	}
	c.ssh = append(append(c.ssh, common...), "--", to)
	return c, nil
}

// PlainIdentity refuses the path of a key in which ssh replaces tokens and variables (ssh_config(5), IdentityFile): its -i takes
// the path as it is to find the file, and replaced to read it, so no escape works.
func PlainIdentity(path string) error {
	if strings.Contains(path, "%") || strings.Contains(path, "${") {
		return errors.New("ssh replaces % and ${...} in the path of a key: rename the file, or name it as IdentityFile in ssh's own configuration")
	}
	return nil
}

// server is the address that replaces {host}.
func (c *Client) server() string {
	if c == nil {
		return "127.0.0.1"
	}
	return c.Server
}

// place describes in a document where the loads of a plan come from.
func (c *Client) place(p *Plan) string {
	outside := false
	for i := range p.Cases {
		for j := range p.Arms {
			if job, err := p.Workload.Job(p.params(&p.Cases[i], &p.Arms[j])); err == nil {
				outside = outside || job.Outside != nil
			}
		}
	}
	if !outside {
		return ""
	}
	places := ownLoads(p)
	served := slices.DeleteFunc(slices.Clone(p.Arms), func(a Arm) bool { return a.ownLoad() != "" }) // by the harness or its client
	at := result.ThisHost
	switch {
	case len(served) == 0:
		return strings.Join(places, "; ")
	case c != nil:
		at = c.Name
	case slices.ContainsFunc(served, func(a Arm) bool { return !a.Launcher.Remote }):
		at = result.SameHost
	}
	if !slices.Contains(places, at) {
		places = append(places, at)
	}
	return strings.Join(places, "; ")
}

// ownLoad is the place where an environment runs loads itself, in words; "" if it does not.
func (a *Arm) ownLoad() string {
	if a.Launcher.OwnLoad == nil {
		return ""
	}
	return a.Launcher.OwnLoad(a.Params)
}

// ownLoads are the places where environments of a plan run loads themselves, in words.
func ownLoads(p *Plan) (places []string) {
	for _, a := range p.Arms {
		if at := a.ownLoad(); at != "" && !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	return places
}

// refuses returns an error if the load of a plan comes from elsewhere.
func (c *Client) refuses(p *Plan) error {
	if own := ownLoads(p); c != nil && own != nil {
		return fmt.Errorf("client %s: an environment runs the load itself (%s): leave out --client", c.Name, strings.Join(own, "; "))
	}
	return nil
}

// remote runs a shell's command on the client.
func (c *Client) remote(ctx context.Context, h *host.Host, command string, stdin []byte) (string, error) {
	out, err := h.Exec(ctx, host.Cmd{Argv: append(append([]string{}, c.ssh...), command), Stdin: stdin})
	if err != nil {
		return "", host.WithReason(fmt.Errorf("client %s: %w", c.Name, err), out)
	}
	return string(out.Stdout), nil
}

// open makes a folder on the client and learns this machine's address as seen from
// there.
func (c *Client) open(ctx context.Context, h *host.Host) error {
	if c == nil {
		return nil
	}
	before := h.Now()
	said, err := c.remote(ctx, h, `umask 077 && mktemp -d "${TMPDIR:-/tmp}/teescope-client-XXXXXX" && uname -m && echo "$SSH_CONNECTION" && `+AskClock, nil)
	if err != nil {
		return err
	}
	after := h.Now()
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) != 4 || !path.IsAbs(lines[0]) {
		return fmt.Errorf("client %s: the machine answered %.100q, want a folder, an architecture, a connection and a time", c.Name, said)
	}
	c.work, c.clock = lines[0], CompareClocks(lines[3], before, after)
	own, err := h.Exec(ctx, host.Cmd{Argv: []string{"uname", "-m"}})
	if err != nil {
		return errors.Join(err, c.close(ctx, h))
	}
	if here := strings.TrimSpace(string(own.Stdout)); here != lines[1] {
		return errors.Join(fmt.Errorf("client %s: the client's architecture is %s, but this load generator is built for %s", c.Name, lines[1], here), c.close(ctx, h))
	}
	if c.Server == "" { // sshd(8): the first word is the other side, which is this machine
		if c.Server, _, _ = strings.Cut(lines[2], " "); net.ParseIP(c.Server) == nil {
			return errors.Join(fmt.Errorf("client %s: the client does not report the address of this machine: add ,server=ADDRESS to --client", c.Name), c.close(ctx, h))
		}
	}
	return nil
}

// close removes what open made.
func (c *Client) close(ctx context.Context, h *host.Host) error {
	if c == nil || c.work == "" {
		return nil
	}
	_, err := c.remote(ctx, h, "rm -rf -- "+host.Quote(c.work), nil)
	c.work = ""
	return err
}

// prepareOutside is the job's outside as run on the client, with its files there.
func (c *Client) prepareOutside(ctx context.Context, h *host.Host, job Job) (Job, error) {
	if c == nil || job.Outside == nil {
		return job, nil
	}
	there := strings.NewReplacer("{work}", c.work, "{data}", c.work)
	var words []string
	for k, v := range job.Outside.Env {
		words = append(words, k+"="+host.Quote(there.Replace(v)))
	}
	if len(words) > 0 {
		words = append([]string{"env"}, words...)
	}
	for _, a := range job.Outside.Argv {
		for _, f := range job.Files {
			if strings.Contains(a, "{work}/"+f.Name) {
				if err := c.copyFile(ctx, h, f); err != nil {
					return job, err
				}
			}
		}
		words = append(words, host.Quote(there.Replace(a)))
	}
	// The end of the connection ends its standard input, and so the load, which would
	// otherwise continue and disturb the next run's server. Anything before that is for
	// the load.
	command := "cd " + host.Quote(c.work) + " && rm -f input && mkfifo input || exit; exec 3<&0; " + strings.Join(words, " ") + " <input & load=$!; { cat <&3 >input; kill $load; } 2>/dev/null & wait $load; status=$?; kill $! 2>/dev/null; exit $status"
	cmd := *job.Outside
	cmd.Argv, cmd.Env, cmd.Dir = append(append([]string{}, c.ssh...), command), nil, ""
	cmd.Ready = openInput
	job.Outside = &cmd
	return job, nil
}

// openInput is a line that no load prints: until it appears, standard input stays open.
const openInput = "\x00"

// copyFile copies a file to the client, once.
func (c *Client) copyFile(ctx context.Context, h *host.Host, f File) error {
	b, err := f.Content(h)
	if err != nil || c.placed[f.Name] == sum(b) {
		return err
	}
	mode := "644"
	if f.Exec {
		mode = "755"
	}
	name := host.Quote(path.Join(c.work, f.Name))
	if _, err := c.remote(ctx, h, "mkdir -p -- "+host.Quote(path.Dir(path.Join(c.work, f.Name)))+" && cat > "+name+" && chmod "+mode+" "+name, b); err != nil {
		return fmt.Errorf("copy %s: %w", f.Name, err)
	}
	c.placed[f.Name] = sum(b)
	return nil
}
