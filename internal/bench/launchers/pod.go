package launchers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// pod compares node pools and runtime classes of a cluster, confidential ones with others.
var pod = bench.Launcher{
	Name: "pod",
	Doc: "Runs the job in a pod of a Kubernetes cluster, through kubectl: one pod per arm, on the nodes and with the runtime class that are named. Its image needs " +
		"a shell and the job's tools; this machine's counters do not see it. The pod ends with the connection, and is removed at the end. A load from outside " +
		"comes from this machine, which must reach the pods' network.",
	Remote:    true,
	Elsewhere: func(bench.Params) bool { return true },
	Params: []bench.Param{
		{Name: "kubeconfig", Path: true, Doc: "File that names the cluster. Empty: as kubectl is configured."},
		{Name: "context", Doc: "Context of that file. Empty: its current one."},
		{Name: "namespace", Doc: "Namespace of the pod. Empty: the context's."},
		{Name: "selector", Doc: "Labels of the nodes, as NAME=VALUE words. Empty: any node."},
		{Name: "runtimeClass", Doc: "RuntimeClass of the pod, such as one of Kata's for confidential VMs. Empty: the cluster's default runtime."},
		{Name: "image", Default: "debian:stable-slim", Doc: "Its image."},
		{Name: "cpus", Doc: "CPUs, requested and as the limit, like 2. Empty: no limit."},
		{Name: "memory", Doc: "Memory, requested and as the limit, like 4Gi. Empty: no limit."},
		{Name: "size", Doc: "Size of a volume for {data}, like 20Gi, which is made for the pod and removed with it. Empty: no volume."},
		{Name: "storageClass", Doc: "StorageClass of that volume. Empty: the cluster's default."},
		{Name: "work", Doc: "Folder there in which the work folder is made.", Default: "/tmp"},
		{Name: "address", Doc: "IPv4 address at which the load reaches servers in the pod. Empty: the pod's."},
		{Name: "lifetime", Default: "12h", Doc: "After this time the cluster ends the pod, even if nobody removes it."},
	},
	Check: func(h *host.Host, p bench.Params) error {
		needs := []need{{Command: "kubectl", Hint: "package kubernetes-client, or that of the cluster's version"}}
		if p["kubeconfig"] != "" {
			needs = append(needs, need{Path: p["kubeconfig"], Hint: "the file that kubeconfig names"})
		}
		if err := missing(h, needs...); err != nil {
			return err
		}
		if _, err := podSpec("{name}", p); err != nil || p["context"] != "" {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), probeTime)
		defer cancel()
		if out, err := h.Exec(ctx, kubectl(p, "config", "current-context")); err != nil {
			return fmt.Errorf("launcher pod: kubectl has no cluster%s; parameter context=NAME or kubeconfig=FILE: %w", said(out), bench.ErrAsks)
		}
		return nil
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		run, err := podRun("{name}", p)
		if err != nil {
			return nil, err
		}
		return []host.Cmd{podSweep(p), run, job.Inside, podDelete("{name}", p)}, nil
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		e := &podEnv{shell: shell{h: h, launcher: "pod", way: "the cluster's network of pods, from the harness's machine", params: p}}
		e.dial, e.hangUp = e.prepare, e.remove
		if err := e.connect(ctx); err != nil {
			return nil, err
		}
		return e, nil
	},
}

type podEnv struct {
	shell
	name string
}

// podLabel is on every pod of this launcher.
const podLabel = "app.kubernetes.io/managed-by=teescope-bench"

// podPatience is how long a pod may take to start, with the pull of its image and the boot of a VM or a node.
const podPatience = 10 * time.Minute

// podVolume is where the volume for {data} is mounted.
const podVolume = "/teescope-data"

// prepare removes pods that have ended without their harness, and names a new one.
func (e *podEnv) prepare(ctx context.Context) (host.Cmd, error) {
	e.name = "teescope-pod-" + strings.ToLower(rand.Text()[:10])
	e.to = "pod " + e.name
	run, err := podRun(e.name, e.params)
	if err != nil {
		return host.Cmd{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if out, err := e.h.Exec(ctx, podSweep(e.params)); err != nil {
		return host.Cmd{}, fmt.Errorf("remove pods that have ended: %w%s", err, said(out))
	}
	return run, nil
}

// remove removes the pod, also after the context's end.
func (e *podEnv) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*probeTime)
	defer cancel()
	if out, err := e.h.Exec(ctx, podDelete(e.name, e.params)); err != nil {
		return fmt.Errorf("remove pod %s: %w%s (remove it by hand; the cluster ends it after %s)", e.name, err, said(out), e.params["lifetime"])
	}
	return nil
}

func (e *podEnv) Describe(ctx context.Context, d *result.Environment) error {
	if err := e.shell.Describe(ctx, d); err != nil {
		return err
	}
	get := kubectl(e.params, "get", "pod", e.name, "--output", "jsonpath={.spec.nodeName} {.status.containerStatuses[0].imageID}")
	out, err := e.h.Exec(ctx, get)
	if err != nil {
		return fmt.Errorf("ask for the pod's node: %w%s", err, said(out))
	}
	node, image, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
	d.Params["node"] = node
	d.Software.Versions = with(d.Software.Versions, "image", image)
	return nil
}

func kubectl(p bench.Params, args ...string) host.Cmd {
	argv := []string{"kubectl"}
	for _, name := range []string{"kubeconfig", "context", "namespace"} {
		if p[name] != "" {
			argv = append(argv, "--"+name+"="+p[name])
		}
	}
	return host.Cmd{Argv: append(argv, args...)}
}

func podSweep(p bench.Params) host.Cmd {
	return kubectl(p, "delete", "pods", "--selector="+podLabel, "--field-selector=status.phase!=Running,status.phase!=Pending", "--wait=false")
}

func podDelete(name string, p bench.Params) host.Cmd {
	return kubectl(p, "delete", "pod", name, "--ignore-not-found")
}

// podRun makes the pod and connects to its shell, whose standard input ends when this client does.
func podRun(name string, p bench.Params) (host.Cmd, error) {
	spec, err := podSpec(name, p)
	if err != nil {
		return host.Cmd{}, err
	}
	c := kubectl(p, "run", name, "--image="+p["image"], "--restart=Never", "--stdin", "--quiet", fmt.Sprintf("--pod-running-timeout=%v", podPatience), "--overrides="+spec)
	c.Pipe = true
	return c, nil
}

// podSpec is the pod in JSON.
func podSpec(name string, p bench.Params) (string, error) {
	lifetime, err := p.Seconds("lifetime")
	if err == nil {
		err = arriveParams("pod", p)
	}
	if err == nil && p["storageClass"] != "" && p["size"] == "" {
		err = errors.New("parameter storageClass needs size=")
	}
	nodes := map[string]string{}
	for _, word := range strings.Fields(p["selector"]) {
		label, value, ok := strings.Cut(word, "=")
		if !ok || label == "" {
			err = errors.Join(err, fmt.Errorf("parameter selector: %q: want NAME=VALUE", word))
		}
		nodes[label] = value
	}
	if err != nil {
		return "", fmt.Errorf("launcher pod: %w", err)
	}
	label, owner, _ := strings.Cut(podLabel, "=")
	limits := map[string]string{}
	for name, resource := range map[string]string{"cpus": "cpu", "memory": "memory"} {
		if p[name] != "" {
			limits[resource] = p[name]
		}
	}
	script := p
	if p["size"] != "" {
		script = maps.Clone(p)
		script["data"] = podVolume
	}
	container := map[string]any{
		"name": name, "image": p["image"], "stdin": true, "stdinOnce": true,
		"command":   []string{"sh", "-c", arrive("pod", script)},
		"env":       []any{map[string]any{"name": "POD_IP", "valueFrom": map[string]any{"fieldRef": map[string]string{"fieldPath": "status.podIP"}}}},
		"resources": map[string]any{"limits": limits, "requests": limits},
	}
	spec := map[string]any{
		"activeDeadlineSeconds": max(1, int64(lifetime.Seconds())), "terminationGracePeriodSeconds": 5, "restartPolicy": "Never",
		"shareProcessNamespace":        true, // the agent takes itself for the first process of a guest if it is the first here
		"automountServiceAccountToken": false, "enableServiceLinks": false, "nodeSelector": nodes,
	}
	if p["runtimeClass"] != "" {
		spec["runtimeClassName"] = p["runtimeClass"]
	}
	if p["size"] != "" {
		claim := map[string]any{"accessModes": []string{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]string{"storage": p["size"]}}}
		if p["storageClass"] != "" {
			claim["storageClassName"] = p["storageClass"]
		}
		container["volumeMounts"] = []any{map[string]string{"name": "data", "mountPath": podVolume}}
		spec["volumes"] = []any{map[string]any{"name": "data", "ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"spec": claim}}}}
	}
	spec["containers"] = []any{container}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "metadata": map[string]any{"labels": map[string]string{label: owner}}, "spec": spec})
	return string(b), err
}
