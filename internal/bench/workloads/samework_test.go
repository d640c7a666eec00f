package workloads

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestSameWork: another circuit, another program in a zkVM, other public values, another size of proofs, another model or another number of tokens is other work, so arms that
// differ in it are not compared; a run's times are not part of it.
func TestSameWork(t *testing.T) {
	work := map[string][]string{ // what stands before a value that counts
		zkRSA.Name: {`"circuit_digest":"sha256:`, `"public_digest":"sha256:`, `"proof_bytes":`, `"constraints":`},
		zkvm.Name:  {`"program_digest":"sha256:`, `"key_digest":"sha256:`, `"public_values":"`, `"proof_bytes":`, `"cycles":`, `"shards":`},
		llm.Name:   {`"prompt_tokens":`, `"completion_tokens":`, `"prompts_digest":"sha256:`},
	}
	times := map[string]string{zkRSA.Name: `"verify_seconds":`, zkvm.Name: `"verify":`, llm.Name: `"seconds":`}
	for _, f := range fixtures(t) {
		name := f.workload.Name
		if work[name] == nil {
			continue
		}
		whole := f.outcome(t, "good")
		want, err := f.workload.Check(whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range append(slices.Clone(work[name]), times[name]) {
			other := whole
			for _, out := range []*host.Output{&other.Inside, &other.Outside} {
				if name == llm.Name && out == &other.Inside && len(whole.Outside.Stdout) > 0 {
					continue // the server's own count
				}
				out.Stdout = bytes.Replace(out.Stdout, []byte(from), []byte(from+"1"), 1)
				out.Lines = slices.Clone(out.Lines)
				for i := range out.Lines {
					out.Lines[i].Text = strings.Replace(out.Lines[i].Text, from, from+"1", 1)
				}
			}
			if bytes.Equal(other.Inside.Stdout, whole.Inside.Stdout) && bytes.Equal(other.Outside.Stdout, whole.Outside.Stdout) {
				t.Fatalf("%s: there is no %s", f.label(), from)
			}
			got, err := f.workload.Check(other)
			if same := err == nil && got == want; same != (from == times[name]) {
				t.Errorf("%s: with another value after %s the work is %s (%v), before it was %s", f.label(), from, got, err, want)
			}
		}
	}
}
