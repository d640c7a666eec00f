package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The objects of https://github.com/opencontainers/image-spec (1.1), as far as they are used here.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	platform
	Created time.Time `json:"created"`
	Config  struct {
		Entrypoint   []string            `json:",omitempty"`
		Cmd          []string            `json:",omitempty"`
		ExposedPorts map[string]struct{} `json:",omitempty"`
		Labels       map[string]string   `json:",omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// archive is an OCI layout in a tar file. Everything in it has one time and one owner.
type archive struct {
	*tar.Writer
	created time.Time
	written map[string]bool // blobs by digest: two images may share one
}

func newArchive(w io.Writer, created time.Time) *archive {
	return &archive{tar.NewWriter(w), created, map[string]bool{}}
}

func (a *archive) file(name string, mode int64, content []byte) error {
	return addFile(a.Writer, a.created, name, mode, content)
}

func addFile(w *tar.Writer, created time.Time, name string, mode int64, content []byte) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR})
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}

// blob adds content under its digest.
func (a *archive) blob(mediaType string, content []byte) (descriptor, error) {
	hex := fmt.Sprintf("%x", sha256.Sum256(content))
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + hex, Size: len(content)}
	if a.written[hex] {
		return d, nil
	}
	a.written[hex] = true
	return d, a.file("blobs/sha256/"+hex, 0o644, content)
}

func (a *archive) object(mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return a.blob(mediaType, b)
}

// finish writes what leads to the images. It is one index inside another: readers of archives take the outer one for a
// list of names, and choose the architecture from the inner one.
func (a *archive) finish(images []descriptor, name string) error {
	inner, err := a.object(typeIndex, index{2, typeIndex, images})
	if err != nil {
		return err
	}
	_, tag, _ := cutLast(name, ":")
	inner.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	outer, err := json.Marshal(index{2, typeIndex, []descriptor{inner}})
	if err != nil {
		return err
	}
	if err := a.file("index.json", 0o644, outer); err != nil {
		return err
	}
	if err := a.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return a.Close()
}

// image adds the image of one architecture: a layer with the files, and what starts them.
func (o options) image(a *archive, what recipe, c context) (descriptor, error) {
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	for _, f := range what.files {
		content, err := os.ReadFile(filepath.Join(c.dir, f.from))
		if err == nil {
			err = addFile(files, o.created, f.to, 0o755, content)
		}
		if err != nil {
			return descriptor{}, err
		}
	}
	if err := files.Close(); err != nil {
		return descriptor{}, err
	}
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, err := pack.Write(layer.Bytes())
	if err == nil {
		err = pack.Close()
	}
	if err != nil {
		return descriptor{}, err
	}
	blob, err := a.blob(typeLayer, packed.Bytes())
	if err != nil {
		return descriptor{}, err
	}

	config := imageConfig{platform: platform{c.arch, "linux"}, Created: o.created}
	config.Config.Entrypoint, config.Config.Cmd, config.Config.Labels = what.entrypoint, what.command, o.labels()
	if len(what.ports) > 0 {
		config.Config.ExposedPorts = map[string]struct{}{}
	}
	for _, p := range what.ports {
		config.Config.ExposedPorts[p+"/tcp"] = struct{}{}
	}
	config.RootFS.Type = "layers"
	config.RootFS.DiffIDs = []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}
	head, err := a.object(typeConfig, config)
	if err != nil {
		return descriptor{}, err
	}
	d, err := a.object(typeManifest, manifest{2, typeManifest, head, []descriptor{blob}, o.labels()})
	d.Platform = &platform{c.arch, "linux"}
	return d, err
}

// labels say where the image comes from, under the names of the image specification.
func (o options) labels() map[string]string {
	all := map[string]string{}
	for name, value := range map[string]string{"version": o.version, "revision": o.revision} {
		if value != "" {
			all["org.opencontainers.image."+name] = value
		}
	}
	return all
}
