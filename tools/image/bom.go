package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bom is a list of contents in the format of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).
type bom struct {
	Format      string `json:"bomFormat"`
	SpecVersion string `json:"specVersion"`
	Version     int    `json:"version"`
	Metadata    struct {
		Timestamp time.Time `json:"timestamp"`
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// bom lists the programs of an image, the Go modules that they say they were built from, the C library of the small
// worker, and the npm packages that the page's bundle was made of: all that its lock file calls no development
// dependency, which may be more than it uses.
func (o options) bom(what recipe, c context) ([]byte, error) {
	var list bom
	list.Format, list.SpecVersion, list.Version = "CycloneDX", "1.6", 1
	list.Metadata.Timestamp = o.created
	list.Metadata.Component = component{Type: "container", Name: "teescope", Version: o.version}
	libraries := map[string]component{} // by package URL, which names each once
	for _, f := range what.files {
		name := filepath.Join(c.dir, f.from)
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list.Components = append(list.Components, component{Type: "application", Name: filepath.Base(f.to), Version: o.version,
			Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(content))}}})
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("modules of %s: %w", name, err)
		}
		addLibrary(libraries, "golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			if m = cmp.Or(m.Replace, m); m.Version == "(devel)" { // a module of this repository, built from its folder
				m.Version = o.version
			}
			addLibrary(libraries, "golang", m.Path, m.Version)
		}
	}
	if c.arch == "amd64" { // the small worker of workloads/micro, which is there for no other
		addLibrary(libraries, "generic", "musl", "1.2.3")
	}
	lock, err := os.ReadFile(o.lock)
	if err == nil {
		err = addPackages(libraries, lock)
	}
	if err != nil {
		return nil, fmt.Errorf("packages of the page: %w", err)
	}
	for _, purl := range slices.Sorted(maps.Keys(libraries)) {
		list.Components = append(list.Components, libraries[purl])
	}
	return json.MarshalIndent(list, "", " ")
}

// addLibrary adds a component under its package URL (https://github.com/package-url/purl-spec).
func addLibrary(to map[string]component, kind, name, version string, hashes ...hash) {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), "@", "%40")
	}
	purl := fmt.Sprintf("pkg:%s/%s@%s", kind, strings.Join(parts, "/"), strings.ReplaceAll(url.PathEscape(version), "+", "%2B"))
	to[purl] = component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl, Hashes: hashes}
}

// addPackages adds the packages of npm's lock file (lockfileVersion 3) that are no development dependencies.
func addPackages(to map[string]component, lock []byte) error {
	var file struct {
		Packages map[string]struct {
			Version, Integrity string
			Dev                bool
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return err
	}
	if len(file.Packages) == 0 {
		return errors.New("the lock file lists none")
	}
	for path, p := range file.Packages {
		_, name, ok := cutLast(path, "node_modules/")
		if !ok || p.Dev {
			continue
		}
		var hashes []hash
		if sum, ok := strings.CutPrefix(p.Integrity, "sha512-"); ok {
			b, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return fmt.Errorf("integrity of %s: %w", path, err)
			}
			hashes = []hash{{"SHA-512", fmt.Sprintf("%x", b)}}
		}
		addLibrary(to, "npm", name, p.Version, hashes...)
	}
	return nil
}

// cutLast cuts at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
