package prices

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/workloads/micro"
)

// TestSigstruct checks a signature as EINIT does: the fields that have to be as they
// are, RSA with exponent 3 over the two signed parts, and the two quotients.
func TestSigstruct(t *testing.T) {
	measured := measurement(enclavePages())
	s, err := sigstruct(measured)
	if err != nil || len(s) != 1808 {
		t.Fatalf("%d bytes, %v", len(s), err)
	}
	for at, want := range map[int]string{
		0: "06000000e10000000000010000000000", 24: "01010000600000006000000001000000", 512: "03000000",
		928: "0400000000000000" + "0300000000000000", 960: hex.EncodeToString(measured),
		16: "00000000", 44: strings.Repeat("00", 84), 908: strings.Repeat("00", 20), 992: strings.Repeat("00", 48), 1028: strings.Repeat("00", 12),
	} {
		if got := hex.EncodeToString(s[at : at+len(want)/2]); got != want {
			t.Errorf("at %d: got %s, want %s", at, got, want)
		}
	}
	field := func(at int) *big.Int {
		b := slices.Clone(s[at : at+384])
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	n, x, q1, q2 := field(128), field(516), field(1040), field(1424)
	if n.BitLen() != 3072 {
		t.Errorf("the modulus has %d bits", n.BitLen())
	}
	hash := sha256.Sum256(append(slices.Clone(s[:128]), s[900:1028]...))
	if err := rsa.VerifyPKCS1v15(&rsa.PublicKey{N: n, E: 3}, crypto.SHA256, hash[:], x.FillBytes(make([]byte, 384))); err != nil {
		t.Error(err)
	}
	// The SDM: Q1 = floor(S^2 / M), Q2 = floor((S^3 - Q1 S M) / M).
	square := new(big.Int).Mul(x, x)
	third := new(big.Int).Sub(new(big.Int).Mul(square, x), new(big.Int).Mul(new(big.Int).Mul(q1, x), n))
	if new(big.Int).Div(square, n).Cmp(q1) != 0 || new(big.Int).Div(third, n).Cmp(q2) != 0 {
		t.Error("the quotients are wrong")
	}
	if again, _ := sigstruct(measured); bytes.Equal(again[128:512], s[128:512]) {
		t.Error("two keys are the same")
	}
}

// TestMeasurement computes MRENCLAVE from the pages that the worker itself adds, by
// the numbers of the SDM's pseudo-code.
func TestMeasurement(t *testing.T) {
	if micro.Program == nil {
		t.Skip("no worker was built for this architecture")
	}
	h := host.Local()
	name := filepath.Join(t.TempDir(), "micro")
	if err := h.Install(name, micro.Program, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := h.Exec(t.Context(), host.Cmd{Argv: []string{name, "enclave", "pages"}})
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	words := func(size int, v uint64) {
		for range size {
			record.WriteByte(byte(v))
			v >>= 8
		}
	}
	zeros := func(n int) { record.Write(make([]byte, n)) }
	words(8, 0x0045544145524345)
	words(4, 1)
	words(8, 0x4000)
	zeros(44)
	lines := strings.Fields(string(out.Stdout))
	if len(lines) != 6 {
		t.Fatalf("the worker said %d words, want 6", len(lines))
	}
	for i := range 3 {
		var kind uint64
		if _, err := fmt.Sscanf(lines[2*i], "%x", &kind); err != nil {
			t.Fatal(err)
		}
		content, err := hex.DecodeString(lines[2*i+1])
		if err != nil || len(content) != 4096 {
			t.Fatalf("%d bytes, %v", len(content), err)
		}
		words(8, 0x0000000044444145)
		words(8, uint64(i)<<12)
		words(8, kind)
		zeros(40)
		for j := range 16 {
			words(8, 0x00444e4554584545)
			words(8, uint64(i)<<12+uint64(j)<<8)
			zeros(48)
			record.Write(content[j<<8 : (j+1)<<8])
		}
	}
	want := sha256.Sum256(record.Bytes())
	if got := measurement(enclavePages()); !bytes.Equal(got, want[:]) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestEnclaveJobs: nothing is run for an enclave where none can be made, and what
// the worker says is the reason where the device is of no use.
func TestEnclaveJobs(t *testing.T) {
	bare := hosttest.Open(t, "testdata/bare.txtar").Host
	if jobs, err := enclaveJobs(bare); jobs != nil || err == nil || err.Error() != "this machine has no active SGX driver: there is no /dev/sgx_enclave" {
		t.Errorf("got %v, %v", jobs, err)
	}
	if err := bare.Mkdir("/dev"); err != nil {
		t.Fatal(err)
	}
	if err := bare.WriteFile("/dev/sgx_enclave", nil); err != nil {
		t.Fatal(err)
	}
	jobs, err := enclaveJobs(bare)
	if err != nil || len(jobs["enclave"]) != 7 {
		t.Fatalf("got %v, %v", jobs, err)
	}
	local := host.Local()
	if here, _ := local.Exists("/dev/sgx_enclave"); here || micro.Program == nil {
		return
	}
	w, err := newWorker(t.Context(), local, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.run("enclave", jobs["enclave"])
	if _, err := enclaveTransition.unit(w); err == nil || err.Error() != "open /dev/sgx_enclave: No such file or directory" {
		t.Errorf("a device that has gone: %v", err)
	}
}
