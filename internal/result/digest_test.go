package result

import (
	"bytes"
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
		if _, err := Parse(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
