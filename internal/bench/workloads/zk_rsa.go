package workloads

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/provereport"
)

var (
	zkProve       = loadGauge("prove_seconds", "seconds", metric.Lower, "Time of a proof, including the computation of its witness, on the harness's clock: the mean of the run.")
	zkSpeed       = loadGauge("constraints_per_second", "constraints_per_second", metric.Higher, "Constraints of the circuit divided by the time of a proof.")
	zkWitness     = loadGauge("witness_seconds", "seconds", metric.Lower, "Time to compute all values of the circuit and to check its constraints, measured alone; a proof includes the same work.")
	zkVerify      = loadGauge("verify_seconds", "seconds", metric.Lower, "Time to read and verify a proof, on the environment's clock: the mean of ten verifications of each proof.")
	zkCompile     = loadGauge("compile_seconds", "seconds", metric.Lower, "Time to make the constraints of the circuit.")
	zkKeys        = loadGauge("keys_seconds", "seconds", metric.Lower, "Time to check and read the keys of an earlier set-up.")
	zkSetUp       = loadGauge("set_up_seconds", "seconds", metric.Lower, "Time of the set-up on all CPUs, on the environment's clock. A run that finds the keys on the disk reports the time that is stored with the keys.")
	zkConstraints = loadGauge("circuit_constraints", "constraints", metric.Lower, "Constraints of the circuit in this proof system.")
	zkProof       = loadGauge("proof_bytes", "bytes", metric.Lower, "Size of a proof.")
	zkProvingKey  = loadGauge("proving_key_bytes", "bytes", metric.Lower, "Size of the proving key with uncompressed points.")
	zkVerifying   = loadGauge("verifying_key_bytes", "bytes", metric.Lower, "Size of the verifying key with uncompressed points.")
	zkPeak        = loadGauge("prover_peak_rss_bytes", "bytes", metric.Lower, "Largest resident set of the prover as its kernel reports it, from compiling to the last proof, in a run that makes no set-up.")
	zkOutside     = loadGauge("hash_outside_bytes_per_second", "bytes_per_second", metric.Higher, "SHA-256 outside of a circuit, by one thread.")
	zkInside      = loadGauge("hash_inside_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes hashed by a circuit that contains only SHA-256, divided by the time of its proof.")
)

// zkRSA makes zero-knowledge proofs of a certificate's signature. Their time is that of multiplications in large fields and of memory
// traffic over some hundred megabytes, so it shows what a TEE does to both.
//
// The proof system's set-up takes many times as long as a proof, so its keys are kept on the disk of the environment. Nobody destroyed
// the secrets of the set-up, so the proofs prove nothing to anyone else.
var zkRSA = bench.Workload{
	Name: "zk-rsa",
	Doc: "Zero-knowledge proofs of an RSA-2048 signature over SHA-256 (the certificate check of zkTLS), with Groth16 or PLONK on BN254 by gnark: " +
		"witness, proof, verification, set-up, sizes, memory, and hash throughput inside and outside of a circuit.",
	Version: 1,
	Params: []bench.Param{
		{Name: "circuit", Default: "rsa-2048", Values: []string{"rsa-2048", "sha256", "tiny"},
			Doc: "The statement to prove. rsa-2048: a known RSA signature of a public message of 64 bytes. sha256: a known message with a public SHA-256. tiny: a few multiplications, for a quick try."},
		{Name: "backend", Default: "groth16", Values: []string{"groth16", "plonk"}, Doc: "The proof system."},
		{Name: "bytes", Default: "64", Doc: "Bytes that the circuit sha256 hashes."},
		{Name: "threads", Default: "1", Doc: "Number of threads that may prove at the same time (GOMAXPROCS)."},
		{Name: "proofs", Default: "1", Doc: "Proofs in a run."},
		{Name: "keys", Path: true, Subject: true, Doc: "Folder in the environment that stores the keys of set-ups, up to 2 GiB. Empty: a folder that is removed with the environment; each environment then makes the set-up once, in the first run, which is not part of the result."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{zkProve, zkSpeed, zkWitness, zkVerify, zkCompile, zkKeys, zkSetUp, zkConstraints, zkProof, zkProvingKey, zkVerifying, zkPeak, zkOutside, clockDisagreement}
		if p["circuit"] == "sha256" {
			out = append(out, zkInside)
		}
		return out
	},
	Primary:  func(bench.Params) *metric.Desc { return zkProve },
	Sweep:    threadSweep(runtime.NumCPU()),
	Estimate: zkEstimate,
	Job: func(p bench.Params) (bench.Job, error) {
		n, err1 := p.Int("bytes", 1)
		threads, err2 := p.Int("threads", 1)
		proofs, err3 := p.Int("proofs", 1)
		if err := errors.Join(err1, err2, err3); err != nil {
			return bench.Job{}, err
		}
		keys := p["keys"]
		if keys == "" {
			keys = "{data}/keys"
		}
		return bench.Job{
			Inside: host.Cmd{Argv: []string{"{work}/teescope-prove", "-circuit", p["circuit"], "-backend", p["backend"], "-bytes", strconv.FormatInt(n, 10),
				"-threads", strconv.FormatInt(threads, 10), "-proofs", strconv.FormatInt(proofs, 10), "-keys", keys}},
			Files: []bench.File{{Name: "teescope-prove", From: bench.Prover, Exec: true}},
		}, nil
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		z, err := readZK(o.Inside)
		if err != nil {
			return nil, err
		}
		var found reading
		proof := z.harnessSeconds("prove") / float64(z.Proofs)
		found.derived(zkProve, proof, together)
		found.derived(zkSpeed, float64(z.Constraints)/proof, together)
		found.value(zkWitness, z.harnessSeconds("witness"), together)
		found.derived(zkVerify, positive(z.VerifySeconds), "no proof was verified")
		found.value(zkCompile, z.harnessSeconds("compile"), together)
		if z.SetUp {
			found.lack(zkKeys, "this run made the set-up: "+z.SetUpWhy)
			found.lack(zkPeak, "this run made the set-up, which needs more memory than a proof")
		} else {
			found.value(zkKeys, z.harnessSeconds("keys"), together)
			found.value(zkPeak, positive(float64(z.PeakRSS)), "the kernel or library OS below the prover does not report the prover's memory")
		}
		const silent = "the prover does not report it"
		found.value(zkSetUp, positive(z.SetUpSeconds), silent)
		found.value(zkConstraints, float64(z.Constraints), silent)
		found.value(zkProof, positive(float64(z.ProofBytes)), silent)
		found.value(zkProvingKey, positive(float64(z.ProvingBytes)), silent)
		found.value(zkVerifying, positive(float64(z.VerifyingBytes)), silent)
		found.derived(zkOutside, positive(float64(z.OutsideBytes))/z.harnessSeconds("hash"), together)
		found.derived(clockDisagreement, math.Abs(positive(z.Seconds["prove"])/z.harnessSeconds("prove")-1), together)
		if o.Params["circuit"] == "sha256" {
			found.derived(zkInside, float64(z.Hashed)/proof, together)
		}
		return found.samples, errors.Join(found.missing...)
	},
	Check: func(o bench.Outcome) (string, error) {
		z, err := readZK(o.Inside)
		if err != nil {
			return "", err
		}
		p := o.Params
		switch {
		case z.Circuit != p["circuit"] || z.Scheme != p["backend"] || strconv.Itoa(z.Threads) != p["threads"] || strconv.Itoa(z.Proofs) != p["proofs"]:
			return "", fmt.Errorf("the prover made %d proofs of %s with %s and %d threads, want %s proofs of %s with %s and %s threads", z.Proofs, z.Circuit, z.Scheme, z.Threads, p["proofs"], p["circuit"], p["backend"], p["threads"])
		case p["circuit"] == "sha256" && strconv.Itoa(z.Hashed) != p["bytes"]:
			return "", fmt.Errorf("the circuit hashes %d bytes, want %s", z.Hashed, p["bytes"])
		case z.Verified != z.Proofs:
			return "", fmt.Errorf("only %d of %d proofs were verified with the statement's public values", z.Verified, z.Proofs)
		case z.Tried < 1 || z.Refused != z.Tried:
			return "", falseProofs(z.Tried, z.Refused)
		case z.ProofBytes < 1 || !strings.HasPrefix(z.Digest, "sha256:") || !strings.HasPrefix(z.Public, "sha256:"):
			return "", fmt.Errorf("a value is missing or malformed: a proof has %d bytes, the circuit's digest is %.80q and the public values' digest is %.80q", z.ProofBytes, z.Digest, z.Public)
		}
		// Another circuit or another size of proofs is other work.
		return digest("zk-rsa", z.Circuit, z.Scheme, z.Curve, z.Digest, z.Public, strconv.Itoa(z.Constraints), strconv.Itoa(z.ProofBytes)), nil
	},
}

// zkEstimate is the time of a run without a set-up, with some reserve: the first run of an environment makes one, and may last as long
// as twenty others. A set-up of the RSA circuit was timed at 16 proofs of Groth16 and at 2 of PLONK.
func zkEstimate(p bench.Params) (time.Duration, int64) {
	proofs, err := p.Int("proofs", 1)
	if err != nil || proofs > 1000 {
		proofs = 1 // Job reports what is wrong
	}
	one, disk := 15*time.Second, int64(200<<20)
	switch {
	case p["circuit"] == "tiny":
		return time.Second + time.Duration(proofs)*10*time.Millisecond, 1 << 20
	case p["backend"] == "plonk":
		one, disk = 60*time.Second, 500<<20
	}
	if n, err := p.Int("bytes", 1); err == nil && p["circuit"] == "sha256" {
		blocks := min(n, 1<<14)/64 + 1
		one, disk = one*time.Duration(16+blocks)/16, disk*(16+blocks)/16
	}
	return 5*time.Second + time.Duration(proofs)*one, disk
}

// zkOutput is the output of a prover: its report, and the times of its steps.
type zkOutput struct {
	provereport.Report
	steps
}

// readZK reads an output.
func readZK(o host.Output) (*zkOutput, error) {
	z := &zkOutput{}
	var err error
	if z.steps, err = readSteps("prover", o, &z.Report); err != nil {
		return nil, err
	}
	if z.Proofs < 1 || z.Constraints < 1 {
		return nil, fmt.Errorf("the prover reports %d proofs of %d constraints, want at least one of each", z.Proofs, z.Constraints)
	}
	if n := z.times["prove"]; n != z.Proofs {
		return nil, fmt.Errorf("the prover printed lines for %d proofs, but the report has %d proofs", n, z.Proofs)
	}
	return z, nil
}
