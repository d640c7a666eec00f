package monitor

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/web"
)

// TestOrigins: the page says of each result what is proved of where it was made, and says it anew when the file changes.
func TestOrigins(t *testing.T) {
	b, err := os.ReadFile("../proof/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain.json")
	// Its job was never run, so its identity is not that of a known version.
	b = bytes.Replace(b, []byte(`"version": 1,`), []byte(`"version": 999,`), 1)
	if err := os.WriteFile(plain, b, 0o640); err != nil {
		t.Fatal(err)
	}
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Dir(plain)}, judging: judging}
	const id = "4f6c0c9e"
	told := func() web.Origin {
		t.Helper()
		all := kept.summaries()
		if len(all.Results) != 1 || len(all.Problems) > 0 || !strings.HasPrefix(all.Results[0].ID, id) {
			t.Fatalf("%+v", all)
		}
		listed, asked := all.Results[0].Origin, kept.origins([]string{all.Results[0].ID})
		if listed != asked {
			t.Errorf("the list says %+v, the result's page %+v", listed, asked)
		}
		return listed
	}
	if o := told(); o.Word != "unattested" || !strings.Contains(o.Line, "not proved: where this result was made") {
		t.Errorf("no attestation: %+v", o)
	}
	signed := signedResult(t, b)
	if err := result.Rewrite(plain, b, signed); err != nil {
		t.Fatal(err)
	}
	if o := told(); o.Word != "signed with a local key" || !strings.Contains(o.Line, "not proved: where, how or when it was made") {
		t.Errorf("signed: %+v", o)
	}
	if err := os.WriteFile(plain, bytes.Replace(signed, []byte("0.0125"), []byte("0.01249"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := told(); o.Word != "refused" || !strings.Contains(o.Line, "the result was changed after it was attested") {
		t.Errorf("edited: %+v", o)
	}
	if o := kept.origins([]string{"nowhere"}); o.Word != "unknown" {
		t.Errorf("no such result: %+v", o)
	}
}

// signedResult is a result with a signature by a new key.
func signedResult(t *testing.T, doc []byte) []byte {
	t.Helper()
	private, _, err := proof.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := proof.PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	a, err := proof.Sign(doc, key, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, err := result.Attach(doc, a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOlderHeadlines: results of older versions, whose headlines gave some ratios as measured, have the cost ratio in every headline of
// the page.
func TestOlderHeadlines(t *testing.T) {
	const old, want = "ebpf against off on redis is 0.919x [0.795, 1.056]", "ebpf against off on redis has a cost ratio of 1.088x [0.947, 1.26]"
	file := filepath.Join(t.TempDir(), "e8-original.json")
	b := unpackedResult(t, "../result/testdata/older/e8-original.json.gz")
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("the result does not say %q", old)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Dir(file)}, judging: judging}
	all := kept.summaries()
	if len(all.Results) != 1 {
		t.Fatalf("%+v", all)
	}
	e, err := kept.document(all.Results[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the list": headlines(all.Results[0].Comparisons), "the page of the result": headlines(e.Comparisons)} {
		t.Run(where, func(t *testing.T) {
			if !strings.Contains(text, want) || strings.Contains(text, old) {
				t.Errorf("%s says\n%s\nwant %q", where, text, want)
			}
		})
	}
}

func headlines(list []result.Comparison) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Headline)
	}
	return strings.Join(out, "\n")
}

// unpackedResult is the text of a compressed result.
func unpackedResult(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
