package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// namespace is a network namespace in which commands can be started. It has no name in the file
// system: it lives as long as the thread that made it or a process in it, so nothing is left
// behind however this program ends.
type namespace struct {
	calls chan func()
	// path is the namespace in ip(8)'s notation.
	path string
}

// newNamespace makes a network namespace. If the worker lacks the right to do that in the
// machine's own user namespace, start it with unshare --user --map-root-user (util-linux).
func newNamespace() (*namespace, error) {
	n := &namespace{calls: make(chan func())}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread is in another namespace than the rest of the process, and
		// ends with this goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		n.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", unix.Getpid(), unix.Gettid())
		made <- err
		for f := range n.calls {
			f()
		}
	}()
	if err := <-made; err != nil {
		n.close()
		return nil, fmt.Errorf("make a network namespace: %w (run as root, or under unshare --user --map-root-user)", err)
	}
	return n, nil
}

// inNamespace runs a function in the network namespace at a path; "" is the program's own.
func inNamespace(path string, f func() error) error {
	if path == "" {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd))
		}
		if err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// close ends the thread. By their parent-death signal, commands that still run end too.
func (n *namespace) close() { close(n.calls) }

// start starts a command in the namespace: a child inherits that of the thread that forked it.
func (n *namespace) start(ctx context.Context, c host.Cmd) (p *host.Process, err error) {
	done := make(chan struct{})
	n.calls <- func() {
		p, err = host.Local().Start(ctx, c)
		close(done)
	}
	<-done
	return p, err
}

// ip runs ip(8) in the namespace with the words of a line.
func (n *namespace) ip(ctx context.Context, line string) error {
	p, err := n.start(ctx, host.Cmd{Argv: append([]string{"ip"}, strings.Fields(line)...)})
	if err != nil {
		return err
	}
	if out, err := p.Wait(); err != nil {
		return host.WithReason(fmt.Errorf("ip %s: %w", line, err), out)
	}
	return nil
}

// joined are two namespaces with a veth pair between them.
type joined struct{ near, far *namespace }

// The addresses of both ends: 198.18.0.0/15 is reserved for benchmarks (RFC 2544, appendix
// C.2.2).
const (
	nearLink, farLink     = "198.18.0.1", "198.18.0.2"
	nearTunnel, farTunnel = "198.19.0.1", "198.19.0.2"
)

// join makes two namespaces and a link between them, which carries packets of up to mtu bytes.
// Without offload no larger packet is sent; with it the kernel hands over up to 64 KiB at once,
// as to a card with segmentation offload.
func join(ctx context.Context, mtu int, offload bool) (*joined, error) {
	near, err := newNamespace()
	if err != nil {
		return nil, err
	}
	far, err := newNamespace()
	if err != nil {
		near.close()
		return nil, err
	}
	j := &joined{near, far}
	err = near.ip(ctx, fmt.Sprintf("link add name veth mtu %d type veth peer name veth mtu %d netns %s", mtu, mtu, far.path))
	if err == nil && !offload {
		err = j.runOnBoth(ctx, "link set dev veth gso_max_segs 1", "link set dev veth gso_max_segs 1")
	}
	if err == nil {
		err = j.runOnBoth(ctx, "address add "+nearLink+"/24 dev veth", "address add "+farLink+"/24 dev veth")
	}
	if err == nil {
		err = j.runOnBoth(ctx, "link set dev veth up", "link set dev veth up")
	}
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *joined) runOnBoth(ctx context.Context, near, far string) error {
	if err := j.near.ip(ctx, near); err != nil {
		return err
	}
	return j.far.ip(ctx, far)
}

func (j *joined) close() {
	j.near.close()
	j.far.close()
}
