// Package helm tests the chart with Helm's own packages. It is a module of its own, because
// the program does not need them. What the chart renders is committed, and the tests of
// package deploy check it against the code.
package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	kjson "sigs.k8s.io/json" // as the API server decodes: with regard to case
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the chart renders")

const dir = "teescope"

// byDefault is what the chart renders with default values, for kubectl apply.
const byDefault = "../kubernetes/teescope.yaml"

const header = `# What the chart deploy/helm/teescope renders with default values. Do not edit it: go test -C deploy/helm -update writes it.
#
#   kubectl apply -f deploy/kubernetes/teescope.yaml
#
# Your nodes must be able to pull the image. The namespace carries the label that Pod Security Admission requires for
# host access; deploy/helm/teescope/README.md says what the agents may do.
apiVersion: v1
kind: Namespace
metadata:
  name: teescope
  labels:
    pod-security.kubernetes.io/enforce: privileged
`

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the loader reports the link to the dashboards
	flag.Parse()
	os.Exit(m.Run())
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns what helm template prints for the values in YAML, and the notes.
func render(t *testing.T, values []byte) (manifests, notes string, err error) {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal(values, &v); err != nil {
		t.Fatal(err)
	}
	c := load(t)
	all, err := util.ToRenderValues(c, v, common.ReleaseOptions{Name: "teescope", Namespace: "teescope", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", "", err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), c, all)
	if err != nil {
		return "", "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch text := strings.TrimSpace(files[name]); {
		case strings.HasSuffix(name, "NOTES.txt"):
			notes = text
		case strings.HasSuffix(name, ".yaml") && text != "":
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
		}
	}
	return out.String(), notes, nil
}

// cases are the values files of testdata; the rendering of each lies beside it.
func cases(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata: %v", err)
	}
	out := map[string][]byte{byDefault: nil}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(name, ".values.yaml")+".yaml"] = b
	}
	return out
}

// objects decodes rendered manifests.
func objects(t *testing.T, manifests string) (all []map[string]any) {
	t.Helper()
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

func TestTemplate(t *testing.T) {
	for golden, values := range cases(t) {
		t.Run(filepath.Base(golden), func(t *testing.T) {
			got, notes, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			if golden == byDefault && notes == "" || strings.Contains(notes, "<no value>") {
				t.Errorf("notes:\n%s", notes)
			}
			if golden == byDefault { // kubectl would run the test at once
				got, _, _ = strings.Cut(header+got, "---\n# Source: teescope/templates/tests/")
			}
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is not what the chart renders (%s); run `go test -C deploy/helm -update`", golden, firstDifference(got, string(want)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: it renders %q, not %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("it renders %d lines, not %d", len(g), len(w))
}

// TestOperator decodes the objects of the Prometheus operator into its own types, which refuses unknown fields. Those
// of Kubernetes are checked in package deploy.
func TestOperator(t *testing.T) {
	seen := map[string]bool{}
	for name, values := range cases(t) {
		got, _, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, got) {
			if o["apiVersion"] != "monitoring.coreos.com/v1" {
				continue
			}
			kind := fmt.Sprint(o["kind"])
			into, ok := map[string]any{"PodMonitor": &monitoring.PodMonitor{}, "ServiceMonitor": &monitoring.ServiceMonitor{}, "PrometheusRule": &monitoring.PrometheusRule{}}[kind]
			if !ok {
				t.Errorf("%s: kind %s is not checked", name, kind)
				continue
			}
			seen[kind] = true
			b, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			unknown, err := kjson.UnmarshalStrict(b, into)
			if err = errors.Join(append(unknown, err)...); err != nil {
				t.Errorf("%s: %s: %v", name, kind, err)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("only these kinds are rendered: %v", seen)
	}
}

func TestLint(t *testing.T) {
	for name, values := range cases(t) {
		var v map[string]any
		if err := yaml.Unmarshal(values, &v); err != nil {
			t.Fatal(err)
		}
		result := lint.RunAll(dir, v, "teescope")
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev { // info: there is no icon
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestSchema: a value of a wrong type is refused by its name, and so are what YAML misreads and what would let everybody in.
func TestSchema(t *testing.T) {
	for values, want := range map[string]string{
		"port: http":                          "/port': got string, want integer",
		"port: 70000":                         "/port': maximum: got 70,000, want 65,535",
		"tolerations: all":                    "/tolerations': got string, want array",
		"hostPID: \"yes\"":                    "/hostPID': got string, want boolean",
		"tee: [enclave]":                      "/tee/0': value must be one of 'sgx'",
		"image: teescope:1":                   "/image': got string, want object",
		"image: {pullPolicy: Sometimes}":      "/image/pullPolicy': value must be one of 'Always'",
		"resource: {}":                        "additional properties 'resource' not allowed",
		"monitor: {replicas: 2}":              "/monitor': additional properties 'replicas' not allowed",
		"monitor: {retention: forever}":       "/monitor/retention': 'forever' does not match pattern",
		"monitor: {scrapeInterval: 15}":       "/monitor/scrapeInterval': got number, want string",
		"monitor: {persistence: {size: big}}": "/monitor/persistence/size': 'big' does not match pattern",
		"monitor: {secrets: [{name: a}]}":     "/monitor/secrets/0': missing property 'mountPath'",
		"prometheus: {podMonitor: {additionalLabels: {a: 1}}}": "/prometheus/podMonitor/additionalLabels/a': got number, want string",
		"config: {sources: {waits: {on: true}}}":               `config.sources.waits: write "on" in quotes`,
		"monitor: {config: {sources: {cpu: {on: false}}}}":     `monitor.config.sources.cpu: write "on" in quotes`,
		"podAnnotations: {a: true}":                            "/podAnnotations/a': got boolean, want string",
		"monitor: {hostNames: [\"a.example:443\"]}":            "/monitor/hostNames/0': 'a.example:443' does not match pattern",
		// Nothing would keep strangers out.
		"networkPolicy: {enabled: false}":                                 "webConfig.existingSecret (TLS and passwords), or networkPolicy.enabled=true",
		"networkPolicy: {enabled: false}\nwebConfig: {existingSecret: a}": "set monitor.webConfig.existingSecret (TLS",
		"networkPolicy: {enabled: false}\ninsecure: true":                 "or monitor.insecure=true",
		"networkPolicy: {enabled: false}\nmonitor: {insecure: true}":      "or insecure=true",
		"hostNetwork: true": "without hostNetwork, or insecure=true",
		"hostNetwork: true\nenabled: false\nnetworkPolicy: {enabled: false}":                "set monitor.webConfig.existingSecret",
		"hostNetwork: true\nmonitor: {insecure: true, webConfig: {existingSecret: secret}}": "set webConfig.existingSecret",
	} {
		_, _, err := render(t, []byte(values))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", values, err, want)
		}
	}
}

// TestAllowed: what lets agents and monitor be reached, and with which flags.
func TestAllowed(t *testing.T) {
	for values, want := range map[string][2]bool{ // whether agents and monitor have --insecure
		"{}": {true, true},
		"networkPolicy: {enabled: false}\ninsecure: true\nmonitor: {insecure: true}":                                              {true, true},
		"networkPolicy: {enabled: false}\nwebConfig: {existingSecret: a}\nmonitor: {webConfig: {existingSecret: b}}":              {false, false},
		"hostNetwork: true\nwebConfig: {existingSecret: a}":                                                                       {false, true},
		"webConfig: {existingSecret: a}\ninsecure: true\nmonitor: {insecure: true, webConfig: {existingSecret: b}}":               {true, true},
		"webConfig: {existingSecret: a}\nmonitor: {webConfig: {existingSecret: b}, ingress: {enabled: true, hosts: [c.example]}}": {false, false},
	} {
		got, _, err := render(t, []byte(values))
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		for _, o := range objects(t, got) {
			b, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			switch insecure := strings.Contains(text, "- --insecure\n"); o["kind"] {
			case "DaemonSet":
				if insecure != want[0] {
					t.Errorf("%s: the agents:\n%s", values, text)
				}
			case "StatefulSet":
				if insecure != want[1] || !strings.Contains(text, "- --host-name=teescope-monitor.teescope.svc\n") || strings.Contains(values, "c.example") != strings.Contains(text, "- --host-name=c.example\n") {
					t.Errorf("%s: the monitor:\n%s", values, text)
				}
			}
		}
	}
}

// TestPolicies: agents ask nobody, unless they send or read servers' counters.
func TestPolicies(t *testing.T) {
	for values, asks := range map[string]bool{
		"{}": false, "config: {sources: {cpu: {\"on\": false}}}": false,
		"remoteWrite: [{url: \"http://a\"}]": true, "config: {requests: []}": true, "config: {remote_write: []}": true,
	} {
		got, _, err := render(t, []byte(values))
		if err != nil {
			t.Fatal(err)
		}
		if mayAsk := !strings.Contains(got, "policyTypes: [Ingress, Egress]"); mayAsk != asks || mayAsk == strings.Contains(got, "egress: []") {
			t.Errorf("%s:\n%s", values, got)
		}
	}
}

// TestWrongTypes: each value is refused by its name if it is of another type.
func TestWrongTypes(t *testing.T) {
	c, n := load(t), 0
	var try func(path []string, v any)
	try = func(path []string, v any) {
		if below, ok := v.(map[string]any); ok {
			for k, v := range below {
				try(append(slices.Clone(path), k), v)
			}
		}
		if n++; len(path) == 0 {
			return
		}
		for _, wrong := range []any{"text", 7.5, true, []any{7.5}, map[string]any{"unknown": []any{7.5}}} {
			_, number := wrong.(float64)
			_, boolean := wrong.(bool)
			quantity := slices.Contains([]string{"cpu", "memory"}, path[len(path)-1])
			if reflect.TypeOf(wrong) == reflect.TypeOf(v) || number && quantity || (number || boolean) && slices.Contains(path[:len(path)-1], "env") {
				continue // a quantity may be a number, and the templates quote what env has
			}
			values := wrong
			for _, k := range slices.Backward(path) {
				values = map[string]any{k: values}
			}
			name := "/" + strings.Join(path, "/") + "'"
			if strings.Contains(path[len(path)-1], "/") { // JSON pointers write it otherwise
				name = "/" + strings.Join(path[:len(path)-1], "/") + "/"
			}
			_, err := util.ToRenderValues(c, values.(map[string]any), common.ReleaseOptions{Name: "teescope", Namespace: "teescope"}, nil)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v (%T, for a %T): error %v", name, wrong, wrong, v, err)
			}
		}
	}
	try(nil, c.Values)
	if n < 100 {
		t.Errorf("values.yaml has %d values only", n)
	}
}

// TestDashboards: each dashboard has a labelled ConfigMap of its own, which etcd takes.
func TestDashboards(t *testing.T) {
	got, _, err := render(t, []byte("enabled: false\nmonitor: {enabled: false}\ndashboards: {enabled: true, namespace: grafana, annotations: {grafana_folder: teescope}}"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := objects(t, got)
	if len(all) != len(files) {
		t.Errorf("%d objects for %d dashboards", len(all), len(files))
	}
	for i, file := range files { // both are sorted by name
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		wanted := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{base: string(want)}}
		meta, _ := all[i]["metadata"].(map[string]any)
		delete(all[i], "metadata")
		if !reflect.DeepEqual(all[i], wanted) {
			t.Errorf("the ConfigMap of %s differs from it", base)
		}
		labels, _ := meta["labels"].(map[string]any)
		if meta["namespace"] != "grafana" || labels["grafana_dashboard"] != "1" || meta["name"] != "teescope-"+strings.TrimSuffix(base, ".json") ||
			!reflect.DeepEqual(meta["annotations"], map[string]any{"grafana_folder": "teescope"}) {
			t.Errorf("%s: metadata %v", base, meta)
		}
		if len(want) > 1<<20 {
			t.Errorf("%s has %d bytes, and a ConfigMap takes 1 MiB", base, len(want))
		}
	}
}

// TestTEEs: the schema allows the kinds of TEE that labels can name, and no other.
func TestTEEs(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(dir, "files", "tee-labels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var labels map[string]any
	if err := yaml.UnmarshalStrict(b, &labels); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			TEE struct {
				Items struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(load(t).Schema, &schema); err != nil {
		t.Fatal(err)
	}
	allowed := slices.Sorted(slices.Values(schema.Properties.TEE.Items.Enum))
	if named := slices.Sorted(maps.Keys(labels)); !slices.Equal(named, allowed) {
		t.Errorf("labels name %v, the schema allows %v", named, allowed)
	}
}

var (
	used       = regexp.MustCompile(`\.Values((?:\.\w+)+)`)
	documented = regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\|")
)

// TestValues: every value that a template uses is in values.yaml, in the schema and in the README, and the other way round.
func TestValues(t *testing.T) {
	c := load(t)
	names := map[string]bool{}
	for _, f := range c.Templates {
		for _, m := range used.FindAllSubmatch(f.Data, -1) {
			names[strings.TrimPrefix(string(m[1]), ".")] = true
		}
	}
	if len(names) < 50 {
		t.Fatalf("the templates use %d values only", len(names))
	}
	var schema map[string]any
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	properties := map[string]bool{}
	propertiesOf("", schema, properties)
	delete(properties, "global") // of charts that contain this one
	leaves := map[string]bool{}
	leavesOf("", c.Values, leaves, names)

	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range documented.FindAllSubmatch(readme, -1) {
		rows[string(m[1])] = true
	}
	for what, has := range map[string]map[string]bool{"values.yaml": leaves, "the schema": properties, "README.md": rows} {
		t.Run(what, func(t *testing.T) {
			for name := range names {
				if !has[name] {
					t.Errorf("templates use %s, which is not in %s", name, what)
				}
			}
			for name := range has {
				if !names[name] {
					t.Errorf("%s has %s, which no template uses", what, name)
				}
			}
		})
	}
}

// leavesOf adds the names of values. What a template takes whole has no names below it.
func leavesOf(prefix string, values map[string]any, out, whole map[string]bool) {
	for k, v := range values {
		name := strings.TrimPrefix(prefix+"."+k, ".")
		if m, ok := v.(map[string]any); ok && !whole[name] {
			leavesOf(name, m, out, whole)
			continue
		}
		out[name] = true
	}
}

// propertiesOf adds the names of the properties that have no known properties of their own.
func propertiesOf(prefix string, schema map[string]any, out map[string]bool) {
	below, _ := schema["properties"].(map[string]any)
	if len(below) == 0 {
		out[prefix] = true
	}
	for k, v := range below {
		if m, ok := v.(map[string]any); ok {
			propertiesOf(strings.TrimPrefix(prefix+"."+k, "."), m, out)
		}
	}
}

// TestSameVersions: a module that the program uses, too, has its version here, so that its
// packages are compiled once.
func TestSameVersions(t *testing.T) {
	ours, here := versions(t, "../../go.mod"), versions(t, "go.mod")
	shared := 0
	for path, v := range here {
		if want := ours[path]; want != "" {
			shared++
			if v != want {
				t.Errorf("%s is %s here and %s in the program: go get -C deploy/helm %s@%s", path, v, want, path, want)
			}
		}
	}
	if shared == 0 {
		t.Error("no module is shared")
	}
}

func versions(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range bytes.Lines(b) {
		w := strings.Fields(strings.TrimPrefix(string(line), "require "))
		if len(w) > 1 && strings.HasPrefix(w[1], "v") {
			out[w[0]] = w[1]
		}
	}
	return out
}

// TestPackagedChart: the chart of a release, as helm takes it from a file, is this one with the release's version and image.
func TestPackagedChart(t *testing.T) {
	out := t.TempDir()
	tool := exec.Command("go", "-C", "../../tools/release", "run", ".", "-o", out, "-only", "chart", "-version", "v1.2.3", "-program", "none", "amd64=none")
	if said, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, said)
	}
	c, err := loader.Load(filepath.Join(out, "teescope-chart.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil || c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("version %s of %s, %v", c.Metadata.Version, c.Metadata.AppVersion, err)
	}
	here := load(t)
	files := func(c *chart.Chart) map[string]string {
		all := map[string]string{}
		for _, f := range slices.Concat(c.Templates, c.Files) {
			all[f.Name] = string(f.Data)
		}
		return all
	}
	if got, want := files(c), files(here); !maps.Equal(got, want) {
		t.Errorf("it has %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if !reflect.DeepEqual(c.Values, here.Values) || !bytes.Equal(c.Schema, here.Schema) {
		t.Error("it has other values, or another schema of them")
	}
}
