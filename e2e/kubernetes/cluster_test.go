package kubernetes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

func TestMain(m *testing.M) {
	cluster.HoldNode()
	os.Exit(m.Run())
}

// running is a cluster of a test.
type running struct {
	*cluster.Cluster
	second *cluster.Node // once it has joined
}

// startServer starts an API server for the test. The cluster ends with it.
func startServer(t *testing.T, dir string) *running {
	t.Helper()
	c := &running{Cluster: &cluster.Cluster{Files: dir, State: filepath.Join(dir, "state"), Log: t.Logf}}
	t.Cleanup(c.Stop)
	t.Cleanup(func() { // while everything still runs
		if t.Failed() {
			t.Log(c.Explain())
		}
	})
	if err := c.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// startNode starts the rest of Kubernetes and the first node.
func (c *running) startNode(t *testing.T) {
	t.Helper()
	if err := c.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.join(t)
}

// join starts one more node.
func (c *running) join(t *testing.T) *cluster.Node {
	t.Helper()
	n, err := c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for an event.
func (c *running) until(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := c.Until(t.Context(), what, check); err != nil {
		t.Fatal(err)
	}
}

// helm runs Helm against the cluster.
func (c *running) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Helm(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
