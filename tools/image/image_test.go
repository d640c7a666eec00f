package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseRecipe(t *testing.T) {
	for text, want := range map[string]any{ // a recipe, or part of an error
		"# comment\nFROM scratch\nCOPY bin/b bin/a /\nEXPOSE 1 2\nENTRYPOINT [\"/a\"]\nCMD [\"x\", \"y z\"]\n": recipe{[]file{{"bin/a", "a"}, {"bin/b", "b"}}, []string{"1", "2"}, []string{"/a"}, []string{"x", "y z"}},
		"FROM scratch\nCOPY a /":                  recipe{files: []file{{"a", "a"}}},
		"FROM scratch\nCOPY x/a /\nCOPY b /bin/":  recipe{files: []file{{"x/a", "a"}, {"b", "bin/b"}}},
		"COPY a /":                                "line 1: \"COPY a /\": want FROM scratch first",
		"FROM debian\nCOPY a /":                   "want FROM scratch first",
		"FROM scratch\nFROM scratch":              "line 2",
		"FROM scratch":                            "it copies no file",
		"FROM scratch\nCOPY a /bin":               "needs a container engine",
		"FROM scratch\nCOPY a /../":               "needs a container engine",
		"FROM scratch\nCOPY --from=x a /":         "needs a container engine",
		"FROM scratch\nCOPY a /\nRUN true":        "line 3: \"RUN true\"",
		"FROM scratch\nCOPY a /\nCMD x":           "line 3",
		"FROM scratch\nCOPY a \\\n  b /":          "needs a container engine",
		"FROM scratch\nCOPY a /\nENTRYPOINT \"\"": "line 3",
	} {
		t.Run(text, func(t *testing.T) {
			got, err := parseRecipe(text)
			if r, ok := want.(recipe); ok {
				if err != nil || !reflect.DeepEqual(got, r) {
					t.Errorf("%q: %+v, %v; want %+v", text, got, err, r)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), want.(string)) {
				t.Errorf("%q: error %v, want %q", text, err, want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "no context",
		"amd64":                 "want ARCHITECTURE=FOLDER",
		"amd64=":                "want ARCHITECTURE=FOLDER",
		"-created now amd64=.":  "want whole seconds of Unix time",
		"-file nowhere amd64=.": "open nowhere",
	} {
		t.Run(args, func(t *testing.T) {
			o, err := parse(strings.Fields(args))
			if err == nil {
				o.out = filepath.Join(t.TempDir(), "x.tar")
				err = o.write()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", args, err, want)
			}
		})
	}
}

// TestArchive follows the archive from its index to the files, as a reader does, and writes it twice.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	o := options{file: write("Containerfile", "FROM scratch\nCOPY bin/b bin/a /\nEXPOSE 80\nENTRYPOINT [\"/a\"]\nCMD [\"x\"]\n"),
		name: "registry.example:5000/a/b:v1", version: "v1", created: time.Unix(1000, 0).UTC()}
	for _, arch := range []string{"amd64", "arm64"} {
		write(arch+"/bin/a", "program a for "+arch)
		write(arch+"/bin/b", "the same")
		o.contexts = append(o.contexts, context{arch, filepath.Join(dir, arch)})
	}
	var twice [2][]byte
	for i := range twice {
		o.out = filepath.Join(dir, fmt.Sprintf("%d.tar", i))
		if err := o.write(); err != nil {
			t.Fatal(err)
		}
		var err error
		if twice[i], err = os.ReadFile(o.out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(twice[0], twice[1]) {
		t.Error("the same input gives two archives")
	}

	files := untar(t, bytes.NewReader(twice[0]), o.created)
	follow := func(d descriptor, mediaType string, into any) {
		t.Helper()
		b := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(b))); sum != d.Digest || d.MediaType != mediaType || d.Size != len(b) {
			t.Fatalf("%+v leads to %d bytes of %s, want a %s", d, len(b), sum, mediaType)
		}
		if text, ok := into.(*string); ok {
			*text = b
		} else if err := json.Unmarshal([]byte(b), into); err != nil {
			t.Fatal(err)
		}
	}
	var outer, inner index
	if err := json.Unmarshal([]byte(files["index.json"]), &outer); err != nil || len(outer.Manifests) != 1 {
		t.Fatalf("index %s: %v", files["index.json"], err)
	}
	if a := outer.Manifests[0].Annotations; a["io.containerd.image.name"] != o.name || a["org.opencontainers.image.ref.name"] != "v1" {
		t.Errorf("names %v", a)
	}
	follow(outer.Manifests[0], typeIndex, &inner)
	for i, c := range o.contexts {
		var m manifest
		var head imageConfig
		var packed string
		d := inner.Manifests[i]
		follow(d, typeManifest, &m)
		follow(m.Config, typeConfig, &head)
		follow(m.Layers[0], typeLayer, &packed)
		if want := (platform{c.arch, "linux"}); *d.Platform != want || head.platform != want {
			t.Errorf("platforms %v and %v, want %v", *d.Platform, head.platform, want)
		}
		if g := head.Config; !slices.Equal(g.Entrypoint, []string{"/a"}) || !slices.Equal(g.Cmd, []string{"x"}) || len(g.ExposedPorts) != 1 || g.Labels["org.opencontainers.image.version"] != "v1" {
			t.Errorf("configuration %+v", g)
		}
		unpacked, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); !slices.Equal(head.RootFS.DiffIDs, []string{sum}) {
			t.Errorf("layer %s, configuration says %v", sum, head.RootFS.DiffIDs)
		}
		if got, want := untar(t, bytes.NewReader(layer), o.created), map[string]string{"a": "program a for " + c.arch, "b": "the same"}; !reflect.DeepEqual(got, want) {
			t.Errorf("files %v, want %v", got, want)
		}
	}

	o.contexts = append(o.contexts, context{"riscv64", filepath.Join(dir, "riscv64")})
	if err := o.write(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	if _, err := os.Stat(o.out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an archive that could not be completed is still there: %v", err)
	}
}

// untar returns the contents of a tar file by name. All of them are root's and have one time.
func untar(t *testing.T, r io.Reader, created time.Time) map[string]string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(created) {
			t.Errorf("%s: owner %d:%d, time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

// TestBOM lists this test's own program: its modules are those of go.mod that it links.
func TestBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := options{lock: "testdata/package-lock.json", version: "v1", created: time.Unix(0, 0).UTC()}
	b, err := o.bom(recipe{files: []file{{filepath.Base(self), "program"}}}, context{"amd64", filepath.Dir(self)})
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Metadata.Component.Version != "v1" {
		t.Errorf("head %+v", got)
	}
	if c := got.Components[0]; c.Type != "application" || len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64 {
		t.Errorf("the program is %+v", c)
	}
	var purls []string
	for _, c := range got.Components[1:] {
		purls = append(purls, c.PURL)
	}
	if !slices.IsSorted(purls) || !slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, "pkg:golang/std@1.") }) {
		t.Errorf("libraries %v", purls)
	}
	npm := slices.DeleteFunc(purls, func(p string) bool { return !strings.HasPrefix(p, "pkg:npm/") })
	if want := []string{"pkg:npm/%40scope/drawn@1.2.3", "pkg:npm/nested@2.0.0-rc.1%2Bbuild"}; !slices.Equal(npm, want) {
		t.Errorf("packages of the page %v, want %v", npm, want)
	}
	if i := slices.IndexFunc(got.Components, func(c component) bool { return c.Name == "@scope/drawn" }); got.Components[i].Hashes[0].Content != "000102" {
		t.Errorf("%+v", got.Components[i])
	}
}

func TestBadLock(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "unexpected end",
		"{}":               "lists none",
		`{"packages": []}`: "cannot unmarshal",
		`{"packages": {"node_modules/a": {"integrity": "sha512-!"}}}`: "integrity of node_modules/a",
	} {
		t.Run(text, func(t *testing.T) {
			if err := addPackages(map[string]component{}, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", text, err, want)
			}
		})
	}
}
