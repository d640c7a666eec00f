package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/proof"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/web"
)

// TestOrigins: the page says of each result what is proved of where it was made, and says it anew when the file changes.
func TestOrigins(t *testing.T) {
	plain := someResult(t, "plain.json")
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Dir(plain)}}
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
	if out, errs, code := run(t, "attest", plain, "--new-key", filepath.Join(t.TempDir(), "me.pem")); code != exitOK {
		t.Fatal(out, errs)
	}
	if o := told(); o.Word != "signed with a local key" || !strings.Contains(o.Line, "not proved: where, how or when it was made") {
		t.Errorf("signed: %+v", o)
	}
	b, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, bytes.Replace(b, []byte("0.0125"), []byte("0.01249"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := told(); o.Word != "refused" || !strings.Contains(o.Line, "the result was changed after it was attested") {
		t.Errorf("edited: %+v", o)
	}
	if o := kept.origins([]string{"nowhere"}); o.Word != "unknown" {
		t.Errorf("no such result: %+v", o)
	}
}

// TestOriginWords: an attested result names what attested it.
func TestOriginWords(t *testing.T) {
	path := someResult(t, "r.json")
	m := attesttest.SEV(t, attesttest.Options{})
	if out, errs, code := onMachine(t, m, "attest", path); code != exitOK {
		t.Fatal(out, errs)
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.Verify(doc, proof.Options{Now: attesttest.Made.Add(time.Minute), Roots: m.Trust})
	if err != nil || r.Word() != "attested: an SEV-SNP guest" {
		t.Errorf("%v, %q: %s", err, r.Word(), r.Line)
	}
}
