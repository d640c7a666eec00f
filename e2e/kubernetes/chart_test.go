package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

const chart = root + "/deploy/helm/teescope"

// noOperator leaves out the objects of the Prometheus operator, whose types this API server does not know. Module
// deploy/helm checks them.
var noOperator = []string{"--set", "prometheus.podMonitor.enabled=false,prometheus.monitor.enabled=false,prometheus.rule.enabled=false"}

// kinds are the collections of the chart's objects.
var kinds = []string{
	"api/v1/configmaps", "api/v1/services", "api/v1/serviceaccounts", "apis/apps/v1/daemonsets", "apis/apps/v1/statefulsets",
	"apis/networking.k8s.io/v1/ingresses", "apis/networking.k8s.io/v1/networkpolicies",
	"apis/rbac.authorization.k8s.io/v1/roles", "apis/rbac.authorization.k8s.io/v1/rolebindings",
	"apis/rbac.authorization.k8s.io/v1/clusterroles", "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}

// TestChart: a real API server takes every object that the chart renders, for each values file of its tests, and nothing
// is left of them after the release.
func TestChart(t *testing.T) {
	dir := apart(t, cluster.ServerTools, func(string) {})
	if dir == "" {
		return
	}
	c := startServer(t, dir)
	files, err := filepath.Glob(root + "/deploy/helm/testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files: %v", err)
	}
	cases := map[string][]string{"plain": {"--set", "dashboards.enabled=true"}}
	for _, file := range files {
		cases[strings.TrimSuffix(filepath.Base(file), ".values.yaml")] = []string{"--values", file}
	}
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			c.helm(t, append(append([]string{"install", name, chart, "--namespace", name, "--create-namespace"}, values...), noOperator...)...)
			if count := c.objects(t, name); count < 3 {
				t.Errorf("the release has %d objects", count)
			} else {
				t.Logf("the API server took %d objects", count)
			}
			c.helm(t, "uninstall", name, "--namespace", name)
			c.until(t, "the objects are gone", func() error {
				if count := c.objects(t, name); count > 0 {
					return fmt.Errorf("%d objects are left", count)
				}
				return nil
			})
		})
	}
}

// objects counts the objects of a release.
func (c *running) objects(t *testing.T, release string) (count int) {
	t.Helper()
	for _, kind := range kinds {
		var list struct{ Items []json.RawMessage }
		if err := c.API("GET", "/"+kind+"?labelSelector="+url.QueryEscape("app.kubernetes.io/instance="+release), nil, &list); err != nil {
			t.Fatal(err)
		}
		count += len(list.Items)
	}
	return count
}

// TestNode: the chart brings agents and monitor up under a real kubelet, with our image; the monitor finds the agents
// and has their series, by node, namespace and pod; what it stored survives its pod; the chart's own test passes.
func TestNode(t *testing.T) {
	if !*node {
		t.Skip("a whole node runs only with make e2e-kubernetes")
	}
	dir := apart(t, cluster.NodeTools, func(dir string) {
		if err := cluster.PrepareNodes(t.Context(), root, dir); err != nil {
			t.Fatal(err)
		}
	})
	if dir == "" {
		return
	}
	c := startServer(t, dir)
	c.startNode(t)
	c.create(t, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{
		"name": "teescope", "labels": map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}})
	t.Log(c.helm(t, append([]string{"install", "teescope", chart, "--namespace", "teescope", "--set", "monitor.scrapeInterval=1s"}, noOperator...)...))
	c.until(t, "agent and monitor are ready", c.ready)

	const agents = `up{job="teescope-agents",node="` + cluster.First + `",instance="` + cluster.First + `"}`
	c.has(t, agents+" == 1")
	c.has(t, `node_memory_MemTotal_bytes{node="`+cluster.First+`"}`)
	for _, pod := range []string{"teescope-monitor-0", "teescope-agent-.+"} {
		c.has(t, `container_cpu_usage_seconds_total{namespace="teescope",pod=~"`+pod+`",container!="",node="`+cluster.First+`"}`)
	}
	if err := c.API("PATCH", "/api/v1/nodes/"+cluster.First, map[string]any{"metadata": map[string]any{"labels": map[string]string{
		"feature.node.kubernetes.io/cpu-security.sgx.enabled": "true"}}}, nil); err != nil {
		t.Fatal(err)
	}
	c.has(t, `up{tee_labels=",sgx,",node="`+cluster.First+`"} == 1`)
	t.Log(c.helm(t, "test", "teescope", "--namespace", "teescope"))

	// A new pod finds the series that the old one stored.
	var old corev1.Pod
	const monitor = "/api/v1/namespaces/teescope/pods/teescope-monitor-0"
	if err := c.API("GET", monitor, nil, &old); err != nil {
		t.Fatal(err)
	}
	first := c.has(t, `min(min_over_time(timestamp(`+agents+`)[1h:1s]))`)
	if err := c.API("DELETE", monitor, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.until(t, "a new monitor is ready", func() error {
		var pod corev1.Pod
		if err := c.API("GET", monitor, nil, &pod); err != nil {
			return err
		}
		if pod.UID == old.UID {
			return errors.New("the old pod is still there")
		}
		return c.ready()
	})
	if again := c.has(t, `min(min_over_time(timestamp(`+agents+`)[1h:1s]))`); again != first {
		t.Errorf("the series begins at %s for the new monitor, and began at %s for the old one", again, first)
	}

	// Other settings replace the pods.
	c.helm(t, append([]string{"upgrade", "teescope", chart, "--namespace", "teescope", "--reuse-values", "--set", "hostPID=true"}, noOperator...)...)
	c.until(t, "agents in the node's PID namespace are ready", func() error {
		var set appsv1.DaemonSet
		if err := c.API("GET", "/apis/apps/v1/namespaces/teescope/daemonsets/teescope-agent", nil, &set); err != nil {
			return err
		}
		if s := set.Status; !set.Spec.Template.Spec.HostPID || s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled != 1 || s.NumberReady != 1 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	c.has(t, agents+" == 1")

	c.helm(t, "uninstall", "teescope", "--namespace", "teescope")
	c.until(t, "pods and objects are gone", func() error {
		var pods corev1.PodList
		if err := c.API("GET", "/api/v1/namespaces/teescope/pods", nil, &pods); err != nil {
			return err
		}
		if n := c.objects(t, "teescope"); n+len(pods.Items) > 0 {
			return fmt.Errorf("%d pods and %d objects are left", len(pods.Items), n)
		}
		return nil
	})

	t.Run("benchmarks in pods", c.benchmarks)
	t.Run("the network between pods", c.between)
	t.Run("storage of pods", c.storage)
}

// ready reports whether the pods of agent and monitor are ready, and never restarted.
func (c *running) ready() error {
	var pods corev1.PodList
	if err := c.API("GET", "/api/v1/namespaces/teescope/pods?labelSelector=app.kubernetes.io/component", nil, &pods); err != nil {
		return err
	}
	ready := 0
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			if s.RestartCount > 0 {
				return fmt.Errorf("pod %s restarted: %+v", p.Name, s.LastTerminationState)
			}
			if s.Ready && p.DeletionTimestamp == nil {
				ready++
			}
		}
	}
	if ready != 2 {
		return fmt.Errorf("%d containers are ready, want an agent and a monitor", ready)
	}
	return nil
}

// has waits until the monitor answers a query with a series, and returns its value.
func (c *running) has(t *testing.T, query string) (value string) {
	t.Helper()
	c.until(t, "the monitor has "+query, func() error {
		var s corev1.Service
		if err := c.API("GET", "/api/v1/namespaces/teescope/services/teescope-monitor", nil, &s); err != nil {
			return err
		}
		r, err := http.NewRequest("GET", fmt.Sprintf("http://%s:9780/api/v1/query?query=%s", s.Spec.ClusterIP, url.QueryEscape(query)), nil)
		if err != nil {
			return err
		}
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
		}
		if err := c.RequestJSON(r, &answer); err != nil {
			return err
		}
		if len(answer.Data.Result) == 0 {
			return errors.New("it has no such series")
		}
		one := answer.Data.Result[0]
		value = fmt.Sprint(one.Value[1])
		t.Logf("%v = %s", one.Metric, value)
		return nil
	})
	return value
}

func (c *running) create(t *testing.T, path string, object any) {
	t.Helper()
	if err := c.API("POST", path, object, nil); err != nil {
		t.Fatal(err)
	}
}
