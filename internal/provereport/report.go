// Package provereport has the report of the prover of zero-knowledge proofs, which the prover writes and the workload
// zk-rsa reads.
package provereport

// Report is the document at the end of the output. Before it are lines "begin STEP" and "end STEP" for each step, which the harness
// times by its own clock; Seconds has the same by the clock inside.
type Report struct {
	Circuit string `json:"circuit"`
	Scheme  string `json:"scheme"`
	Curve   string `json:"curve"`
	Library string `json:"library"`
	// Digest is that of the compiled circuit, Public that of the public values.
	Digest string `json:"circuit_digest"`
	Public string `json:"public_digest"`
	// Constraints has all; of the values in them PublicValues are public, SecretValues secret, and InternalValues follow from them.
	Constraints    int `json:"constraints"`
	PublicValues   int `json:"public_values"`
	SecretValues   int `json:"secret_values"`
	InternalValues int `json:"internal_values"`
	// Hashed are the bytes that one proof hashes.
	Hashed int `json:"hashed_bytes"`
	// Threads is the number of threads of Go's code that may run at once.
	Threads int `json:"threads"`
	// Proofs were made, Verified of them verified with the public values of the statement, and Refused are the false
	// ones that were refused, of Tried: another public value, another bit in the proof.
	Proofs   int `json:"proofs"`
	Verified int `json:"verified"`
	Tried    int `json:"false_tried"`
	Refused  int `json:"false_refused"`

	ProofBytes     int     `json:"proof_bytes"`
	ProvingBytes   int64   `json:"proving_key_bytes"`
	VerifyingBytes int64   `json:"verifying_key_bytes"`
	SetUpSeconds   float64 `json:"set_up_seconds"`
	// SetUp: the set-up was made in this run, because of SetUpWhy. Else the keys, and its time, are from the disk.
	SetUp    bool   `json:"set_up"`
	SetUpWhy string `json:"set_up_why,omitempty"`
	// NotKept is why the keys could not be kept.
	NotKept string `json:"not_kept,omitempty"`
	// VerifySeconds is the mean of Verifications.
	VerifySeconds float64 `json:"verify_seconds"`
	Verifications int     `json:"verifications"`
	// OutsideBytes were hashed outside the circuit in the step hash, by one thread.
	OutsideBytes int64              `json:"outside_bytes"`
	PeakRSS      int64              `json:"peak_rss_bytes"`
	Seconds      map[string]float64 `json:"inside_seconds"`
}
