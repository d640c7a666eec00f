// Package prove is the program teescope-prove, which runs inside environments under test: it compiles a statement about a
// signature or a hash to a circuit, sets it up, proves it and verifies the proofs, with Groth16 or PLONK on BN254 by package
// gnark. It is a program of its own because gnark doubles the size of a program, and the worker's size is one of the things measured.
package prove

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	"github.com/consensys/gnark/constraint/solver"
	"github.com/consensys/gnark/frontend"
	fcs "github.com/consensys/gnark/frontend/cs"
	"github.com/consensys/gnark/logger"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/provereport"
)

// The steps, in their order. A step can be there more than once.
const (
	stepCompile = "compile"
	stepKeys    = "keys"
	stepWitness = "witness"
	stepProve   = "prove"
	stepHash    = "hash"
)

// job is what the flags say.
type job struct {
	statement, scheme              string
	bytes, threads, proofs, hashes int
	keys                           store

	out io.Writer
	r   provereport.Report
}

// Limits of the flags, and defaults.
const (
	mostThreads   = 1 << 12
	mostProofs    = 1000
	mostHashes    = 1 << 16 // MiB
	mostKeys      = 2 << 30
	verifications = 10 // of one proof, which takes milliseconds
)

// Exit statuses distinguish a usage error from a run that failed, as those of the worker.
const (
	exitFailed = 1
	exitUsage  = 4
)

// Main runs the program and returns its exit status.
func Main(args []string, out, errs io.Writer) int {
	logger.Disable()
	j := job{out: out}
	flags := flag.NewFlagSet("teescope-prove", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&j.statement, "circuit", rsaSignature.name, "what to prove: "+names(statements, func(s *statement) string { return s.name + " (" + s.doc + ")" }))
	flags.StringVar(&j.scheme, "backend", groth.name, "the proof system: "+names(schemes, func(s *scheme) string { return s.name + " (" + s.doc + ")" }))
	flags.IntVar(&j.bytes, "bytes", 64, "bytes that the circuit hashes (`N`; sha256)")
	flags.IntVar(&j.threads, "threads", 1, "threads of this program's code that may run at once (`N`)")
	flags.IntVar(&j.proofs, "proofs", 1, "how many proofs to make (`N`)")
	flags.IntVar(&j.hashes, "hash", 64, "MiB to hash outside of the circuit (`N`)")
	flags.StringVar(&j.keys.dir, "keys", "", "`FOLDER` in which keys are kept; without it each run makes a set-up")
	flags.Int64Var(&j.keys.most, "keys-most", mostKeys, "`BYTES` that the folder may have; beyond them the keys used the longest time ago are dropped")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "teescope-prove: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	if err := j.run(); err != nil {
		fmt.Fprintf(errs, "teescope-prove: %v\n", err)
		return exitFailed
	}
	return 0
}

// names joins words about a list.
func names[T any](all []T, word func(T) string) string {
	var out []string
	for _, x := range all {
		out = append(out, word(x))
	}
	return strings.Join(out, ", ")
}

// run does the steps and writes the report.
func (j *job) run() error {
	st, sch, size, err := j.choose()
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(j.threads))
	j.r = provereport.Report{Circuit: st.name, Scheme: sch.name, Curve: curve.String(), Library: library(), Hashed: size, Threads: j.threads,
		Proofs: j.proofs, Seconds: map[string]float64{}}
	if err := st.holds(size); err != nil {
		return fmt.Errorf("check the statement outside of the circuit: %w", err)
	}
	var cs constraint.ConstraintSystem
	if err := j.step(stepCompile, func() (err error) {
		cs, err = compile(st, sch, size)
		return err
	}); err != nil {
		return err
	}
	if j.r.Digest, err = circuitDigest(cs); err != nil {
		return err
	}
	j.r.Constraints, j.r.PublicValues, j.r.SecretValues, j.r.InternalValues = cs.GetNbConstraints(), cs.GetNbPublicVariables(), cs.GetNbSecretVariables(), cs.GetNbInternalVariables()
	var proving, verifying key
	if err := j.step(stepKeys, func() (err error) {
		proving, verifying, err = j.obtain(sch, cs)
		return err
	}); err != nil {
		return err
	}
	var full, public witness.Witness
	if err := j.step(stepWitness, func() (err error) {
		if full, public, err = witnesses(st, size, false); err != nil {
			return err
		}
		return solve(cs, full)
	}); err != nil {
		return fmt.Errorf("compute the witness: %w", err)
	}
	_, changed, err := witnesses(st, size, true)
	if err != nil {
		return err
	}
	if j.r.Public, err = publicDigest(public); err != nil {
		return err
	}
	for range j.proofs {
		var proof io.WriterTo
		if err := j.step(stepProve, func() (err error) {
			proof, err = sch.prove(cs, proving, full)
			return err
		}); err != nil {
			return fmt.Errorf("prove: %w", err)
		}
		if err := j.verify(sch, proof, verifying, public, changed); err != nil {
			return err
		}
	}
	j.r.VerifySeconds /= float64(j.r.Verifications)
	if err := j.step(stepHash, j.hash); err != nil {
		return err
	}
	j.r.PeakRSS = peakRSS()
	return json.NewEncoder(j.out).Encode(j.r)
}

// choose checks the flags.
func (j *job) choose() (*statement, *scheme, int, error) {
	i := slices.IndexFunc(statements, func(s *statement) bool { return s.name == j.statement })
	k := slices.IndexFunc(schemes, func(s *scheme) bool { return s.name == j.scheme })
	switch {
	case i < 0:
		return nil, nil, 0, fmt.Errorf("-circuit %q: want one of %s", j.statement, names(statements, func(s *statement) string { return s.name }))
	case k < 0:
		return nil, nil, 0, fmt.Errorf("-backend %q: want one of %s", j.scheme, names(schemes, func(s *scheme) string { return s.name }))
	case j.keys.most < 0:
		return nil, nil, 0, fmt.Errorf("-keys-most %d: want a number of bytes", j.keys.most)
	}
	for _, f := range []struct {
		name        string
		value, most int
	}{{"threads", j.threads, mostThreads}, {"proofs", j.proofs, mostProofs}, {"hash", j.hashes, mostHashes}} {
		if f.value < 1 || f.value > f.most {
			return nil, nil, 0, fmt.Errorf("-%s %d: want a whole number from 1 to %d", f.name, f.value, f.most)
		}
	}
	size, err := statements[i].size(j.bytes)
	return statements[i], schemes[k], size, err
}

// step does one step, between two lines.
func (j *job) step(name string, do func() error) error {
	if _, err := fmt.Fprintln(j.out, "begin", name); err != nil {
		return err
	}
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	j.r.Seconds[name] += time.Since(began).Seconds()
	_, err := fmt.Fprintln(j.out, "end", name)
	return err
}

// compile makes the constraints of a statement.
func compile(st *statement, sch *scheme, size int) (constraint.ConstraintSystem, error) {
	cs, err := frontend.Compile(curve.ScalarField(), sch.builder, st.blank(size))
	if err != nil {
		return nil, fmt.Errorf("compile the circuit: %w", err)
	}
	return cs, nil
}

// circuitDigest is the digest of a compiled circuit: of everything that a set-up and a proof depend on.
func circuitDigest(cs constraint.ConstraintSystem) (string, error) {
	h := sha256.New()
	if _, err := cs.WriteTo(h); err != nil {
		return "", fmt.Errorf("encode the circuit: %w", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// obtain reads the keys from the disk, or makes a set-up.
func (j *job) obtain(sch *scheme, cs constraint.ConstraintSystem) (proving, verifying key, err error) {
	proving, verifying, d, err := j.keys.load(sch, j.r.Digest, j.r.Library)
	if err != nil {
		j.r.SetUp, j.r.SetUpWhy = true, err.Error()
		runtime.GOMAXPROCS(runtime.NumCPU()) // it is made once, and serves runs with any number of threads
		began := time.Now()
		if proving, verifying, err = sch.setUp(cs); err != nil {
			return nil, nil, fmt.Errorf("set up the circuit: %w", err)
		}
		runtime.GOMAXPROCS(j.threads)
		d = description{Scheme: sch.name, Circuit: j.r.Digest, Library: j.r.Library, Seconds: time.Since(began).Seconds()}
		if err := d.fill(proving, verifying); err != nil {
			return nil, nil, err
		}
		if err := j.keys.save(sch, proving, verifying, d); err != nil {
			j.r.NotKept = err.Error()
		}
	}
	j.r.SetUpSeconds, j.r.ProvingBytes, j.r.VerifyingBytes = d.Seconds, d.Proving, d.Verifying
	return proving, verifying, nil
}

// witnesses are all values of a statement, and the public ones.
func witnesses(st *statement, size int, changed bool) (full, public witness.Witness, err error) {
	if full, err = frontend.NewWitness(st.truth(size, changed), curve.ScalarField()); err != nil {
		return nil, nil, err
	}
	public, err = full.Public()
	return full, public, err
}

// solve computes all values of a circuit, as a proof does first, and checks its constraints. Where a proof commits to some of the
// values and gets a challenge from that, here the challenge is their hash.
func solve(cs constraint.ConstraintSystem, full witness.Witness) error {
	challenge := func(field *big.Int, in, out []*big.Int) error {
		h := sha256.New()
		for _, v := range in {
			h.Write(v.Bytes())
		}
		out[0].Mod(out[0].SetBytes(h.Sum(nil)), field)
		return nil
	}
	_, err := cs.Solve(full, solver.OverrideHint(solver.GetHintID(fcs.Bsb22CommitmentComputePlaceholder), challenge))
	return err
}

// verify verifies a proof, and that two false ones are refused: the same proof for other public values, and one with a changed bit.
func (j *job) verify(sch *scheme, proof io.WriterTo, verifying key, public, changed witness.Witness) error {
	b, err := bytesOf(proof)
	if err != nil {
		return err
	}
	if j.r.ProofBytes != 0 && j.r.ProofBytes != len(b) {
		return fmt.Errorf("a proof has %d bytes, the one before %d", len(b), j.r.ProofBytes)
	}
	j.r.ProofBytes = len(b)
	began := time.Now()
	for range verifications {
		if err := sch.accepts(b, verifying, public); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	j.r.VerifySeconds += time.Since(began).Seconds()
	j.r.Verifications += verifications
	j.r.Verified++
	other := slices.Clone(b)
	other[len(other)/2] ^= 1
	for _, no := range []struct {
		proof  []byte
		public witness.Witness
	}{{b, changed}, {other, public}} {
		j.r.Tried++
		if err := sch.accepts(no.proof, verifying, no.public); errors.Is(err, errRefused) {
			j.r.Refused++
		}
	}
	return nil
}

// publicDigest is the digest of public values.
func publicDigest(public witness.Witness) (string, error) {
	b, err := public.MarshalBinary()
	if err != nil {
		return "", fmt.Errorf("encode the public values: %w", err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// hash hashes outside of the circuit, in pieces that stay in the cache.
func (j *job) hash() error {
	const mib = 1 << 20
	piece := bytes.Repeat([]byte{0x5a}, 64<<10)
	h := sha256.New()
	for j.r.OutsideBytes = 0; j.r.OutsideBytes < int64(j.hashes)*mib; j.r.OutsideBytes += int64(len(piece)) {
		h.Write(piece)
	}
	_ = h.Sum(nil)
	return nil
}

// peakRSS is the largest resident set of this process so far, in bytes; 0 where the kernel keeps no account of it.
func peakRSS() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10 // getrusage(2): kilobytes
}

// library is the version of gnark in this program.
func library() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, m := range b.Deps {
			if m.Path == "github.com/consensys/gnark" {
				return "gnark " + m.Version
			}
		}
	}
	return "gnark"
}
