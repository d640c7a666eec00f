package launchers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// readiness prints the node of each pod that changes, and whether the pod is ready. While a pod's containers run, it is not ready only if
// the cluster has lost its node ("Node heartbeats" of Kubernetes' documentation).
const readiness = `--output=jsonpath={.spec.nodeName} {.status.phase} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}{"\n"}`

// watchPause is between two clients that watch: an API server closes a watch after 30 to 60 minutes, and may itself be away for a while.
var watchPause = 10 * time.Second

// watch listens to the cluster until unwatch. When a node of the pods is lost, it ends the connections to the pods, which would not end by
// themselves: nobody answers at the other end. An account that may not list pods learns of a lost node when the connections time out.
func (e *podEnv) watch(ctx context.Context) error {
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c := kubectl(e.params, "get", "pods", "--selector="+podInstance+"="+e.name, "--watch", readiness) // how they are now, and each change
	c.Pipe = true
	client, err := e.h.Start(ctx, c)
	if err != nil {
		end(nil)
		return err
	}
	e.watched, e.unwatch = ctx, end
	pods := []*host.Process{e.process}
	if e.load != nil {
		pods = append(pods, e.load.process)
	}
	go func() {
		node, heard := readLostNode(client)
		if !heard {
			return // the pods are there, so the account may not list them
		}
		for node == "" {
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
				return
			}
			if client, err := e.h.Start(ctx, c); err == nil {
				node, _ = readLostNode(client)
			}
		}
		end(fmt.Errorf("%w: node %s has left the cluster (kubectl get nodes): bring it back, or select other nodes", bench.ErrGone, node))
		for _, p := range pods {
			release(p)
		}
	}()
	return nil
}

// readLostNode reads what a client prints until that ends or names a node that is lost, and returns that node, and whether the client printed
// anything.
func readLostNode(client *host.Process) (node string, heard bool) {
	for {
		line, err := readLine(client)
		if err != nil {
			release(client)
			return "", heard
		}
		heard = true
		if node, lost := strings.CutSuffix(line, " Running False "); lost { // a pod that is not ready for its own reasons has another word
			return node, true
		}
	}
}

// goneError is why runs cannot go on, or nil.
func (e *podEnv) goneError() error {
	if err := context.Cause(e.watched); errors.Is(err, bench.ErrGone) {
		return err
	}
	return nil
}
