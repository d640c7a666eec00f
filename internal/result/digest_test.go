package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestDigest: a document that was changed after it was written is refused, whatever was changed; written otherwise, or without a
// digest, it is read.
func TestDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	e := sample()
	e.Runs = append(e.Runs, *run(1), *run(2))
	if err := Write(path, e); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(whole); err != nil || got.Digest == "" || got.Digest != e.Digest {
		t.Fatalf("%v, digest %q", err, e.Digest)
	}
	for from, to := range map[string]string{`"name": "t"`: `"name": "u"`, `1.5`: `1.25`, `"pair": 2`: `"pair": 3`, `"x_seconds"`: `"z_seconds"`} {
		changed := bytes.ReplaceAll(whole, []byte(from), []byte(to))
		if bytes.Equal(changed, whole) {
			t.Fatalf("there is no %s in\n%s", from, whole)
		}
		if _, err := Parse(changed); !errors.Is(err, errChanged) {
			t.Errorf("%s instead of %s: %v", to, from, err)
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, whole); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(whole, &members); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	delete(members, digestKey)
	members["name"] = "another"
	without, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"on one line": compact.Bytes(), "with sorted members": sorted, "without a digest": without,
		"with another form of a number": bytes.ReplaceAll(whole, []byte("1.5"), []byte("15e-1"))} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(b); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestDigestForm: the digest is the same on any machine and with any version of Go, and tells integers apart that a double does not.
func TestDigestForm(t *testing.T) {
	digest := func(text string) string {
		doc, err := decoded([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return contentDigest(doc)
	}
	// Texts have their length in bytes, so neither layout nor Unicode's tables matter.
	sum := sha256.Sum256([]byte("{1:a5:é\u2028,1:b[1,true,<nil>,],}"))
	if got, want := digest(`{"b": [1.0, true, null], "a": "é\u2028", "attestation": {"format": "tpm2"}}`), "sha256:"+hex.EncodeToString(sum[:]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for a, b := range map[string]string{"9007199254740992": "9007199254740993", "18446744073709551614": "18446744073709551615", `"1"`: "1", `"1,1:b2"`: "1"} {
		if digest(`{"a": `+a+`}`) == digest(`{"a": `+b+`}`) {
			t.Errorf("%s and %s have the same digest", a, b)
		}
	}
	for a, b := range map[string]string{"1000000": "1e6", "1.50": "15e-1", "0.1e1": "1"} {
		t.Run(a, func(t *testing.T) {
			if digest(`{"a": `+a+`}`) != digest(`{"a": `+b+`}`) {
				t.Errorf("%s and %s have different digests", a, b)
			}
		})
	}
}

// TestDigestOfAttested: an attestation leaves the digest as it is, and does not switch it off.
func TestDigestOfAttested(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := Write(path, sample()); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := Digest(doc)
	if err != nil {
		t.Fatal(err)
	}
	attested, err := Attach(doc, &Attestation{Format: "ed25519", Digest: digest, PublicKey: []byte{1}, Signature: []byte{2}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Parse(attested)
	if err != nil || e.Attestation == nil || e.Digest == "" {
		t.Fatalf("attested: %v", err)
	}
	if err := Write(path, e); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Errorf("written again: %v", err)
	}
	changed := bytes.Replace(attested, []byte(`"name": "t"`), []byte(`"name": "u"`), 1)
	if _, err := Parse(changed); bytes.Equal(changed, attested) || !errors.Is(err, errChanged) {
		t.Errorf("changed after it was attested: %v", err)
	}
}

// TestListPrefers: of documents of the same experiment the one with the name of its id counts, as for Get, then an attested one.
func TestListPrefers(t *testing.T) {
	a := &Archive{Dir: t.TempDir()}
	attested := sample()
	attested.Attestation = &Attestation{Format: "ed25519"}
	put := func(name string, e *Experiment) {
		t.Helper()
		b, err := json.Marshal(e)
		if err == nil {
			err = os.WriteFile(filepath.Join(a.Dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("0.json", sample())
	put("1.json", attested)
	put("2.json", sample())
	list, err := a.List()
	if err == nil || len(list) != 1 || list[0].Attestation == nil {
		t.Fatalf("%v, %v", list, err)
	}
	own := sample()
	own.Name = "own"
	put(own.ID+".json", own)
	list, err = a.List()
	if got, _ := a.Get(own.ID); err == nil || len(list) != 1 || list[0] != got || got.Name != "own" {
		t.Fatalf("%v, %v; got %v", list, err, got)
	}
}

// TestListSays: what is in the archive and is no result of its own is named.
func TestListSays(t *testing.T) {
	a := &Archive{Dir: t.TempDir()}
	if _, err := a.Add(sample()); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(a.Dir, "copy.json"), sample()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(a.Dir, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(a.Dir, "device.json")); err != nil {
		t.Fatal(err)
	}
	list, err := a.List()
	if len(list) != 1 || err == nil {
		t.Fatalf("%d results, %v", len(list), err)
	}
	for _, want := range []string{"copy.json: it is the same experiment as", "folder.json: it is not a regular file", "device.json: it is not a regular file"} {
		if !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("no word of %q in %v", want, err)
		}
	}
}
