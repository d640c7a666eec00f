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
	Doc: "Runs the job in a pod of a Kubernetes cluster, through kubectl, with one pod per environment on the selected nodes and with the selected runtime class. The image needs " +
		"a shell and the job's tools. This machine's counters do not count the pod's events. The pod ends with the connection, and is removed at the end. A load from outside " +
		"comes from this machine, which must reach the pods' network, or from a second pod (load=pod).",
	Remote:    true,
	Elsewhere: func(bench.Params) bool { return true },
	OwnLoad:   podLoadAt,
	Params: []bench.Param{
		{Name: "kubeconfig", Path: true, Doc: "File that configures the cluster. Empty: kubectl's own configuration."},
		{Name: "context", Doc: "Context in the kubeconfig file. Empty: the file's current context."},
		{Name: "namespace", Doc: "Namespace of the pod. Empty: the context's."},
		{Name: "selector", Doc: "Labels of the nodes, as NAME=VALUE words. Empty: any node."},
		{Name: "runtimeClass", Doc: "RuntimeClass of the pod, such as one of Kata's for confidential VMs. Empty: the cluster's default runtime."},
		{Name: "image", Default: "debian:stable-slim", Doc: "Image of the pod."},
		{Name: "cpus", Doc: "CPUs, both as request and as limit, like 2. Empty: no limit."},
		{Name: "memory", Doc: "Memory, both as request and as limit, like 4Gi. Empty: no limit."},
		{Name: "size", Doc: "Size of a volume for {data}, like 20Gi; the volume is made for the pod and removed with it. Empty: no volume."},
		{Name: "storageClass", Doc: "StorageClass of the volume for {data}. Empty: the cluster's default."},
		{Name: "work", Doc: "Folder in the pod in which the work folder is made.", Default: "/tmp"},
		{Name: "address", Doc: "IPv4 address at which the load reaches servers in the pod. Empty: the pod's own address."},
		{Name: "load", Default: "here", Values: []string{"here", "pod"}, Doc: "Where a load runs. here: on the harness's machine. pod: in a second pod with the same image, runtime class and limits."},
		{Name: "via", Default: "pod", Values: []string{"pod", "service", "node"}, Doc: "Address at which the load reaches servers. pod: the pod's address. service: a service's address (ClusterIP). " +
			"node: the node's address; the pods then use their nodes' network, which is the baseline without the cluster's network."},
		{Name: "nodes", Default: "any", Values: []string{"any", "same", "other"}, Doc: "Node of the load's pod. any: any node. same: the server's node. other: another node than the server's."},
		{Name: "loadSelector", Doc: "Labels that the node of the load's pod must have, as `NAME=VALUE` words. Empty: the labels of selector."},
		{Name: "lifetime", Default: "12h", Doc: "Time after which the cluster ends the pod, even if nobody removes it."},
	},
	Check: func(h *host.Host, p bench.Params) error {
		needs := []need{{Command: "kubectl", Hint: "package kubernetes-client, or that of the cluster's version"}}
		if p["kubeconfig"] != "" {
			needs = append(needs, need{Path: p["kubeconfig"], Hint: "the file that kubeconfig names"})
		}
		if err := missing(h, needs...); err != nil {
			return err
		}
		if _, err := podSpec("{name}", serverPod, p); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), probeTime)
		defer cancel()
		if p["context"] == "" {
			if out, err := h.Exec(ctx, kubectl(p, "config", "current-context")); err != nil {
				return fmt.Errorf("launcher pod: kubectl has no cluster%s; parameter context=NAME or kubeconfig=FILE: %w", lastWords(out), bench.ErrAsks)
			}
		}
		return enoughNodes(ctx, h, p)
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		run, err := podRun("{name}", serverPod, p)
		if err != nil {
			return nil, err
		}
		commands := []host.Cmd{podSweep(p), run}
		if p["load"] == "pod" {
			if run, err = podRun("{name}", loadPod, p); err != nil {
				return nil, err
			}
			commands = append(commands, run)
		}
		if p["via"] == "service" {
			service, err := podService("{name}", "{uid}", []int{}, p)
			if err != nil {
				return nil, err
			}
			commands = append(commands, service)
		}
		return append(commands, job.Inside, podDelete("{name}", p)), nil
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		e := &podEnv{shell: shell{h: h, launcher: "pod", way: podWay(p), params: p}, watched: context.Background(), unwatch: func(error) {}}
		e.dial, e.hangUp = e.prepare, e.remove
		if p["load"] == "pod" {
			e.load = &shell{h: h, launcher: "pod", params: p, dial: e.prepareLoad}
		}
		if err := e.open(ctx); err != nil {
			return nil, err
		}
		return e, nil
	},
}

// podEnv is one pod, or a server's and a load's.
type podEnv struct {
	shell
	name  string
	ports []int  // of servers, once a load is to reach them
	front string // the address at which it does
	// stands is for the address in the commands of jobs, since a pod that replaces a lost one has another. It has the first
	// pod's random name, so no user's argument has it.
	stands string
	// watched ends when a node of the pods is lost, or with unwatch.
	watched context.Context
	unwatch context.CancelCauseFunc
}

// podPart is a pod's part in an environment.
type podPart string

const (
	serverPod podPart = "server"
	loadPod   podPart = "load"
)

// podName is the name of the part's pod in an environment.
func (part podPart) podName(name string) string {
	if part == loadPod {
		return name + "-load"
	}
	return name
}

// podLabel is on everything that this launcher makes; podInstance and podComponent say of which environment and part it is.
const (
	podLabel     = "app.kubernetes.io/managed-by=teescope-bench"
	podInstance  = "app.kubernetes.io/instance"
	podComponent = "app.kubernetes.io/component"
)

func podLabels(name string, part podPart) map[string]string {
	label, owner, _ := strings.Cut(podLabel, "=")
	return map[string]string{label: owner, podInstance: name, podComponent: string(part)}
}

// podPatience is how long a pod may take to start, with the pull of its image and the boot of a VM or a node.
const podPatience = 10 * time.Minute

// podVolume is where the volume for {data} is mounted.
const podVolume = "/teescope-data"

// prepare removes pods that have ended without their harness, and names a new one.
func (e *podEnv) prepare(ctx context.Context) (host.Cmd, error) {
	e.name = "teescope-pod-" + strings.ToLower(rand.Text()[:10])
	e.to = "pod " + e.name
	run, err := podRun(e.name, serverPod, e.params)
	if err != nil {
		return host.Cmd{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if out, err := e.h.Exec(ctx, podSweep(e.params)); err != nil {
		return host.Cmd{}, fmt.Errorf("remove pods that have ended: %w%s", err, lastWords(out))
	}
	return run, nil
}

// prepareLoad names the load's pod.
func (e *podEnv) prepareLoad(context.Context) (host.Cmd, error) {
	e.load.to = "pod " + loadPod.podName(e.name)
	return podRun(e.name, loadPod, e.params)
}

// open starts the pods.
func (e *podEnv) open(ctx context.Context) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	var err error
	if e.load != nil {
		err = e.load.connect(ctx)
	}
	if err == nil {
		err = e.watch(ctx)
	}
	if err != nil {
		e.cut()
		return errors.Join(err, e.remove())
	}
	return nil
}

// remove removes the pods and what is theirs, also after the context's end.
func (e *podEnv) remove() error {
	if e.load != nil {
		e.load.cut()
	}
	e.unwatch(nil)
	ctx, cancel := context.WithTimeout(context.Background(), 2*probeTime)
	defer cancel()
	c := podDelete(e.name, e.params)
	if e.goneError() != nil { // nobody is there to end the pod and say so
		c.Argv = append(c.Argv, "--force", "--grace-period=0")
	}
	if out, err := e.h.Exec(ctx, c); err != nil {
		return fmt.Errorf("remove pod %s: %w%s (remove the pod by hand; the cluster ends it after %s)", e.name, err, lastWords(out), e.params["lifetime"])
	}
	return nil
}

func (e *podEnv) Describe(ctx context.Context, d *result.Environment) error {
	if err := e.shell.Describe(ctx, d); err != nil {
		return err
	}
	out, err := e.h.Exec(ctx, podNode(e.name, e.params))
	if err != nil {
		return fmt.Errorf("ask for the pod's node: %w%s", err, lastWords(out))
	}
	node, image, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
	d.Params["node"] = node
	d.Software.Versions = withEntry(d.Software.Versions, "image", image)
	if e.load != nil {
		if out, err = e.h.Exec(ctx, podNode(loadPod.podName(e.name), e.params)); err != nil {
			return fmt.Errorf("ask for the node of the load's pod: %w%s", err, lastWords(out))
		}
		d.Params["load-node"], _, _ = strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
	}
	if d.Network != "" {
		e.describeNetwork(ctx, d)
	}
	if e.params["size"] != "" {
		e.describeVolume(ctx, d)
	}
	return nil
}

func podNode(name string, p bench.Params) host.Cmd {
	return kubectl(p, "get", "pod", name, "--output", "jsonpath={.spec.nodeName} {.status.containerStatuses[0].imageID}")
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
	all := []string{"delete", "--ignore-not-found", "pod/" + name}
	if p["load"] == "pod" {
		all = append(all, "pod/"+loadPod.podName(name))
	}
	if p["via"] == "service" {
		all = append(all, "service/"+name)
	}
	return kubectl(p, all...)
}

// podRun makes the pod and connects to its shell, whose standard input ends when this client does.
func podRun(name string, part podPart, p bench.Params) (host.Cmd, error) {
	spec, err := podSpec(name, part, p)
	if err != nil {
		return host.Cmd{}, err
	}
	c := kubectl(p, "run", part.podName(name), "--image="+p["image"], "--restart=Never", "--stdin", "--quiet", fmt.Sprintf("--pod-running-timeout=%v", podPatience), "--overrides="+spec)
	c.Pipe = true
	return c, nil
}

// podSpec is a part's pod in JSON.
func podSpec(name string, part podPart, p bench.Params) (string, error) {
	lifetime, err := p.Seconds("lifetime")
	if err == nil {
		err = arriveParams("pod", p)
	}
	if err == nil && p["storageClass"] != "" && p["size"] == "" {
		err = errors.New("parameter storageClass needs size=")
	}
	if err == nil {
		err = loadParams(p)
	}
	nodes, nerr := nodeLabels("selector", p)
	if part == loadPod && p["loadSelector"] != "" {
		nodes, nerr = nodeLabels("loadSelector", p)
	}
	if err = errors.Join(err, nerr); err != nil {
		return "", fmt.Errorf("launcher pod: %w", err)
	}
	limits := map[string]string{}
	for name, resource := range map[string]string{"cpus": "cpu", "memory": "memory"} {
		if p[name] != "" {
			limits[resource] = p[name]
		}
	}
	script, volume := p, p["size"] != "" && part == serverPod
	if volume {
		script = maps.Clone(p)
		script["data"] = podVolume
	}
	container := map[string]any{
		"name": part.podName(name), "image": p["image"], "stdin": true, "stdinOnce": true,
		"command":   []string{"sh", "-c", unexpanded(arrive("pod", script))},
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
	if p["via"] == "node" {
		spec["hostNetwork"] = true
	}
	if part == loadPod && p["nodes"] != "any" {
		spec["affinity"] = nearServer(name, p["nodes"])
	}
	if volume {
		claim := map[string]any{"accessModes": []string{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]string{"storage": p["size"]}}}
		if p["storageClass"] != "" {
			claim["storageClassName"] = p["storageClass"]
		}
		container["volumeMounts"] = []any{map[string]string{"name": "data", "mountPath": podVolume}}
		spec["volumes"] = []any{map[string]any{"name": "data", "ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"spec": claim}}}}
	}
	spec["containers"] = []any{container}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "metadata": map[string]any{"labels": podLabels(name, part)}, "spec": spec})
	return string(b), err
}

// unexpanded is a word of a container's command that the kubelet passes on as text. It replaces $(NAME) and makes $$ a $ (field
// command of Kubernetes' Container, API reference v1).
func unexpanded(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// nodeLabels reads a parameter with labels of nodes.
func nodeLabels(param string, p bench.Params) (map[string]string, error) {
	nodes := map[string]string{}
	for _, word := range strings.Fields(p[param]) {
		label, value, ok := strings.Cut(word, "=")
		if !ok || label == "" {
			return nil, fmt.Errorf("parameter %s: %q: want NAME=VALUE", param, word)
		}
		nodes[label] = value
	}
	return nodes, nil
}
