package main

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The files about all others.
const (
	provenanceName = "provenance.intoto.json"
	checksumsName  = "SHA256SUMS"
	signatureName  = checksumsName + ".sig"
	publicName     = "cosign.pub"
)

// repository is where the source is, as statements name it.
const repository = "https://github.com/teescope/teescope"

// statement says how files were made: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md with the
// predicate of https://slsa.dev/spec/v1.0/provenance. It has no times, so it is the same each time.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			ResolvedDependencies []resource        `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	} `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// releaseFiles lists the files of the release, sorted, but for those about others.
func (o options) releaseFiles(except ...string) (all []resource, err error) {
	entries, err := os.ReadDir(o.path(o.out))
	if err != nil {
		return nil, err
	}
	skip := strings.Join(append(except, checksumsName, signatureName, publicName, envelopeName), "/")
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.Contains("/"+skip+"/", "/"+e.Name()+"/") {
			continue
		}
		sum, err := digest(o.path(filepath.Join(o.out, e.Name())))
		if err != nil {
			return nil, err
		}
		all = append(all, resource{Name: e.Name(), Digest: map[string]string{"sha256": sum}})
	}
	return all, nil
}

func digest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// built lists the files of all programs of the release.
func (o options) built() (files []string) {
	for _, b := range o.builds {
		for _, program := range append(programs, "teescope-agent") {
			files = append(files, o.path(filepath.Join(b.dir, "bin", program)))
		}
	}
	for _, c := range o.clients {
		files = append(files, o.path(filepath.Join(c.dir, clientProgram(c))))
	}
	return files
}

// checkCommit compares the commit that the programs say they were built from with the one that the release is to be of.
func (o options) checkCommit() error {
	for _, name := range o.built() {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return err
		}
		said := map[string]string{}
		for _, s := range info.Settings {
			said[s.Key] = s.Value
		}
		if said["vcs.revision"] == "" { // Go sees no repository whose .git is a file
			return fmt.Errorf("%s does not say from which commit it is: build it in a clone, not in a worktree of git", name)
		}
		if said["vcs.revision"] != o.revision || said["vcs.modified"] != "false" {
			return fmt.Errorf("%s is of commit %s (changed: %s), not of %s: build it again", name, said["vcs.revision"], said["vcs.modified"], o.revision)
		}
	}
	return nil
}

// tagged reports whether the tag of the version is at the commit that the release is of.
func (o options) tagged() bool {
	commit, err := run("git", "-C", o.root, "rev-parse", "--verify", "--quiet", "refs/tags/"+o.version+"^{commit}")
	return err == nil && o.revision != "" && string(bytes.TrimSpace(commit)) == o.revision
}

// writeProvenance says from which commit, by which command and with which Go the files were made.
func (o options) writeProvenance() (err error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	if s.Subject, err = o.releaseFiles(provenanceName); err != nil {
		return err
	}
	source := resource{URI: "git+" + repository}
	if o.tagged() {
		source.URI += "@refs/tags/" + o.version
	}
	if o.revision != "" {
		source.Digest = map[string]string{"gitCommit": o.revision}
	}
	var archs, clients []string
	compilers := map[string]bool{}
	dependencies := []resource{source}
	for _, b := range o.builds {
		archs = append(archs, b.arch)
	}
	for _, c := range o.clients {
		clients = append(clients, c.arch)
	}
	for _, program := range o.built() {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		if version := strings.TrimPrefix(info.GoVersion, "go"); !compilers[version] {
			compilers[version] = true
			dependencies = append(dependencies, resource{Name: "go", URI: "pkg:golang/std@" + version})
		}
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = repository + "/blob/" + cmp.Or(o.revision, o.version) + "/docs/dev/release.md"
	definition.ExternalParameters = map[string]string{"command": "make release", "version": o.version, "architectures": strings.Join(archs, " "),
		"clients": strings.Join(clients, " "), "sourceDateEpoch": fmt.Sprint(o.created.Unix())}
	definition.ResolvedDependencies = dependencies
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/main/docs/dev/release.md#who-builds"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(s); err != nil {
		return err
	}
	return os.WriteFile(o.path(filepath.Join(o.out, provenanceName)), b.Bytes(), 0o644)
}

// writeChecksums writes the digests of all files as sha256sum prints them.
func (o options) writeChecksums() ([]byte, error) {
	all, err := o.releaseFiles()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range all {
		fmt.Fprintf(&b, "%s  %s\n", r.Digest["sha256"], r.Name)
	}
	return b.Bytes(), os.WriteFile(o.path(filepath.Join(o.out, checksumsName)), b.Bytes(), 0o644)
}

// sign writes the signature of the checksums as `cosign sign-blob` does (base64 of an ASN.1 signature over the SHA-256), the signed
// statement of provenance, and the public key, which proves nothing by lying there.
func (o options) sign(sums []byte) error {
	key, err := o.readKey()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(sums)
	signature, err := key.Sign(nil, sum[:], crypto.SHA256) // without random numbers, by RFC 6979: the same each time
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	out := o.path(o.out)
	return errors.Join(
		o.writeEnvelope(key),
		os.WriteFile(filepath.Join(out, signatureName), []byte(base64.StdEncoding.EncodeToString(signature)), 0o644),
		os.WriteFile(filepath.Join(out, publicName), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644))
}

// checkKey reads the key, if there is to be a signature: a wrong one is known before the work is done.
func (o options) checkKey() error {
	if o.key == "" {
		return nil
	}
	_, err := o.readKey()
	return err
}

func (o options) readKey() (*ecdsa.PrivateKey, error) {
	key, err := parseKey(o.path(o.key))
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", o.key, err)
	}
	return key, nil
}

func parseKey(name string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("it is not in PEM: make one with openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")
	case strings.HasPrefix(block.Type, "ENCRYPTED"):
		return nil, fmt.Errorf("it is encrypted (%s): make the release without a key, and sign %s with cosign: docs/dev/release.md has the command", block.Type, checksumsName)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("want a private key in PKCS#8: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("want a key of ECDSA on P-256, as cosign makes")
	}
	return key, nil
}
