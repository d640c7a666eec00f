package launchers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// A load of launcher pod can run in a second pod, so the way to the servers lies within the cluster.

// loadParams checks the parameters of the load.
func loadParams(p bench.Params) error {
	if p["load"] == "pod" {
		if p["via"] == "service" && p["address"] != "" {
			return errors.New("parameter address: a service has its own address, so leave out address= or via=service")
		}
		return nil
	}
	switch {
	case p["via"] == "service":
		return errors.New("parameter via=service needs load=pod: a service's address is reachable only within the cluster")
	case p["nodes"] != "any" || p["loadSelector"] != "":
		return errors.New("parameters nodes and loadSelector need load=pod: they place the load's pod")
	}
	return nil
}

// podLoadAt implements bench.Launcher's OwnLoad.
func podLoadAt(p bench.Params) string {
	switch {
	case p["load"] != "pod":
		return ""
	case p["nodes"] == "same":
		return result.SameHost
	case p["nodes"] == "other":
		return "a pod on another node"
	}
	return "a pod of the cluster"
}

// podWay is the way from the load to servers.
func podWay(p bench.Params) string {
	way := map[string]string{"pod": "the cluster's network of pods", "service": "a service of the cluster (ClusterIP)", "node": "the network of the nodes"}[p["via"]]
	if p["load"] != "pod" {
		return way + ", from the harness's machine"
	}
	return way + map[string]string{"any": ", from a second pod on any node", "same": ", from a second pod on the same node", "other": ", from a second pod on another node"}[p["nodes"]]
}

// nearServer puts the load's pod on the server's node, or on another one.
func nearServer(name, nodes string) map[string]any {
	term := []any{map[string]any{"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{"matchLabels": podLabels(name, serverPod)}}}
	kind := "podAffinity"
	if nodes == "other" {
		kind = "podAntiAffinity"
	}
	return map[string]any{kind: map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": term}}
}

// enoughNodes says before anything starts that there is no second node for the load. A cluster that does not show its nodes
// says it later: the pod stays pending.
func enoughNodes(ctx context.Context, h *host.Host, p bench.Params) error {
	if p["nodes"] != "other" || p["loadSelector"] != "" {
		return nil
	}
	out, err := h.Exec(ctx, kubectl(p, "get", "nodes", "--output=name", "--selector="+strings.Join(strings.Fields(p["selector"]), ",")))
	if n := len(bytes.Fields(out.Stdout)); err == nil && n < 2 {
		return fmt.Errorf("launcher pod: nodes=other needs two nodes, and the cluster has %d with the labels %q", n, p["selector"])
	}
	return nil
}

// Reach implements bench.Reached.
func (e *podEnv) Reach(ctx context.Context, offered bench.Place) (inside, outside bench.Place, way string, err error) {
	inside, outside, way, err = e.shell.Reach(ctx, offered)
	if err != nil {
		return inside, outside, "", err
	}
	e.ports = inside.Ports
	if err := e.expose(ctx); err != nil {
		return inside, outside, "", err
	}
	e.stands = e.name + "-address"
	inside.Host, outside.Host = e.stands, e.stands
	return inside, outside, way, nil
}

// expose finds the address at which the load reaches servers, and makes the service if that has it.
func (e *podEnv) expose(ctx context.Context) error {
	e.front = e.address
	if e.params["via"] != "service" {
		return nil
	}
	out, err := e.h.Exec(ctx, kubectl(e.params, "get", "pod", e.name, "--output=jsonpath={.metadata.uid}"))
	if err != nil {
		return fmt.Errorf("ask for the pod's identity: %w%s", err, lastWords(out))
	}
	c, err := podService(e.name, strings.TrimSpace(string(out.Stdout)), e.ports, e.params)
	if err != nil {
		return err
	}
	if out, err = e.h.Exec(ctx, c); err != nil {
		return fmt.Errorf("make service %s: %w%s", e.name, err, lastWords(out))
	}
	e.front = strings.TrimSpace(string(out.Stdout))
	if ip := net.ParseIP(e.front); ip == nil || ip.To4() == nil {
		return fmt.Errorf("make service %s: the service's address is %q, want an IPv4 address", e.name, e.front)
	}
	return nil
}

// podService makes the service of the server's pod. The pod owns it, so the cluster deletes it with the pod.
func podService(name, uid string, ports []int, p bench.Params) (host.Cmd, error) {
	list := []any{}
	for _, port := range ports {
		for _, protocol := range []string{"TCP", "UDP"} {
			list = append(list, map[string]any{"name": strings.ToLower(protocol) + strconv.Itoa(port), "protocol": protocol, "port": port, "targetPort": port})
		}
	}
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "labels": podLabels(name, serverPod),
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}}},
		"spec": map[string]any{"selector": podLabels(name, serverPod), "ports": list},
	})
	c := kubectl(p, "create", "--filename=-", "--output=jsonpath={.spec.clusterIP}")
	c.Stdin = b
	return c, err
}

// Run runs a job. Pods that were lost are replaced first.
func (e *podEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if e.process == nil {
		if err := e.open(ctx); err != nil {
			return bench.Outcome{}, err
		}
		if e.ports != nil {
			if err := e.expose(ctx); err != nil {
				return bench.Outcome{}, err
			}
		}
	}
	o, err := e.shell.Run(ctx, e.at(job))
	if gone := e.goneError(); err != nil && gone != nil {
		return o, gone
	}
	return o, err
}

// at puts the addresses into a copy of the job.
func (e *podEnv) at(job bench.Job) bench.Job {
	if e.stands == "" {
		return job
	}
	job.Inside = addressed(job.Inside, e.stands, e.address)
	if job.Outside != nil {
		c := addressed(*job.Outside, e.stands, e.front)
		job.Outside = &c
	}
	job.Files = slices.Clone(job.Files)
	for i, f := range job.Files {
		if f.Data != nil && !f.Exec {
			job.Files[i].Data = bytes.ReplaceAll(f.Data, []byte(e.stands), []byte(e.address))
		}
	}
	return job
}

func addressed(c host.Cmd, stands, address string) host.Cmd {
	c.Argv = slices.Clone(c.Argv)
	for i, a := range c.Argv {
		c.Argv[i] = strings.ReplaceAll(a, stands, address)
	}
	c.Env = maps.Clone(c.Env)
	for k, v := range c.Env {
		c.Env[k] = strings.ReplaceAll(v, stands, address)
	}
	return c
}
