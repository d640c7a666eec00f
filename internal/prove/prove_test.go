package prove

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/std/math/emulated"

	"github.com/teescope/teescope/internal/provereport"
)

// prover runs the program and returns its report and its other lines.
func prover(t *testing.T, args ...string) (r provereport.Report, lines []string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(args, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("%q: status %d: %s", args, code, errs.String())
	}
	lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out.String())
	}
	return r, lines[:len(lines)-1]
}

// TestSameSignature: the guest of the workload zkvm checks the same signature: modulus, message and signature are the lines of its input.
func TestSameSignature(t *testing.T) {
	input, err := os.ReadFile("../../workloads/zkvm/guests/rsa-2048.hex")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%s\n%x\n%s\n", signedModulus, signedMessage, signedSignature); string(input) != want {
		t.Errorf("it is\n%s\nwant\n%s", input, want)
	}
}

// TestProve: the first run of a circuit makes its set-up, the next ones read it. All prove the same, and refuse what is false.
func TestProve(t *testing.T) {
	for _, sch := range schemes {
		t.Run(sch.name, func(t *testing.T) {
			args := []string{"-circuit", "tiny", "-backend", sch.name, "-proofs", "2", "-hash", "1", "-keys", t.TempDir()}
			first, _ := prover(t, args...)
			second, lines := prover(t, args...)
			var want []string
			for _, step := range []string{stepCompile, stepKeys, stepWitness, stepProve, stepProve, stepHash} {
				want = append(want, "begin "+step, "end "+step)
			}
			if !slices.Equal(lines, want) {
				t.Errorf("the lines are %q, want %q", lines, want)
			}
			if !first.SetUp || first.SetUpWhy != errNone.Error() || second.SetUp || second.SetUpWhy != "" || first.NotKept != "" {
				t.Errorf("set-ups: %+v, %+v", first, second)
			}
			for _, r := range []provereport.Report{first, second} {
				if r.Verified != 2 || r.Tried != 4 || r.Refused != 4 || r.Verifications != 2*verifications || r.OutsideBytes != 1<<20 ||
					r.PublicValues < 1 || r.SecretValues != 1 || r.Threads != 1 || r.ProofBytes < 100 {
					t.Errorf("%+v", r)
				}
			}
			if first.Digest != second.Digest || first.Public != second.Public || first.ProofBytes != second.ProofBytes || first.Constraints != second.Constraints ||
				first.ProvingBytes != second.ProvingBytes || first.VerifyingBytes != second.VerifyingBytes || first.SetUpSeconds != second.SetUpSeconds {
				t.Errorf("two runs of a circuit differ: %+v, %+v", first, second)
			}
		})
	}
}

// proved is a proof of the tiny circuit with so many squarings, and what verifies it.
func proved(t *testing.T, sch *scheme, squarings int) (proof []byte, verifying key) {
	t.Helper()
	st := power
	st.blank = func(int) frontend.Circuit { return &powerCircuit{squarings: squarings} }
	cs, err := compile(&st, sch, 0)
	if err != nil {
		t.Fatal(err)
	}
	proving, verifying, err := sch.setUp(cs)
	if err != nil {
		t.Fatal(err)
	}
	value := 3
	for range squarings {
		value *= value
	}
	full, err := frontend.NewWitness(&powerCircuit{Base: 3, Power: value}, curve.ScalarField())
	if err != nil {
		t.Fatal(err)
	}
	p, err := sch.prove(cs, proving, full)
	if err != nil {
		t.Fatal(err)
	}
	if proof, err = bytesOf(p); err != nil {
		t.Fatal(err)
	}
	return proof, verifying
}

// TestRefuses: a proof with any byte changed, cut off, longer, of another circuit, with the keys of another circuit or about another
// public value is refused, and breaks nothing.
func TestRefuses(t *testing.T) {
	_, right, err := witnesses(&power, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	_, changed, err := witnesses(&power, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, sch := range schemes {
		t.Run(sch.name, func(t *testing.T) {
			proof, verifying := proved(t, sch, 4)
			if err := sch.accepts(proof, verifying, right); err != nil {
				t.Fatalf("a proof is refused: %v", err)
			}
			other, others := proved(t, sch, 3)
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, errRefused) {
					t.Errorf("%s: error is %v", what, err)
				}
			}
			refused("another public value", sch.accepts(proof, verifying, changed))
			refused("a proof of another circuit", sch.accepts(other, verifying, right))
			refused("the keys of another circuit", sch.accepts(proof, others, right))
			refused("a longer proof", sch.accepts(append(slices.Clone(proof), 0), verifying, right))
			for i := range proof {
				refused("a proof cut off at "+strconv.Itoa(i), sch.accepts(proof[:i], verifying, right))
				if i%7 != 0 { // each part of a proof has one of them
					continue
				}
				wrong := slices.Clone(proof)
				wrong[i] ^= 1
				refused("a proof with another byte "+strconv.Itoa(i), sch.accepts(wrong, verifying, right))
			}
		})
	}
}

// TestSignature: the circuit of the signature has the constraints that were published for it, takes the right signature, and neither
// another message nor another signature.
func TestSignature(t *testing.T) {
	if err := rsaSignature.holds(0); err != nil {
		t.Fatal(err)
	}
	cs, err := compile(&rsaSignature, &groth, len(signedMessage))
	if err != nil {
		t.Fatal(err)
	}
	if n, public := cs.GetNbConstraints(), cs.GetNbPublicVariables(); n != 203_539 || public != 97 {
		t.Errorf("%d constraints and %d public values, want 203539 and 97", n, public)
	}
	// Another digest is another circuit: then raise the version of the workload zk-rsa.
	const published = "sha256:a287addf2deb08d1c4eda8d4c0e7b08c1058010773fc46c1fc8b219e43d538ac"
	if digest, err := circuitDigest(cs); digest != published || err != nil {
		t.Errorf("its digest is %s (%v), want %s", digest, err, published)
	}
	forged := rsaSignature.truth(0, false).(*rsaCircuit)
	forged.Signature = emulated.ValueOf[ring](new(big.Int).Add(number(signedSignature), big.NewInt(1)))
	for name, c := range map[string]struct {
		circuit frontend.Circuit
		right   bool
	}{
		"right": {rsaSignature.truth(0, false), true}, "another message": {rsaSignature.truth(0, true), false}, "another signature": {forged, false},
	} {
		t.Run(name, func(t *testing.T) {
			full, err := frontend.NewWitness(c.circuit, curve.ScalarField())
			if err != nil {
				t.Fatal(err)
			}
			if err := solve(cs, full); (err == nil) != c.right {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestHashed: the circuit of the hash takes a message that its padding makes two blocks, and no other sum.
func TestHashed(t *testing.T) {
	for _, n := range []int{56} {
		cs, err := compile(&hashed, &groth, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, changed := range []bool{false, true} {
			full, _, err := witnesses(&hashed, n, changed)
			if err != nil {
				t.Fatal(err)
			}
			if err := solve(cs, full); (err == nil) == changed {
				t.Errorf("%d bytes, changed %v: %v", n, changed, err)
			}
		}
	}
}

// TestKeys: keys that are damaged, cut off, of another circuit or made by another version are not used: a run makes a set-up, says
// why, and repairs the file.
func TestKeys(t *testing.T) {
	for _, sch := range schemes {
		dir := t.TempDir()
		args := []string{"-circuit", "tiny", "-backend", sch.name, "-hash", "1", "-keys", dir}
		first, _ := prover(t, args...)
		name := store{dir: dir}.name(sch, first.Digest)
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := func(i int) []byte {
			b := slices.Clone(good)
			b[i] ^= 1
			return b
		}
		for what, damaged := range map[string][]byte{
			"empty": {}, "a byte": {1}, "cut in half": good[:len(good)/2], "without its end": good[:len(good)-1], "longer": append(slices.Clone(good), 0),
			"the first byte changed": at(0), "a byte in the middle changed": at(len(good) / 2), "the length changed": at(len(good) - len(mark) - 1), "the mark changed": at(len(good) - 1),
			"another version":    bytes.Replace(good, []byte(`"library":"gnark`), []byte(`"library":"knarg`), 1),
			"another circuit":    bytes.Replace(good, []byte(`"circuit":"sha256:`), []byte(`"circuit":"sha512:`), 1),
			"impossible numbers": bytes.Replace(good, []byte(`"proving_key_bytes":`), []byte(`"proving_key_bytes":-`), 1),
		} {
			if bytes.Equal(damaged, good) {
				t.Fatalf("%s %s: the file is as it was", sch.name, what)
			}
			if err := os.WriteFile(name, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			r, _ := prover(t, args...)
			if !r.SetUp || !strings.Contains(r.SetUpWhy, name) || r.Verified != 1 || r.Refused != r.Tried || r.NotKept != "" {
				t.Errorf("%s %s: %+v", sch.name, what, r)
			}
			if r, _ = prover(t, args...); r.SetUp {
				t.Errorf("%s %s: the file was not repaired: %s", sch.name, what, r.SetUpWhy)
			}
		}
	}
}

// TestKeysBounded: a folder with too much loses what was not used for the longest time, what a killed process left, and nothing that is
// not ours.
func TestKeysBounded(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"old.keys", "killed.part", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prover(t, "-circuit", "tiny", "-hash", "1", "-keys", dir, "-keys-most", "1000")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 2 || !strings.HasPrefix(names[0], "groth16-") || names[1] != "notes.txt" {
		t.Errorf("the folder has %q", names)
	}
}

// TestKeysNotKept: where keys cannot be kept, a run says why and makes its proofs.
func TestKeysNotKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, _ := prover(t, "-circuit", "tiny", "-hash", "1", "-keys", file); !r.SetUp || !strings.Contains(r.NotKept, file) || r.Verified != 1 {
		t.Errorf("%+v", r)
	}
	if r, _ := prover(t, "-circuit", "tiny", "-hash", "1"); !r.SetUp || r.NotKept != "" || r.Verified != 1 || r.ProvingBytes == 0 {
		t.Errorf("without a folder: %+v", r)
	}
}

// TestFlags: what cannot be is refused at once and in one line.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"-circuit md5", "rsa-2048, sha256, tiny", exitFailed}, {"-backend stark", "groth16, plonk", exitFailed},
		{"-threads 0", "1 to 4096", exitFailed}, {"-proofs 1000000", "1 to 1000", exitFailed}, {"-hash -1", "-hash", exitFailed},
		{"-circuit sha256 -bytes 0", "1 to 16384", exitFailed}, {"-circuit sha256 -bytes 1000000", "1 to 16384", exitFailed}, {"-keys-most -1", "-keys-most", exitFailed},
		{"more", "unexpected argument", exitUsage}, {"-speed 1", "speed", exitUsage},
	} {
		var out, errs bytes.Buffer
		if code := Main(strings.Fields(c.args), &out, &errs); code != c.code || out.Len() > 0 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, %q, %q", c.args, code, out.String(), errs.String())
		}
	}
}
