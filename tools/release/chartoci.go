package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chartLayoutName is the chart as an OCI artefact: an image layout (https://github.com/opencontainers/image-spec/blob/main/image-layout.md)
// in a tar file, which `skopeo copy oci-archive:FILE docker://REGISTRY/teescope:VERSION` takes to a registry without Helm.
const chartLayoutName = "teescope-chart.oci.tar"

// The media types of https://helm.sh/docs/topics/registries/#helm-chart-manifest and of the layout.
const (
	chartConfigType   = "application/vnd.cncf.helm.config.v1+json"
	chartContentType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	chartManifestType = "application/vnd.oci.image.manifest.v1+json"
)

// ociDescriptor names content by its digest.
type ociDescriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// describe returns the descriptor of content, and its file in a layout.
func describe(mediaType string, content []byte) (ociDescriptor, entry) {
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	return ociDescriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}, entry{"blobs/sha256/" + sum, 0o644, content}
}

// writeChartLayout writes the layout of a chart from its Chart.yaml and its package, as `helm push` makes it, but for the time: Helm writes
// when it pushed, and this has the time of the commit.
func (o options) writeChartLayout(w io.Writer, metadata, chart []byte) error {
	var about map[string]any
	if err := yaml.Unmarshal(metadata, &about); err != nil {
		return fmt.Errorf("read the chart's Chart.yaml: %w", err)
	}
	config, err := json.Marshal(about) // with its keys in order
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(o.version, "v")
	text := func(key string) string { s, _ := about[key].(string); return s }
	head, headFile := describe(chartConfigType, config)
	layer, layerFile := describe(chartContentType, chart)
	manifest, err := json.Marshal(struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        ociDescriptor     `json:"config"`
		Layers        []ociDescriptor   `json:"layers"`
		Annotations   map[string]string `json:"annotations"`
	}{2, chartManifestType, head, []ociDescriptor{layer}, map[string]string{
		"org.opencontainers.image.created":     o.created.Format("2006-01-02T15:04:05Z07:00"),
		"org.opencontainers.image.description": text("description"),
		"org.opencontainers.image.source":      repository,
		"org.opencontainers.image.title":       text("name"),
		"org.opencontainers.image.url":         text("home"),
		"org.opencontainers.image.version":     version,
	}})
	if err != nil {
		return err
	}
	top, topFile := describe(chartManifestType, manifest)
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	index, err := json.Marshal(struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     []ociDescriptor `json:"manifests"`
	}{2, "application/vnd.oci.image.index.v1+json", []ociDescriptor{top}})
	if err != nil {
		return err
	}
	return o.writePlainTar(w, []entry{headFile, layerFile, topFile, {"index.json", 0o644, index}, {"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}})
}
