{{- define "teescope.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of one part; takes (list . "agent"). */}}
{{- define "teescope.selector" -}}
{{- $part := index . 1 }}{{ with index . 0 -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ $part }}
{{- end }}
{{- end -}}

{{- define "teescope.labels" -}}
{{ include "teescope.selector" . }}
{{- with index . 0 }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "teescope.agentAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-agent" (include "teescope.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "teescope.monitorAccount" -}}
{{- if .Values.monitor.serviceAccount.create -}}
{{- default (printf "%s-monitor" (include "teescope.fullname" .)) .Values.monitor.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.monitor.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "teescope.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end -}}
{{- end -}}

{{/* With TLS or passwords the kubelet cannot ask by HTTP; takes (list PATH SECRET). */}}
{{- define "teescope.probe" -}}
{{- if index . 1 -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ index . 0 }}, port: http}
{{- end -}}
{{- end -}}

{{/*
Without TLS and passwords, only a network policy keeps other pods out, and none holds in the node's network; takes
(list PREFIX SECRET INSECURE POLICY).
*/}}
{{- define "teescope.insecure" -}}
{{- $prefix := index . 0 }}
{{- if not (or (index . 1) (index . 2) (index . 3)) }}
{{- fail (printf "nothing would ask who reads: set %swebConfig.existingSecret (TLS and passwords), or networkPolicy.enabled=true without hostNetwork, or %sinsecure=true to let everybody read" $prefix $prefix) }}
{{- end }}
{{- if or (index . 2) (not (index . 1)) -}}
# {{ if index . 3 }}The network policy says who may connect.{{ else }}Anyone who reaches the port may read.{{ end }}
- --insecure
{{- end }}
{{- end -}}

{{/* The meta label of Prometheus' discovery for a label of a node; takes (list KIND LABEL). */}}
{{- define "teescope.meta" -}}
__meta_kubernetes_node_{{ index . 0 }}_{{ regexReplaceAll "[^a-zA-Z0-9]" (index . 1) "_" }}
{{- end -}}

{{/* Helm's YAML takes a bare on for true; takes (list NAME CONFIGURATION). */}}
{{- define "teescope.checkConfig" -}}
{{- range $source, $setting := dig "sources" dict (index . 1) }}
{{- if and (kindIs "map" $setting) (hasKey $setting "true") }}
{{- fail (printf "%s.sources.%s: write \"on\" in quotes, because Helm reads a bare on as true" (index $ 0) $source) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The configuration of the agents: their own part, and over it the user's. */}}
{{- define "teescope.agentConfig" -}}
{{- include "teescope.checkConfig" (list "config" .Values.config) }}
{{- $own := dict }}
{{- if .Values.remoteWrite }}
{{- /* The labels that the monitor's scrapes give: node, and the node as the instance. */}}
{{- $_ := set $own "global" (dict "external_labels" (dict "node" "${NODE_NAME}")) }}
{{- $to := list }}
{{- range .Values.remoteWrite }}
{{- $relabel := prepend (dig "write_relabel_configs" list .) (dict "source_labels" (list "node") "target_label" "instance") }}
{{- $to = append $to (merge (dict "write_relabel_configs" $relabel) (deepCopy .)) }}
{{- end }}
{{- $_ := set $own "remote_write" $to }}
{{- end }}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) }}
{{- end -}}

{{/*
What becomes of the labels of an agent's target: node, and the node as the instance, so a new pod continues the series
of the old one. The series of containers have labels pod, container and namespace of their own. What labels of the node
say about TEEs goes into labels that only up keeps: the same samples must not begin new series when a label changes.
*/}}
{{- define "teescope.agentRelabelling" -}}
- source_labels: [__meta_kubernetes_pod_node_name]
  target_label: node
- source_labels: [__meta_kubernetes_pod_node_name]
  target_label: instance
{{- if .Values.monitor.nodeLabels }}
{{- range $kind, $labels := .Files.Get "files/tee-labels.yaml" | fromYaml }}
{{- range $labels }}
- source_labels: [__tmp_tees, {{ include "teescope.meta" (list "label" .label) }}]
  regex: (.*);({{ join "|" .values }})
  target_label: __tmp_tees
  replacement: ${1}{{ $kind }},
{{- end }}
{{- end }}
- source_labels: [__tmp_tees]
  regex: (.+)
  target_label: tee_labels
  replacement: ",$1"
- source_labels: [{{ include "teescope.meta" (list "labelpresent" "feature.node.kubernetes.io/kernel-version.full") }}]
  regex: (true)
  target_label: node_features
{{- end }}
{{- end -}}

{{/*
The nodes on which a label and the agent's own detection of an active TEE differ. The metric is named by a pattern, because
a rule is not checked while a metric that it names has no series: here that no agent detects a TEE.
*/}}
{{- define "teescope.disagreement" -}}
{{- $parts := list }}
{{- range $kind, $_ := .Files.Get "files/tee-labels.yaml" | fromYaml }}
{{- $labelled := printf `up{job="teescope-agents",tee_labels=~".*,%s,.*"}` $kind }}
{{- $found := printf `{__name__=~"tee_info",job="teescope-agents",kind="%s",active="true"}` $kind }}
{{- $parts = append $parts (printf `label_replace((%s == 1 unless on (instance) %s) or (%s and on (instance) up{job="teescope-agents",node_features="true"} unless on (instance) %s), "tee", "%s", "", "")` $labelled $found $found $labelled $kind) }}
{{- end }}
{{- join "\nor\n" $parts }}
{{- end -}}

{{/* The configuration of the monitor: targets and rules of the chart, and over them the user's. */}}
{{- define "teescope.monitorConfig" -}}
{{- include "teescope.checkConfig" (list "monitor.config" .Values.monitor.config) }}
{{- $agents := dict "job_name" "teescope-agents"
  "kubernetes_sd_configs" (list (dict "role" "pod" "namespaces" (dict "own_namespace" true)
    "selectors" (list (dict "role" "pod" "label" (printf "app.kubernetes.io/instance=%s,app.kubernetes.io/component=agent" .Release.Name)))))
  "relabel_configs" (concat
    (list (dict "source_labels" (list "__meta_kubernetes_pod_container_port_name") "regex" "http" "action" "keep")
          (dict "source_labels" (list "__meta_kubernetes_pod_phase") "regex" "Pending|Succeeded|Failed|Completed" "action" "drop"))
    (include "teescope.agentRelabelling" . | fromYamlArray)) }}
{{- $rules := list }}
{{- if .Values.monitor.nodeLabels }}
{{- $_ := set (index $agents "kubernetes_sd_configs" | first) "attach_metadata" (dict "node" true) }}
{{- $_ := set $agents "metric_relabel_configs" (list (dict "regex" "tee_labels|node_features" "action" "labeldrop")) }}
{{- $rules = list (dict "name" "tee_label_disagrees" "title" "A label of the node and the detected TEEs disagree"
  "expr" (include "teescope.disagreement" .) "above" 0 "for" "5m" "severity" "warning" "subject" "{tee} on {node}"
  "remedy" "Run teescope doctor on the node. If it finds the TEE, correct the label (node-feature-discovery); if not, it names what is missing.") }}
{{- end }}
{{- $jobs := list }}
{{- if .Values.enabled }}
{{- $jobs = append $jobs (mergeOverwrite $agents (deepCopy .Values.monitor.scrape)) }}
{{- end }}
{{- if .Values.monitor.annotatedPods }}
{{- $jobs = append $jobs (.Files.Get "files/annotated-pods.yaml" | fromYaml) }}
{{- end }}
{{- $jobs = concat $jobs .Values.monitor.extraScrapeConfigs }}
{{- $own := dict "global" (dict "scrape_interval" .Values.monitor.scrapeInterval) "scrape_configs" $jobs }}
{{- if and $rules .Values.enabled }}
{{- $_ := set $own "analysis" (dict "own" $rules) }}
{{- end }}
{{- with .Values.monitor.remoteWrite }}
{{- $_ := set $own "remote_write" . }}
{{- end }}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.monitor.config)) }}
{{- end -}}

{{/* Nodes with one of the TEEs, by labels; never virtual ones, which have no host. The user's affinity wins. */}}
{{- define "teescope.agentAffinity" -}}
{{- $real := list (dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet"))
  (dict "key" "eks.amazonaws.com/compute-type" "operator" "NotIn" "values" (list "fargate")) }}
{{- $labels := .Files.Get "files/tee-labels.yaml" | fromYaml }}
{{- $terms := list }}
{{- range .Values.tee }}
{{- range index $labels . }}
{{- $terms = append $terms (dict "matchExpressions" (prepend $real (dict "key" .label "operator" "In" "values" .values))) }}
{{- end }}
{{- end }}
{{- if not $terms }}
{{- $terms = list (dict "matchExpressions" $real) }}
{{- end }}
{{- $own := dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.affinity)) }}
{{- end -}}
