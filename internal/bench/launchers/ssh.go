package launchers

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
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
		return openShell(ctx, &shell{h: h, launcher: "ssh", to: p["host"], way: "the network between the machines, not through ssh", params: p,
			dial: func(context.Context) (host.Cmd, error) { return sshCommand(p), nil }})
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
	return host.Cmd{Argv: append(argv, "--", p["host"], "exec sh -c "+host.Quote(arrive("ssh", p))), Pipe: true}
}
