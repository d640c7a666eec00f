package workloads

import (
	"bytes"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestOtherProofs: another circuit, other public values, or another size of proofs is other work, so arms that differ in it are
// not compared; a run's times are not part of it.
func TestOtherProofs(t *testing.T) {
	for _, f := range fixtures(t) {
		if f.workload.Name != zkRSA.Name {
			continue
		}
		o := f.outcome(t, "good")
		want, err := zkRSA.Check(o)
		if err != nil {
			t.Fatal(err)
		}
		for from, to := range map[string]string{
			`"circuit_digest":"sha256:`: `"circuit_digest":"sha256:0`, `"public_digest":"sha256:`: `"public_digest":"sha256:0`, `"proof_bytes":`: `"proof_bytes":9`, `"constraints":`: `"constraints":1`,
			`"verify_seconds":`: `"verify_seconds":1`,
		} {
			other := o
			other.Inside.Stdout = bytes.Replace(o.Inside.Stdout, []byte(from), []byte(to), 1)
			other.Inside.Lines = append([]host.Line(nil), o.Inside.Lines...)
			last := &other.Inside.Lines[len(other.Inside.Lines)-1]
			if last.Text = strings.Replace(last.Text, from, to, 1); bytes.Equal(other.Inside.Stdout, o.Inside.Stdout) {
				t.Fatalf("%s: there is no %s", f.label(), from)
			}
			got, err := zkRSA.Check(other)
			if err != nil {
				t.Errorf("%s: %s: %v", f.label(), to, err)
			}
			if (got == want) != strings.Contains(from, "verify_seconds") {
				t.Errorf("%s: with %s the work is %s, before %s", f.label(), to, got, want)
			}
		}
	}
}
