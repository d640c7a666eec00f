package deploy

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	yamlv3 "gopkg.in/yaml.v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kjson "sigs.k8s.io/json" // as the API server decodes: with regard to case
	"sigs.k8s.io/yaml"

	"github.com/teescope/teescope/internal/cli"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/store/storetest"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/internal/web"
)

// byDefault is what the chart renders with default values.
const byDefault = "kubernetes/teescope.yaml"

// renderings are what the chart renders; the tests of its own module, deploy/helm, keep them current.
func renderings(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("helm/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".values.yaml") })
	if len(all) < 3 {
		t.Fatalf("only %d renderings of the chart", len(all))
	}
	return append(all, byDefault)
}

// workload is a DaemonSet, a StatefulSet or the pod of a test.
type workload struct {
	corev1.PodTemplateSpec
	name     string
	selector map[string]string // nil for a pod
	claims   []corev1.PersistentVolumeClaim
}

func (w workload) container() corev1.Container { return w.Spec.Containers[0] }

// alerts is the part of a PrometheusRule that Prometheus reads; the tests of deploy/helm decode it into its own type.
type alerts struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
}

// installed are the objects of one rendering.
type installed struct {
	workloads []workload
	configs   map[string]string
	accounts  []string
	services  []corev1.Service
	ingresses []networkingv1.Ingress
	policies  []networkingv1.NetworkPolicy
	roles     map[string][]rbacv1.PolicyRule // by kind and name
	bindings  []rbacv1.RoleBinding           // of both kinds, which have the same fields
	rules     []byte
}

// readChart decodes a rendering into Kubernetes' own types, which refuses unknown fields.
func readChart(t *testing.T, name string) installed {
	t.Helper()
	in := installed{configs: map[string]string{}, accounts: []string{"default"}, roles: map[string][]rbacv1.PolicyRule{}}
	for doc := range bytes.SplitSeq(read(t, name), []byte("\n---\n")) {
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		decode := func(into any) {
			b, err := yaml.YAMLToJSONStrict(doc)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, meta.Kind, err)
			}
			unknown, err := kjson.UnmarshalStrict(b, into)
			if err = errors.Join(append(unknown, err)...); err != nil {
				t.Errorf("%s: %s: %v", name, meta.Kind, err)
			}
		}
		switch meta.Kind {
		case "Namespace":
			decode(&corev1.Namespace{})
		case "DaemonSet":
			var o appsv1.DaemonSet
			decode(&o)
			in.workloads = append(in.workloads, workload{o.Spec.Template, o.Name, o.Spec.Selector.MatchLabels, nil})
		case "StatefulSet":
			var o appsv1.StatefulSet
			decode(&o)
			in.workloads = append(in.workloads, workload{o.Spec.Template, o.Name, o.Spec.Selector.MatchLabels, o.Spec.VolumeClaimTemplates})
		case "Pod":
			var o corev1.Pod
			decode(&o)
			in.workloads = append(in.workloads, workload{corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}, o.Name, nil, nil})
		case "ConfigMap":
			var o corev1.ConfigMap
			decode(&o)
			in.configs[o.Name] = o.Data["config.yaml"]
		case "ServiceAccount":
			var o corev1.ServiceAccount
			decode(&o)
			in.accounts = append(in.accounts, o.Name)
		case "Service":
			var o corev1.Service
			decode(&o)
			in.services = append(in.services, o)
		case "Ingress":
			var o networkingv1.Ingress
			decode(&o)
			in.ingresses = append(in.ingresses, o)
		case "NetworkPolicy":
			var o networkingv1.NetworkPolicy
			decode(&o)
			in.policies = append(in.policies, o)
		case "Role":
			var o rbacv1.Role
			decode(&o)
			in.roles["Role "+o.Name] = o.Rules
		case "ClusterRole":
			var o rbacv1.ClusterRole
			decode(&o)
			in.roles["ClusterRole "+o.Name] = o.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var o rbacv1.RoleBinding
			decode(&o)
			in.bindings = append(in.bindings, o)
		case "PrometheusRule":
			var o struct{ Spec any }
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			in.rules, _ = yaml.Marshal(o.Spec)
		case "PodMonitor", "ServiceMonitor": // deploy/helm checks them
		default:
			t.Errorf("%s: %s %s is not checked", name, meta.APIVersion, meta.Kind)
		}
	}
	return in
}

// TestChart: what a rendering's objects name exists: accounts, volumes, ports, roles, flags, paths of probes, configurations.
func TestChart(t *testing.T) {
	answers := web.Handler(web.Options{Ready: func() error { return nil }, Metrics: func(_ context.Context, b []byte) []byte { return b }})
	for _, name := range renderings(t) {
		in := readChart(t, name)
		for _, w := range in.workloads {
			where := name + ": " + w.name
			checkPod(t, where, w, in)
			c := w.container()
			if w.selector == nil {
				continue
			}
			if c.Resources.Limits.Memory().IsZero() && !strings.Contains(name, "everything") { // there the user's limits replace ours
				t.Errorf("%s has no limit of memory", where)
			}
			for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if p == nil {
					t.Errorf("%s lacks a probe", where)
					continue
				}
				if p.HTTPGet == nil {
					continue
				}
				said := httptest.NewRecorder() // a kubelet names the pod's address
				if answers.ServeHTTP(said, httptest.NewRequest("GET", "http://10.0.0.7:9781"+p.HTTPGet.Path, nil)); said.Code != 200 {
					t.Errorf("%s is probed at %s, which answers %d", where, p.HTTPGet.Path, said.Code)
				}
			}
			if a := w.Annotations; a["prometheus.io/scrape"] == "true" && (a["prometheus.io/path"] != "/metrics" || a["prometheus.io/port"] != port(c)) {
				t.Errorf("%s listens on %s, its annotations say %v", where, port(c), a)
			}
		}
		for _, s := range in.services {
			if !slices.ContainsFunc(in.workloads, func(w workload) bool {
				return matches(s.Spec.Selector, w.Labels) && named(w, s.Spec.Ports[0].TargetPort.StrVal)
			}) {
				t.Errorf("%s: service %s leads to no pod", name, s.Name)
			}
		}
		for _, i := range in.ingresses {
			to := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service
			if !slices.ContainsFunc(in.services, func(s corev1.Service) bool { return s.Name == to.Name && s.Spec.Ports[0].Port == to.Port.Number }) {
				t.Errorf("%s: the ingress leads to no service", name)
			}
		}
		for _, p := range in.policies {
			if !slices.ContainsFunc(in.workloads, func(w workload) bool { return matches(p.Spec.PodSelector.MatchLabels, w.Labels) }) {
				t.Errorf("%s: policy %s selects no pod", name, p.Name)
			}
		}
		for role, rules := range in.roles {
			for _, r := range rules {
				if !slices.Equal(r.Verbs, []string{"get", "list", "watch"}) || len(r.Resources) != 1 || r.Resources[0] != "pods" && (r.Resources[0] != "nodes" || !strings.HasPrefix(role, "Cluster")) {
					t.Errorf("%s: %s may more than discovery needs: %v", name, role, r)
				}
			}
			if !slices.ContainsFunc(in.bindings, func(b rbacv1.RoleBinding) bool {
				return b.RoleRef.Kind+" "+b.RoleRef.Name == role && slices.Contains(in.accounts, b.Subjects[0].Name)
			}) {
				t.Errorf("%s: %s is bound to no account", name, role)
			}
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func port(c corev1.Container) string {
	args := strings.Join(c.Args, " ")
	m := regexp.MustCompile(`--listen=\S*:(\d+)`).FindStringSubmatch(args)
	if m == nil || c.Ports[0].ContainerPort == 0 {
		return "nothing"
	}
	return m[1]
}

func named(w workload, port string) bool {
	return slices.ContainsFunc(w.container().Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
}

// checkPod checks what one pod must and must not have.
func checkPod(t *testing.T, where string, w workload, in installed) {
	t.Helper()
	c := w.container()
	checkArgs(t, where, c.Args)
	if len(w.selector) > 0 && !matches(w.selector, w.Labels) {
		t.Errorf("%s: the selector %v is not that of the pods, %v", where, w.selector, w.Labels)
	}
	if a := w.Spec.ServiceAccountName; a != "" && !slices.Contains(in.accounts, a) {
		t.Errorf("%s: no account %s", where, a)
	}
	if token := w.Spec.AutomountServiceAccountToken; token == nil || *token != (c.Name == "monitor") {
		t.Errorf("%s: only the monitor has a token", where)
	}
	s := c.SecurityContext
	if s == nil || *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s: security context %+v: want unprivileged, read-only root, all capabilities dropped", where, s)
	}
	if p := w.Spec.SecurityContext.SeccompProfile; p == nil || p.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: no seccomp profile", where)
	}
	if c.Name != "agent" && (!*w.Spec.SecurityContext.RunAsNonRoot || len(s.Capabilities.Add) > 0) {
		t.Errorf("%s runs as root or has capabilities", where)
	}
	volumes := map[string]bool{}
	for _, v := range w.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && in.configs[v.ConfigMap.Name] == "" {
			t.Errorf("%s: no configuration %s", where, v.ConfigMap.Name)
		}
	}
	for _, v := range w.claims {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: no volume %s", where, m.Name)
		}
		if !m.ReadOnly && m.Name != "data" && m.Name != "socket" {
			t.Errorf("%s: volume %s is mounted for writing", where, m.Name)
		}
	}
}

// TestChartByDefault: the agents of the default rendering have the least.
func TestChartByDefault(t *testing.T) {
	for _, w := range readChart(t, byDefault).workloads {
		if w.Spec.HostNetwork || w.Spec.HostPID || w.Spec.HostIPC {
			t.Errorf("%s shares the node's network or processes", w.name)
		}
		if got := w.container().SecurityContext.Capabilities.Add; w.container().Name == "agent" && !slices.Equal(got, []corev1.Capability{"BPF", "PERFMON"}) {
			t.Errorf("%s has the capabilities %v", w.name, got)
		}
	}
}

// TestChartAsks: where nothing asks who reads, a network policy selects each pod with a port, and lets only named peers in; the one
// rendering without either says so.
func TestChartAsks(t *testing.T) {
	for _, name := range renderings(t) {
		in := readChart(t, name)
		ports := 0
		for _, w := range in.workloads {
			c := w.container()
			if len(c.Ports) == 0 {
				continue
			}
			ports++
			asks := slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--web-config=") })
			apart := !w.Spec.HostNetwork && slices.ContainsFunc(in.policies, func(p networkingv1.NetworkPolicy) bool {
				return matches(p.Spec.PodSelector.MatchLabels, w.Labels) && slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) && narrow(p.Spec.Ingress, w)
			})
			if insecure := slices.Contains(c.Args, "--insecure"); insecure == asks {
				t.Errorf("%s: %s: flags %v", name, w.name, c.Args)
			}
			if open := !asks && !apart; open != strings.HasSuffix(name, "/monitor.yaml") {
				t.Errorf("%s: %s: authentication %t, network policy %t", name, w.name, asks, apart)
			}
		}
		if ports == 0 {
			t.Errorf("%s: no pod has a port", name)
		}
	}
}

// narrow reports whether each rule names the port of w and peers that are not the whole cluster.
func narrow(rules []networkingv1.NetworkPolicyIngressRule, w workload) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(r networkingv1.NetworkPolicyIngressRule) bool {
		return len(r.From) == 0 || len(r.Ports) != 1 || !named(w, r.Ports[0].Port.StrVal) || slices.ContainsFunc(r.From, func(p networkingv1.NetworkPolicyPeer) bool {
			return p.NamespaceSelector != nil && len(p.NamespaceSelector.MatchLabels)+len(p.NamespaceSelector.MatchExpressions) == 0
		})
	})
}

// TestChartConfigurations has the program itself read each configuration, with the flags that the pod gives it: a port
// that it cannot open ends it after that.
func TestChartConfigurations(t *testing.T) {
	for _, name := range renderings(t) {
		in := readChart(t, name)
		for _, w := range in.workloads {
			if w.selector == nil {
				continue
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			i := slices.IndexFunc(w.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil })
			if err := os.WriteFile(file, []byte(in.configs[w.Spec.Volumes[i].ConfigMap.Name]), 0o600); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, a := range w.container().Args {
				switch flag, _, _ := strings.Cut(a, "="); flag {
				case "--config":
					args = append(args, "--config="+file)
				case "--listen":
					args = append(args, "--listen=nowhere")
				case "--host-root", "--web-config": // files of a node and of a Secret
				default:
					args = append(args, a)
				}
			}
			var said bytes.Buffer
			cli.Main(t.Context(), cli.Env{Args: args, Stdout: &said, Stderr: &said})
			if !strings.HasPrefix(said.String(), "teescope: listen on nowhere") {
				t.Errorf("%s: %s: %s", name, w.name, &said)
			}
		}
	}
}

// monitorConfig is the monitor's configuration by default.
func monitorConfig(t *testing.T) (c struct {
	Analysis struct {
		Own []struct{ Name, Expr string }
	}
	ScrapeConfigs []struct {
		RelabelConfigs       []*relabel.Config `yaml:"relabel_configs"`
		MetricRelabelConfigs []*relabel.Config `yaml:"metric_relabel_configs"`
	} `yaml:"scrape_configs"`
}) {
	t.Helper()
	if err := yamlv3.Unmarshal([]byte(readChart(t, byDefault).configs["teescope-monitor"]), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.ScrapeConfigs) != 1 || len(c.Analysis.Own) != 1 {
		t.Fatalf("%d jobs, %d rules", len(c.ScrapeConfigs), len(c.Analysis.Own))
	}
	return c
}

// TestChartAlerts: alerts and rules ask for metrics that exist, and Prometheus accepts them.
func TestChartAlerts(t *testing.T) {
	known := emitted(t)
	known["up"] = true
	checkExpr(t, "the monitor's rule", monitorConfig(t).Analysis.Own[0].Expr, nil, known)
	file, count := filepath.Join(t.TempDir(), "rules.yml"), 0
	for _, name := range renderings(t) {
		text := readChart(t, name).rules
		var rules alerts
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				count++
				checkExpr(t, name+": "+r.Alert, r.Expr, nil, known)
			}
		}
		tool, err := exec.LookPath("promtool")
		if err != nil || len(text) == 0 {
			continue // TestPrometheusConfig names the package
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%s: promtool check rules: %v\n%s", name, err, out)
		}
	}
	if count == 0 {
		t.Error("no rendering has alerts")
	}
}

// TestChartLabels: what becomes of an agent's labels, for the target and for a series of a container.
func TestChartLabels(t *testing.T) {
	job := monitorConfig(t).ScrapeConfigs[0]
	for what, c := range map[string]struct {
		configs  []*relabel.Config
		in, want map[string]string // want nil: dropped
	}{
		"a node without labels": {
			job.RelabelConfigs,
			map[string]string{"__address__": "10.0.0.1:9781", "__meta_kubernetes_pod_node_name": "n1", "__meta_kubernetes_pod_container_port_name": "http", "__meta_kubernetes_pod_phase": "Running"},
			map[string]string{"instance": "n1", "node": "n1"},
		},
		"a node with two TEEs": {
			job.RelabelConfigs,
			map[string]string{"__meta_kubernetes_pod_node_name": "n1", "__meta_kubernetes_pod_container_port_name": "http",
				"__meta_kubernetes_node_label_feature_node_kubernetes_io_cpu_security_sgx_enabled":             "true",
				"__meta_kubernetes_node_label_nvidia_com_cc_mode_state":                                        "on",
				"__meta_kubernetes_node_labelpresent_feature_node_kubernetes_io_kernel_version_full":           "true",
				"__meta_kubernetes_node_label_feature_node_kubernetes_io_cpu_security_tdx_enabled":             "false",
				"__meta_kubernetes_node_labelpresent_feature_node_kubernetes_io_cpu_security_tdx_enabled":      "true",
				"__meta_kubernetes_node_labelpresent_feature_node_kubernetes_io_cpu_security_sgx_enabled_more": "true"},
			map[string]string{"instance": "n1", "node": "n1", "tee_labels": ",nvidia-cc,sgx,", "node_features": "true"},
		},
		"another port":     {job.RelabelConfigs, map[string]string{"__meta_kubernetes_pod_container_port_name": "other"}, nil},
		"a pod that ended": {job.RelabelConfigs, map[string]string{"__meta_kubernetes_pod_container_port_name": "http", "__meta_kubernetes_pod_phase": "Failed"}, nil},
		"a series": {
			job.MetricRelabelConfigs,
			map[string]string{"__name__": "container_threads", "pod": "web-0", "namespace": "shop", "container": "web", "node": "n1", "tee_labels": ",sgx,", "node_features": "true"},
			map[string]string{"pod": "web-0", "namespace": "shop", "container": "web", "node": "n1"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			for _, r := range c.configs {
				if err := r.Validate(model.UTF8Validation); err != nil {
					t.Fatal(err)
				}
			}
			b := labels.NewBuilder(labels.FromMap(c.in))
			if !relabel.ProcessBuilder(b, c.configs...) {
				if c.want != nil {
					t.Error("it is dropped")
				}
				return
			}
			has := b.Labels().Map()
			maps.DeleteFunc(has, func(name, _ string) bool { return strings.HasPrefix(name, "__") })
			if !reflect.DeepEqual(has, c.want) {
				t.Errorf("labels %v, want %v", has, c.want)
			}
		})
	}
}

// TestChartDisagreement: the monitor's rule names the nodes whose labels and detected TEEs differ.
func TestChartDisagreement(t *testing.T) {
	s := storetest.Load(t, `load 15s
  up{job="teescope-agents",instance="agree",tee_labels=",sgx,",node_features="true"} 1x40
  tee_info{job="teescope-agents",instance="agree",kind="sgx",active="true"} 1x40
  up{job="teescope-agents",instance="only labelled",tee_labels=",nvidia-cc,sgx,",node_features="true"} 1x40
  tee_info{job="teescope-agents",instance="only labelled",kind="nvidia-cc",active="true"} 1x40
  up{job="teescope-agents",instance="off",tee_labels=",tdx-host,",node_features="true"} 1x40
  tee_info{job="teescope-agents",instance="off",kind="tdx-host",active="false"} 1x40
  up{job="teescope-agents",instance="only found",node_features="true"} 1x40
  tee_info{job="teescope-agents",instance="only found",kind="tdx",active="true"} 1x40
  up{job="teescope-agents",instance="no labels at all"} 1x40
  tee_info{job="teescope-agents",instance="no labels at all",kind="tdx",active="true"} 1x40
  up{job="teescope-agents",instance="down",tee_labels=",sgx,",node_features="true"} 0x40
`)
	expr := monitorConfig(t).Analysis.Own[0].Expr
	if needs, err := store.Reads(expr); err != nil || !slices.Equal(needs, []string{"up"}) {
		t.Errorf("the rule is not checked while one of %v has no series, %v; want only up", needs, err)
	}
	points, err := s.Query(t.Context(), expr, time.Unix(300, 0))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range points {
		got[p.Labels["instance"]] += p.Labels["tee"]
	}
	if want := map[string]string{"only labelled": "sgx", "off": "tdx-host", "only found": "tdx"}; !reflect.DeepEqual(got, want) {
		t.Errorf("disagreements %v, want %v", got, want)
	}
}

// TestChartTEEs: the kinds of TEE that labels can name are kinds that agents detect.
func TestChartTEEs(t *testing.T) {
	var named map[string]any
	if err := yaml.Unmarshal(read(t, "helm/teescope/files/tee-labels.yaml"), &named); err != nil || len(named) == 0 {
		t.Fatalf("%d kinds: %v", len(named), err)
	}
	for _, k := range kinds.All {
		delete(named, k.Name)
	}
	if len(named) > 0 {
		t.Errorf("no agent detects %v", slices.Sorted(maps.Keys(named)))
	}
}
