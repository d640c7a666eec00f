package launchers

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// podWatch hears from the cluster when a node of an environment's pods is lost. The connections to the pods would not end: nobody answers
// at their other end.
type podWatch struct {
	client *host.Process // nil: not watching
	lost   *locked.Value[string]
}

// readiness prints the node of each pod that changes, and whether the pod is ready. While a pod's containers run, it is not ready only if
// the cluster has lost its node ("Node conditions" and "Node heartbeats" of Kubernetes' documentation).
const readiness = `--output=jsonpath={.spec.nodeName} {.status.phase} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}{"\n"}`

func podReadiness(name string, p bench.Params) host.Cmd {
	c := kubectl(p, "get", "pods", "--selector="+podInstance+"="+name, "--watch-only", readiness)
	c.Pipe = true
	return c
}

// watch listens until unwatch. When a node is lost, it ends the clients of the pods. An account that may not watch pods learns of a lost
// node when the connections time out.
func (e *podEnv) watch(ctx context.Context) error {
	client, err := e.h.Start(context.WithoutCancel(ctx), podReadiness(e.name, e.params))
	if err != nil {
		return fmt.Errorf("watch pod %s: %w", e.name, err)
	}
	w := podWatch{client, new(locked.Value[string])}
	e.watching = w
	pods := []*host.Process{e.process}
	if e.load != nil {
		pods = append(pods, e.load.process)
	}
	go func() {
		for lines := bufio.NewScanner(client); lines.Scan(); {
			node, lost := lostNode(lines.Text())
			if !lost {
				continue
			}
			*w.lost.Lock() = node
			w.lost.Unlock()
			for _, p := range pods {
				release(p)
			}
		}
	}()
	return nil
}

// lostNode reads a line of readiness.
func lostNode(line string) (node string, lost bool) {
	words := strings.Fields(line)
	if len(words) != 3 || words[1] != "Running" || words[2] != "False" { // a pod that is not ready for its own reasons has a fourth word
		return "", false
	}
	return words[0], true
}

func (e *podEnv) unwatch() {
	if e.watching.client != nil {
		e.watching.client.Stop()
	}
	e.watching.client = nil
}

// gone is why runs cannot go on, or nil.
func (e *podEnv) gone() error {
	if e.watching.lost == nil {
		return nil
	}
	node := *e.watching.lost.Lock()
	e.watching.lost.Unlock()
	if node == "" {
		return nil
	}
	return fmt.Errorf("%w: node %s has left the cluster (kubectl get nodes): bring it back, or select other nodes", bench.ErrGone, node)
}
