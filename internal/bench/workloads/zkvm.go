package workloads

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
)

var (
	zkvmProve   = loadGauge("prove_seconds", "seconds", metric.Lower, "Time to prove an execution of the guest, which includes executing it, on the harness's clock.")
	zkvmSpeed   = loadGauge("cycles_per_second", "cycles_per_second", metric.Higher, "Cycles of the guest divided by the time of its proof.")
	zkvmExecute = loadGauge("execute_seconds", "seconds", metric.Lower, "Time to execute the guest without a proof, on the environment's clock.")
	zkvmKeys    = loadGauge("keys_seconds", "seconds", metric.Lower, "Time to make the guest's keys; each run makes them.")
	zkvmVerify  = loadGauge("verify_seconds", "seconds", metric.Lower, "Time to read and verify the proof, on the harness's clock.")
	zkvmCycles  = loadGauge("guest_cycles", "cycles", metric.Lower, "Instructions that the guest executes.")
	zkvmShards  = loadGauge("proof_shards", "shards", metric.Lower, "Shards of the proof.")
	zkvmPeak    = loadGauge("prover_peak_rss_bytes", "bytes", metric.Lower, "Largest resident set of the prover as its kernel reports it.")
	zkvmOutside = loadGauge("hash_outside_bytes_per_second", "bytes_per_second", metric.Higher, "SHA-256 outside of the zkVM, by one thread.")
	zkvmInside  = loadGauge("hash_inside_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes hashed by the chain of hashes in the zkVM, divided by the time of its proof.")
)

// The guests, and the most repetitions of those that have a size, as in workloads/zkvm.
const (
	guestRSA, guestSHA, guestFibonacci = "rsa-2048", "sha256", "fibonacci"

	mostChain     = 10_000
	mostFibonacci = 10_000_000
	leastShard    = 1 << 14
	mostShard     = 1 << 21
)

// zkvmCertificate is the SHA-256 of what the guest rsa-2048 says: the modulus of a key and a message, which are those of zk-rsa.
const zkvmCertificate = "6055e0a64ed467c5461dd6b2b860de454a20f1c2b441653219dc085c1550d9b7"

// zkvm proves executions of programs. Its time is that of Fourier transforms in a small field and of hashes, with memory traffic over
// some gigabytes. The proofs are SP1's core proofs, one for each shard: they grow with the execution, and do not hide the input.
var zkvm = bench.Workload{
	Name: "zkvm",
	Doc: "Proofs of executions in a zkVM, by SP1's core prover on CPUs: the certificate check of zkTLS (an RSA-2048 signature over SHA-256), a chain of hashes, " +
		"or Fibonacci: cycles per second, shards, proof, verification, size, memory, and hash throughput inside and outside of the zkVM.",
	Version: 1,
	Params: []bench.Param{
		{Name: "guest", Default: guestRSA, Values: []string{guestRSA, guestSHA, guestFibonacci},
			Doc: "The program to prove. rsa-2048: the check of an RSA-2048 signature (2.7 million cycles). sha256: a chain of SHA-256 (5,500 cycles a hash). fibonacci: Fibonacci's sequence (a few cycles a step)."},
		{Name: "n", Default: "200", Doc: "Number of hashes of the chain, or steps of the sequence; rsa-2048 has only one size."},
		{Name: "shard", Default: "524288", Doc: "Cycles of a shard, a power of two: smaller shards need less memory, and make larger proofs."},
		{Name: "threads", Default: "2", Doc: "Threads of the prover's pool; a few more threads prepare the work."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{zkvmProve, zkvmSpeed, zkvmExecute, zkvmKeys, zkvmVerify, zkvmCycles, zkvmShards, zkProof, zkvmPeak, zkvmOutside, clockDisagreement}
		if p["guest"] == guestSHA {
			out = append(out, zkvmInside)
		}
		return out
	},
	Primary:  func(bench.Params) *metric.Desc { return zkvmProve },
	Estimate: zkvmEstimate,
	Job: func(p bench.Params) (bench.Job, error) {
		n, err1 := p.Int("n", 1)
		shard, err2 := p.Int("shard", leastShard)
		threads, err3 := p.Int("threads", 1)
		if err := errors.Join(err1, err2, err3); err != nil {
			return bench.Job{}, err
		}
		switch {
		case shard&(shard-1) != 0:
			return bench.Job{}, fmt.Errorf("parameter shard=%d: want a power of two from %d to %d", shard, leastShard, mostShard)
		case p["guest"] == guestSHA && n > mostChain:
			return bench.Job{}, fmt.Errorf("parameter n=%d: want at most %d with guest=%s", n, mostChain, guestSHA)
		}
		return bench.Job{
			Inside: host.Cmd{
				Argv: []string{"{work}/teescope-zkvm", "-guest", p["guest"], "-n", strconv.FormatInt(n, 10), "-shard", strconv.FormatInt(shard, 10), "-threads", strconv.FormatInt(threads, 10)},
				Env:  map[string]string{"TMPDIR": "{data}"}, // for SP1's checkpoints: some environments have no /tmp
			},
			Files: []bench.File{{Name: "teescope-zkvm", From: bench.ZKVM, Exec: true}},
		}, nil
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		z, err := readZKVM(o.Inside)
		if err != nil {
			return nil, err
		}
		var found reading
		const silent = "the prover does not report it"
		prove := z.harnessSeconds("prove")
		found.value(zkvmProve, prove, together)
		found.derived(zkvmSpeed, float64(z.Cycles)/prove, together)
		found.value(zkvmExecute, positive(z.Seconds["execute"]), silent)
		found.value(zkvmKeys, z.harnessSeconds("keys"), together)
		found.value(zkvmVerify, z.harnessSeconds("verify"), together)
		found.value(zkvmCycles, float64(z.Cycles), silent)
		found.value(zkvmShards, positive(float64(z.Shards)), silent)
		found.value(zkProof, positive(float64(z.ProofBytes)), silent)
		found.value(zkvmPeak, positive(float64(z.PeakRSS)), "the kernel or library OS below the prover does not report the prover's memory")
		found.derived(zkvmOutside, positive(float64(z.OutsideBytes))/z.harnessSeconds("hash"), together)
		found.derived(clockDisagreement, math.Abs(positive(z.Seconds["prove"])/prove-1), together)
		if o.Params["guest"] == guestSHA {
			found.derived(zkvmInside, positive(float64(z.Hashed))/prove, together)
		}
		return found.samples, errors.Join(found.missing...)
	},
	Check: func(o bench.Outcome) (string, error) {
		z, err := readZKVM(o.Inside)
		if err != nil {
			return "", err
		}
		p := o.Params
		n := strconv.FormatUint(uint64(z.N), 10)
		switch {
		case z.Guest != p["guest"] || z.Guest != guestRSA && n != p["n"] || strconv.Itoa(z.ShardCycles) != p["shard"] || strconv.Itoa(z.Threads) != p["threads"]:
			return "", fmt.Errorf("the prover proved %s of %s in shards of %d cycles with %d threads, want %s of %s in shards of %s cycles with %s threads", z.Guest, n, z.ShardCycles, z.Threads, p["guest"], p["n"], p["shard"], p["threads"])
		case !z.Verified:
			return "", errors.New("the proof was not verified")
		case z.Tried < 1 || z.Refused != z.Tried:
			return "", falseProofs(z.Tried, z.Refused)
		case z.ProofBytes < 1 || z.Shards < 1 || !strings.HasPrefix(z.Program, "sha256:") || !strings.HasPrefix(z.Key, "sha256:"):
			return "", fmt.Errorf("a value is missing or malformed: a proof has %d bytes and %d shards, the program's digest is %.80q and its key's digest is %.80q", z.ProofBytes, z.Shards, z.Program, z.Key)
		}
		said, err := hex.DecodeString(z.Public)
		if err != nil {
			return "", fmt.Errorf("cannot decode the public values %.80q: %w", z.Public, err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(said)); got != zkvmSays(z.Guest, z.N) {
			return "", fmt.Errorf("the guest %s of %s gave the wrong result %.80q", z.Guest, n, z.Public)
		}
		// Another program, another prover or another size of proofs is other work.
		return digest("zkvm", z.Guest, n, z.Library, z.Program, z.Key, z.Public, strconv.FormatInt(z.Cycles, 10), strconv.Itoa(z.Shards), strconv.Itoa(z.ProofBytes)), nil
	},
}

// zkvmSays is the SHA-256 of the public values that are right, which the proof has, in hexadecimal.
func zkvmSays(guest string, n uint32) string {
	said := binary.LittleEndian.AppendUint32(nil, n)
	switch guest {
	case guestSHA:
		var link [sha256.Size]byte
		for range min(n, mostChain) {
			link = sha256.Sum256(link[:])
		}
		said = append(said, link[:]...)
	case guestFibonacci:
		a, b := uint32(0), uint32(1)
		for range min(n, mostFibonacci) {
			a, b = b, a+b
		}
		said = binary.LittleEndian.AppendUint32(said, a)
	default:
		return zkvmCertificate
	}
	return fmt.Sprintf("%x", sha256.Sum256(said))
}

// zkvmEstimate has some reserve: 15,000 cycles a second were seen with two threads.
func zkvmEstimate(p bench.Params) (time.Duration, int64) {
	n, err1 := p.Int("n", 1)
	threads, err2 := p.Int("threads", 1)
	if errors.Join(err1, err2) != nil {
		n, threads = 1, 1 // Job reports what is wrong
	}
	cycles := int64(30_000)
	switch p["guest"] {
	case guestSHA:
		cycles += 5_500 * min(n, mostChain)
	case guestFibonacci:
		cycles += 5 * min(n, mostFibonacci)
	default:
		cycles = 2_800_000
	}
	const each = 6_000 // cycles a second of a thread
	return 10*time.Second + time.Duration(cycles)*time.Second/time.Duration(each*min(threads, int64(runtime.NumCPU()))), 32 << 20
}

// zkvmOutput is the output of the prover: its report, and the times of its steps.
type zkvmOutput struct {
	zkvmReport
	steps
}

// zkvmReport is the prover's document (workloads/zkvm/src/main.rs).
type zkvmReport struct {
	Guest        string             `json:"guest"`
	N            uint32             `json:"n"`
	Library      string             `json:"library"`
	Program      string             `json:"program_digest"`
	Key          string             `json:"key_digest"`
	Public       string             `json:"public_values"`
	Cycles       int64              `json:"cycles"`
	ShardCycles  int                `json:"shard_cycles"`
	Shards       int                `json:"shards"`
	Threads      int                `json:"threads"`
	Hashed       int64              `json:"hashed_bytes"`
	Verified     bool               `json:"verified"`
	Tried        int                `json:"false_tried"`
	Refused      int                `json:"false_refused"`
	ProofBytes   int                `json:"proof_bytes"`
	OutsideBytes int64              `json:"outside_bytes"`
	PeakRSS      int64              `json:"peak_rss_bytes"`
	Seconds      map[string]float64 `json:"inside_seconds"`
}

// readZKVM reads an output.
func readZKVM(o host.Output) (*zkvmOutput, error) {
	z := &zkvmOutput{}
	var err error
	if z.steps, err = readSteps("prover", o, &z.zkvmReport); err != nil {
		return nil, err
	}
	if z.Cycles < 1 || z.times["prove"] != 1 || z.times["verify"] != 1 {
		return nil, fmt.Errorf("the prover proved %d and verified %d executions of %d cycles, want one proof, one verification, and cycles above 0", z.times["prove"], z.times["verify"], z.Cycles)
	}
	return z, nil
}

// falseProofs is the error of a verifier that did not refuse every false proof, or was given none.
func falseProofs(tried, refused int) error {
	if tried < 1 {
		return errors.New("the verifier was not tested with a false proof, so it may accept any proof")
	}
	return fmt.Errorf("the verifier accepted %d of %d false proofs", tried-refused, tried)
}
