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
	"github.com/teescope/teescope/internal/verdict"
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
	r, err := proof.Verify(doc, proof.Options{Now: attesttest.Made.Add(time.Minute), Roots: m.Trust, Policy: proof.Policy{MinTCB: attesttest.MinTCB}})
	if err != nil || r.Word() != "attested: an SEV-SNP guest" {
		t.Errorf("%v, %q: %s", err, r.Word(), r.Line)
	}
}

// TestOlderHeadlines: results of older versions, whose headlines gave some ratios as measured, have the cost ratio in every headline of
// the page and of a report.
func TestOlderHeadlines(t *testing.T) {
	const old, want = "ebpf against off on redis is 0.919x [0.795, 1.056]", "ebpf against off on redis has a cost ratio of 1.088x [0.947, 1.26]"
	file := filepath.Join(t.TempDir(), "e8-original.json")
	b := unpacked(t, "../../experiments/results/e8-original.json.gz")
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("the result does not say %q", old)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Dir(file)}}
	all := kept.summaries()
	if len(all.Results) != 1 {
		t.Fatalf("%+v", all)
	}
	e, err := kept.document(all.Results[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(t, "report", file, "--format", "text", "--out", "-")
	if code != exitOK {
		t.Fatal(errs)
	}
	for where, text := range map[string]string{"the list": headlines(all.Results[0].Comparisons), "the page of the result": headlines(e.Comparisons), "the report": strings.Join(strings.Fields(out), " ")} {
		if !strings.Contains(text, want) || strings.Contains(text, old) {
			t.Errorf("%s says\n%s\nwant %q", where, text, want)
		}
	}
}

func headlines(list []result.Comparison) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Headline)
	}
	return strings.Join(out, "\n")
}

// TestChangeIsACost: a change of a series has the cost ratio, whichever way the metric is better.
func TestChangeIsACost(t *testing.T) {
	z := 4.0
	for _, c := range []struct {
		before, after float64
		worse         bool
		want          string
	}{
		{100, 80, true, "worse: 100 to 80 (cost ratio 1.25x, p = 0.01)"},  // requests per second
		{80, 100, false, "better: 80 to 100 (cost ratio 0.8x, p = 0.01)"}, // the same, recovered
		{80, 100, true, "worse: 80 to 100 (cost ratio 1.25x, p = 0.01)"},  // milliseconds
		{100, 80, false, "better: 100 to 80 (cost ratio 0.8x, p = 0.01)"}, // the same, recovered
	} {
		if got := changeText(verdict.Change{Before: c.before, After: c.after, Ratio: c.after / c.before, Worse: c.worse, P: 0.01, Z: &z}); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
