package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-eventlog/register"
	"github.com/google/go-eventlog/tcg"
	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"github.com/teescope/teescope/internal/host"
)

const (
	tpmFormat = "tpm2"
	// TPMDevice is the kernel's TPM with its resource manager.
	TPMDevice = "/dev/tpmrm0"
	// tpmLog is the firmware's log of what it measured (TCG PC Client Platform Firmware
	// Profile), as the kernel hands it on.
	tpmLog = "/sys/kernel/security/tpm0/binary_bios_measurements"
)

var tpm = Provider{
	Name:  "tpm",
	Doc:   "the TPM 2.0 of this machine, by " + TPMDevice + "; it is not a TEE, so it is used only where it is named",
	Named: true,
	Open: func(s Settings) (Quoter, Collateral, error) {
		t, err := OpenTPM(s.TPM)
		return t, Stored(nil), err
	},
}

// TPMSettings are those of a TPM.
type TPMSettings struct {
	// Path is the device, or the socket of a TPM in software; "" is TPMDevice.
	Path string
	// Log is the event log, nil that of the kernel, if there is one. An empty one is left out.
	Log []byte
	// Certificates are those of the TPM's attestation key, in DER, leaf first; nil is none.
	Certificates []byte
}

// TPM is an open TPM 2.0.
type TPM struct {
	mu     sync.Mutex // a TPM does one thing at a time, and a socket has no resource manager
	device transport.TPM
	log    []byte
	chain  []byte
}

// OpenTPM opens a device or a socket. Its error wraps errors.ErrUnsupported where there is none.
func OpenTPM(s TPMSettings) (*TPM, error) {
	path := s.Path
	if path == "" {
		path = TPMDevice
	}
	device, err := openTPMDevice(path)
	if err != nil {
		return nil, fmt.Errorf("open the TPM: %w: %w (teescope needs a TPM 2.0 and the right to use %s)", errors.ErrUnsupported, err, path)
	}
	t := &TPM{device: device, log: s.Log, chain: s.Certificates}
	if t.log == nil && s.Path == "" {
		if t.log, err = host.Local().ReadFile(tpmLog); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the TPM's event log: %w", err)
		}
	}
	return t, nil
}

// registers are how many a quote covers: all that a PC has, in the bank of SHA-256.
const registers = 24

func allRegisters() tpm2.TPMLPCRSelection { return registersFrom(0, registers) }

func registersFrom(from, to uint) tpm2.TPMLPCRSelection {
	var some []uint
	for n := from; n < to; n++ {
		some = append(some, n)
	}
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(some...)}}}
}

// attestationKey is the template of the key that signs quotes: restricted, so it signs nothing
// that the TPM has not made, and derived from the TPM's endorsement seed, so it is the same key
// each time and needs no storage.
var attestationKey = tpm2.TPMTPublic{
	Type:    tpm2.TPMAlgECC,
	NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, NoDA: true,
		Restricted: true, SignEncrypt: true},
	Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{
		Scheme:  tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA, Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})},
		CurveID: tpm2.TPMECCNistP256,
	}),
}

// primary makes a key of the endorsement hierarchy. What it returns last forgets the key.
func (t *TPM) primary(template tpm2.TPMTPublic) (*tpm2.CreatePrimaryResponse, func(), error) {
	r, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHEndorsement, InPublic: tpm2.New2B(template)}.Execute(t.device)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key of the TPM's endorsement hierarchy: %w", err)
	}
	return r, func() { _, _ = tpm2.FlushContext{FlushHandle: r.ObjectHandle}.Execute(t.device) }, nil // it is gone with the device, too
}

// tpmQuote is what is sent of a quote. It has one spelling.
type tpmQuote struct {
	Data      []byte   `cbor:"1,keyasint"` // what the evidence is about
	Attest    []byte   `cbor:"2,keyasint"` // TPMS_ATTEST
	Signature []byte   `cbor:"3,keyasint"` // TPMT_SIGNATURE
	Key       []byte   `cbor:"4,keyasint"` // TPMT_PUBLIC of the attestation key
	Registers [][]byte `cbor:"5,keyasint"`
	Log       []byte   `cbor:"6,keyasint"`
	Chain     []byte   `cbor:"7,keyasint"` // certificates of the attestation key in DER, leaf first
}

// qualified is what the TPM signs with its registers: a TPM takes fewer bytes than the 64 of
// other evidence, and neither log nor chain would otherwise be covered byte for byte.
func (q *tpmQuote) qualified() []byte {
	log, chain := sha256.Sum256(q.Log), sha256.Sum256(q.Chain)
	sum := sha256.Sum256(slices.Concat([]byte("teescope tpm quote 1\x00"), q.Data, log[:], chain[:]))
	return sum[:]
}

// Quote reads all registers and has the TPM sign them.
func (t *TPM) Quote(ctx context.Context, data [Size]byte) (*Evidence, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil { // a command of the TPM cannot be ended
		return nil, err
	}
	key, forget, err := t.primary(attestationKey)
	if err != nil {
		return nil, err
	}
	defer forget()
	public, err := key.OutPublic.Contents()
	if err != nil {
		return nil, fmt.Errorf("read the TPM's key: %w", err)
	}
	q := tpmQuote{Data: data[:], Key: tpm2.Marshal(*public), Log: t.log, Chain: t.chain}
	// A register may change between being read and being signed, as IMA's does all the time.
	const tries = 5
	for range tries {
		if q.Registers, err = t.read(); err != nil {
			return nil, err
		}
		r, err := tpm2.Quote{
			SignHandle:     tpm2.AuthHandle{Handle: key.ObjectHandle, Name: key.Name, Auth: tpm2.PasswordAuth(nil)},
			QualifyingData: tpm2.TPM2BData{Buffer: q.qualified()},
			InScheme:       tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgNull},
			PCRSelect:      allRegisters(),
		}.Execute(t.device)
		if err != nil {
			return nil, fmt.Errorf("get a quote of the TPM: %w", err)
		}
		q.Attest, q.Signature = r.Quoted.Bytes(), tpm2.Marshal(r.Signature)
		if q.check() == nil {
			b, err := canonical(q)
			return &Evidence{Format: tpmFormat, Quote: b}, err
		}
	}
	return nil, fmt.Errorf("get a quote of the TPM: the TPM's registers changed during each of %d tries; try again when no program extends the registers", tries)
}

// read reads the registers, of which a TPM hands out a few at a time.
func (t *TPM) read() ([][]byte, error) {
	var out [][]byte
	for len(out) < registers {
		r, err := tpm2.PCRRead{PCRSelectionIn: registersFrom(uint(len(out)), registers)}.Execute(t.device)
		if err != nil {
			return nil, fmt.Errorf("read the TPM's registers: %w", err)
		}
		if len(r.PCRValues.Digests) == 0 {
			return nil, errors.New("read the TPM's registers: the TPM has no bank of SHA-256 registers")
		}
		for _, d := range r.PCRValues.Digests {
			out = append(out, d.Buffer)
		}
	}
	return out, nil
}

// canonical writes a quote in its one spelling.
func canonical(q tpmQuote) ([]byte, error) {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return mode.Marshal(q)
}

// check compares what the TPM has signed with what stands beside it. It looks at no signature.
func (q *tpmQuote) check() error {
	a, err := tpm2.Unmarshal[tpm2.TPMSAttest](q.Attest)
	if err != nil {
		return fmt.Errorf("read what the TPM signed: %w", err)
	}
	info, err := a.Attested.Quote()
	switch {
	case a.Magic != tpm2.TPMGeneratedValue || a.Type != tpm2.TPMSTAttestQuote || err != nil:
		return errors.New("what the TPM signed is not a quote")
	case !bytes.Equal(tpm2.Marshal(*a), q.Attest):
		return errors.New("what the TPM signed is not in canonical form")
	case !bytes.Equal(a.ExtraData.Buffer, q.qualified()):
		return errors.New("the quote was made for other data, another event log or another certificate")
	case !bytes.Equal(tpm2.Marshal(info.PCRSelect), tpm2.Marshal(allRegisters())):
		return errors.New("the quote does not cover the 24 registers of SHA-256")
	}
	if len(q.Registers) != registers || slices.ContainsFunc(q.Registers, func(r []byte) bool { return len(r) != sha256.Size }) {
		return fmt.Errorf("the quote comes with %d registers, or with registers that are not SHA-256: want %d SHA-256 registers", len(q.Registers), registers)
	}
	if sum := sha256.Sum256(slices.Concat(q.Registers...)); !bytes.Equal(info.PCRDigest.Buffer, sum[:]) {
		return errors.New("the registers are not those that the TPM signed")
	}
	return nil
}

// signer is the attestation key of a quote, if it is one that signs nothing else.
func (q *tpmQuote) signer() (*ecdsa.PublicKey, error) {
	p, err := tpm2.Unmarshal[tpm2.TPMTPublic](q.Key)
	if err != nil {
		return nil, fmt.Errorf("read the TPM's key: %w", err)
	}
	want := attestationKey
	want.Unique = p.Unique
	if !bytes.Equal(tpm2.Marshal(want), q.Key) {
		return nil, errors.New("the TPM's key is not an attestation key: want a key that signs only quotes")
	}
	point, err := p.Unique.ECC()
	if err != nil {
		return nil, fmt.Errorf("read the TPM's key: %w", err)
	}
	return onP256(point.X.Buffer, point.Y.Buffer)
}

func onP256(x, y []byte) (*ecdsa.PublicKey, error) {
	if len(x) > 32 || len(y) > 32 {
		return nil, errors.New("the TPM's key is not on P-256")
	}
	raw := make([]byte, 65)
	raw[0] = 4
	copy(raw[33-len(x):], x)
	copy(raw[65-len(y):], y)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return nil, fmt.Errorf("the TPM's key: %w", err)
	}
	return key, nil
}

// signed follows the TPM's signature to its key.
func (q *tpmQuote) signed(key *ecdsa.PublicKey) error {
	s, err := tpm2.Unmarshal[tpm2.TPMTSignature](q.Signature)
	if err != nil {
		return fmt.Errorf("read the TPM's signature: %w", err)
	}
	ecc, err := s.Signature.ECDSA()
	if err != nil || s.SigAlg != tpm2.TPMAlgECDSA || ecc.Hash != tpm2.TPMAlgSHA256 || !bytes.Equal(tpm2.Marshal(*s), q.Signature) {
		return errors.New("the TPM's signature is not ECDSA with SHA-256 in canonical form")
	}
	sum := sha256.Sum256(q.Attest)
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(ecc.SignatureR.Buffer), new(big.Int).SetBytes(ecc.SignatureS.Buffer)) {
		return errors.New("the quote is not signed by the TPM's key")
	}
	return nil
}

// ErrUnknownTPM is wrapped where a quote is signed, and nobody who is trusted vouches for the
// TPM's key.
var ErrUnknownTPM = errors.New("no trusted key or certificate vouches for this TPM")

// TPMTrust says which TPMs are known. The zero value knows none: anybody can run one.
type TPMTrust struct {
	// Roots have certified attestation keys.
	Roots *x509.CertPool
	// Keys are fingerprints of attestation keys.
	Keys []string
}

// vouched says whether a key is one of a known TPM.
func (t TPMTrust) vouched(key *ecdsa.PublicKey, chain []byte, now time.Time) error {
	id, err := fingerprint(key)
	if err != nil {
		return err
	}
	if slices.Contains(t.Keys, id) {
		return nil
	}
	if t.Roots == nil {
		return fmt.Errorf("%w: its attestation key is %s", ErrUnknownTPM, id)
	}
	certificates, err := x509.ParseCertificates(chain)
	switch {
	case err != nil:
		return fmt.Errorf("read the certificate of the TPM's key: %w", err)
	case len(certificates) == 0:
		return fmt.Errorf("%w: its attestation key %s has no certificate", ErrUnknownTPM, id)
	case !key.Equal(certificates[0].PublicKey):
		return errors.New("the certificate is not of the TPM's attestation key, but of another key")
	}
	between := x509.NewCertPool()
	for _, c := range certificates[1:] {
		between.AddCert(c)
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: t.Roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fmt.Errorf("the certificate of the TPM's key: %w", err)
	}
	return nil
}

// fingerprint names a key as OpenSSH writes it, over its PKIX form.
func fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("name a key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// inspectTPM verifies a quote: its signature by the TPM's attestation key, who vouches for that,
// the registers, and the event log against them.
func inspectTPM(e *Evidence, _ *watched, now time.Time, roots Trust) (*Inspection, error) {
	var q tpmQuote
	if len(e.Aux) > 0 {
		return nil, errors.New("no signature covers the data next to the quote")
	}
	if err := cbor.Unmarshal(e.Quote, &q); err != nil {
		return nil, fmt.Errorf("read the quote: %w", err)
	}
	if b, err := canonical(q); err != nil || !bytes.Equal(b, e.Quote) {
		return nil, errors.New("read the quote: the quote is not in canonical form")
	}
	key, err := q.signer()
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	i := &Inspection{Data: q.Data, Facts: Facts{TEE: "tpm", NoTEE: true, Registers: Registers{}},
		Standing: fmt.Errorf("%w: TPMs have no TCB levels, and teescope does not read the revocation lists of the authorities that certify TPMs", ErrNonePublished)}
	for n, r := range q.Registers {
		if !untouched(r) {
			i.Facts.Registers[fmt.Sprintf("pcr%d", n)] = hex.EncodeToString(r)
		}
	}
	a, err := tpm2.Unmarshal[tpm2.TPMSAttest](q.Attest)
	if err != nil {
		return nil, err
	}
	i.Facts.TCB = fmt.Sprintf("TPM firmware %016x, %d resets, %d restarts", a.FirmwareVersion, a.ClockInfo.ResetCount, a.ClockInfo.RestartCount)
	if i.Facts.Key, err = fingerprint(key); err != nil {
		return nil, err
	}
	if i.Facts.EventLog, err = replayed(q.Log, q.Registers); err != nil {
		i.Signature = err
		return i, nil
	}
	if i.Signature = q.signed(key); i.Signature == nil {
		i.Signature = roots.TPM.vouched(key, q.Chain, now)
	}
	return i, nil
}

// untouched reports whether a register has one of the two values that it begins with.
func untouched(r []byte) bool {
	return zero(r) || !slices.ContainsFunc(r, func(b byte) bool { return b != 0xff })
}

// firmwares are the registers that the firmware alone extends. Later ones are extended by programs
// too, which write logs of their own.
const firmwares = 8

// replayed says what a log explains. Its error says that it is not the log of these registers.
func replayed(log []byte, have [][]byte) (string, error) {
	if len(log) == 0 {
		return "none", nil
	}
	parsed, err := tcg.ParseEventLog(log, tcg.ParseOpts{AllowPadding: true})
	if err != nil {
		return "", fmt.Errorf("read the event log: %w", err)
	}
	events := parsed.Events(register.HashSHA256)
	var mrs []register.MR
	var names []string
	for n, value := range have[:firmwares] {
		logged := slices.ContainsFunc(events, func(e tcg.Event) bool { return int(e.MRIndex()) == n })
		switch {
		case logged:
			mrs = append(mrs, register.PCR{Index: n, Digest: value, DigestAlg: crypto.SHA256})
			names = append(names, fmt.Sprintf("pcr%d", n))
		case !untouched(value):
			return "", fmt.Errorf("replay the event log: the log has no event of pcr%d, but something was measured into this register", n)
		}
	}
	if len(mrs) == 0 {
		return "", errors.New("the event log has no event of the firmware's registers")
	}
	if _, err := parsed.Verify(mrs); err != nil {
		return "", fmt.Errorf("replay the event log: %w", err)
	}
	return fmt.Sprintf("%d events, replayed to %s", len(events), strings.Join(names, ", ")), nil
}
