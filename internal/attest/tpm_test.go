package attest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-tpm/tpm2"

	"github.com/teescope/teescope/internal/attest/swtpm"
)

func openTPM(t *testing.T, s TPMSettings) *TPM {
	t.Helper()
	device, err := OpenTPM(s)
	if err != nil {
		t.Fatal(err)
	}
	return device
}

// ca is a certificate that can certify, and its key.
func ca(t *testing.T, name string, now time.Time) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c, key
}

func pool(all ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range all {
		p.AddCert(c)
	}
	return p
}

// event is an entry of a log.
type event struct {
	register uint32
	data     string
}

// eventLog is a log in the crypto-agile form of the PC Client Platform Firmware Profile, section
// 10.4.5, with SHA-256 alone.
func eventLog(events []event) []byte {
	le := binary.LittleEndian
	spec := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 0, 2) // class, minor, major, errata, uintn
	spec = le.AppendUint32(spec, 1)
	spec = le.AppendUint16(le.AppendUint16(spec, uint16(tpm2.TPMAlgSHA256)), sha256.Size)
	spec = append(spec, 0)
	log := le.AppendUint32(le.AppendUint32(nil, 0), 3) // EV_NO_ACTION
	log = append(log, make([]byte, 20)...)
	log = append(le.AppendUint32(log, uint32(len(spec))), spec...)
	for _, e := range events {
		sum := sha256.Sum256([]byte(e.data))
		log = le.AppendUint32(le.AppendUint32(log, e.register), 0x80000007) // EV_EFI_ACTION
		log = le.AppendUint16(le.AppendUint32(log, 1), uint16(tpm2.TPMAlgSHA256))
		log = append(log, sum[:]...)
		log = append(le.AppendUint32(log, uint32(len(e.data))), e.data...)
	}
	return log
}

// extend does what firmware does with events.
func extend(t *testing.T, device *TPM, events []event) {
	t.Helper()
	for _, e := range events {
		sum := sha256.Sum256([]byte(e.data))
		if _, err := (tpm2.PCRExtend{
			PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(e.register), Auth: tpm2.PasswordAuth(nil)},
			Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: sum[:]}}},
		}).Execute(device.device); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTPM goes the whole way with a TPM in software: its maker certifies the endorsement key, a CA
// the attestation key of that TPM and no other, firmware measures, and a quote is verified, and
// nothing else is.
// stand-in: swtpm
func TestTPM(t *testing.T) {
	socket, maker := swtpm.Start(t)
	now := time.Now()
	device := openTPM(t, TPMSettings{Path: socket})
	id, err := device.Identity()
	if err != nil {
		t.Fatal(err)
	}
	roots, between := pool(maker[0]), pool(maker[1])
	own, key := ca(t, "site", now)
	sealed, err := Endorse(id, roots, between, own, key, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := device.Activate(sealed)
	if err != nil {
		t.Fatal(err)
	}
	boot := []event{{0, "firmware"}, {4, "Calling EFI Application from Boot Option"}, {4, "loader"}, {7, "secure boot is on"}, {11, "a kernel"}}
	extend(t, device, boot)
	log := eventLog(boot)
	extend(t, device, []event{{11, "a program, later"}})
	device = openTPM(t, TPMSettings{Path: socket, Log: log, Certificates: leaf})
	data := [Size]byte{1, 2, 3}
	e, err := device.Quote(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	trust := Trust{TPM: TPMTrust{Roots: pool(own)}}
	i, err := Inspect(t.Context(), e, nil, now, trust)
	if err != nil || i.Signature != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	want := sha256.Sum256([]byte("firmware"))
	want = sha256.Sum256(append(make([]byte, 32), want[:]...))
	if !bytes.Equal(i.Data, data[:]) || !i.Facts.NoTEE || i.Facts.Debug != nil || i.Facts.Registers["pcr0"] != hex.EncodeToString(want[:]) || i.Facts.EventLog != "5 events, replayed to pcr0, pcr4, pcr7" || i.Facts.Registers["pcr17"] != "" || !errors.Is(i.Standing, ErrNonePublished) {
		t.Errorf("it says %x and %+v, %v", i.Data, i.Facts, i.Standing)
	}
	if err := Verify(t.Context(), e, [Size]byte{9}, nil, now); err == nil {
		t.Error("verified of other data, by nobody known")
	}

	t.Run("who is trusted", func(t *testing.T) {
		stranger, _ := ca(t, "site", now)
		for name, tc := range map[string]struct {
			trust TPMTrust
			at    time.Time
			want  string
		}{
			"nobody":        {TPMTrust{}, now, ErrUnknownTPM.Error()},
			"its key":       {TPMTrust{Keys: []string{i.Facts.Key}}, now, ""},
			"another key":   {TPMTrust{Keys: []string{"SHA256:x"}}, now, ErrUnknownTPM.Error()},
			"another CA":    {TPMTrust{Roots: pool(stranger)}, now, "certificate"},
			"the maker":     {TPMTrust{Roots: roots}, now, "certificate"},
			"a day later":   {TPMTrust{Roots: pool(own)}, now.AddDate(0, 0, 1), "expired"},
			"before it all": {TPMTrust{Roots: pool(own)}, now.AddDate(0, 0, -1), "not yet valid"},
		} {
			i, err := Inspect(t.Context(), e, nil, tc.at, Trust{TPM: tc.trust})
			if err != nil {
				t.Fatal(err)
			}
			if (i.Signature == nil) != (tc.want == "") || i.Signature != nil && !strings.Contains(i.Signature.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, i.Signature, tc.want)
			}
		}
	})

	t.Run("any byte", func(t *testing.T) {
		for at := range e.Quote {
			for _, flip := range []byte{1, 0x80} {
				changed := slices.Clone(e.Quote)
				changed[at] ^= flip
				if i, err := Inspect(t.Context(), &Evidence{Format: e.Format, Quote: changed}, nil, now, trust); err == nil && i.Signature == nil {
					t.Errorf("accepted with another byte %d of %d", at, len(e.Quote))
				}
			}
		}
		for _, bad := range []*Evidence{{Format: e.Format, Quote: append(slices.Clone(e.Quote), 0)}, {Format: e.Format, Quote: e.Quote[:len(e.Quote)-1]}, {Format: e.Format, Quote: e.Quote, Aux: []byte{1}}, {Format: e.Format}} {
			if i, err := Inspect(t.Context(), bad, nil, now, trust); err == nil && i.Signature == nil {
				t.Errorf("accepted %d and %d bytes", len(bad.Quote), len(bad.Aux))
			}
		}
	})

	t.Run("parts", func(t *testing.T) {
		var short *Evidence // the TPM signs what it is given beside its registers
		for name, log := range map[string][]byte{"no event of a register": eventLog(boot[1:]), "an event less": eventLog(boot[:2]), "another order": eventLog([]event{boot[0], boot[2], boot[1], boot[3]}), "none": eventLog(nil), "no log": []byte("log")} {
			other := openTPM(t, TPMSettings{Path: socket, Log: log, Certificates: leaf})
			if short, err = other.Quote(t.Context(), data); err != nil {
				t.Fatal(err)
			}
			if i, err := Inspect(t.Context(), short, nil, now, trust); err != nil || i.Signature == nil || !strings.Contains(i.Signature.Error(), "event log") {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
		}
		another := openTPM(t, TPMSettings{Path: socket, Log: log, Certificates: own.Raw})
		if foreign, err := another.Quote(t.Context(), data); err != nil {
			t.Fatal(err)
		} else if i, err := Inspect(t.Context(), foreign, nil, now, trust); err != nil || i.Signature == nil || !strings.Contains(i.Signature.Error(), "of another key") {
			t.Errorf("a good certificate of another key: %+v, %v", i, err)
		}
		for name, tc := range map[string]struct {
			change func(*tpmQuote)
			want   string
		}{
			"data":        {func(q *tpmQuote) { q.Data = []byte("other") }, "made for other data"},
			"a register":  {func(q *tpmQuote) { q.Registers[0] = make([]byte, 32) }, "not those that the TPM signed"},
			"registers":   {func(q *tpmQuote) { q.Registers = q.Registers[:8] }, "8 registers"},
			"the log":     {func(q *tpmQuote) { q.Log = eventLog(boot[:1]) }, "another event log"},
			"no log":      {func(q *tpmQuote) { q.Log = nil }, "another event log"},
			"certificate": {func(q *tpmQuote) { q.Chain = own.Raw }, "another certificate"},
			"the key": {func(q *tpmQuote) {
				p, err := tpm2.Unmarshal[tpm2.TPMTPublic](q.Key)
				if err != nil {
					t.Fatal(err)
				}
				p.ObjectAttributes.Restricted = false
				q.Key = tpm2.Marshal(*p)
			}, "signs only quotes"},
			"the signature": {func(q *tpmQuote) {
				var other tpmQuote
				if err := cbor.Unmarshal(short.Quote, &other); err != nil {
					t.Fatal(err)
				}
				q.Signature = other.Signature
			}, "not signed by the TPM's key"},
		} {
			var q tpmQuote
			if err := cbor.Unmarshal(e.Quote, &q); err != nil {
				t.Fatal(err)
			}
			tc.change(&q)
			b, err := canonical(q)
			if err != nil {
				t.Fatal(err)
			}
			i, err := Inspect(t.Context(), &Evidence{Format: e.Format, Quote: b}, nil, now, trust)
			if err == nil {
				err = i.Signature
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
		}
	})

	t.Run("endorsement", func(t *testing.T) {
		stranger, _ := ca(t, "maker", now)
		for name, tc := range map[string]struct {
			change func(*TPMIdentity)
			roots  *x509.CertPool
			at     time.Time
			want   string
		}{
			"another maker":    {func(*TPMIdentity) {}, pool(stranger), now, "endorsement key"},
			"not yet valid":    {func(*TPMIdentity) {}, roots, now.AddDate(-10, 0, 0), "not yet valid"},
			"a byte":           {func(id *TPMIdentity) { id.Endorsement[len(id.Endorsement)-1] ^= 1 }, roots, now, "endorsement key"},
			"no certificate":   {func(id *TPMIdentity) { id.Endorsement = nil }, roots, now, "endorsement key"},
			"a certificate":    {func(id *TPMIdentity) { id.Endorsement = own.Raw }, pool(own), now, "want RSA"},
			"another sort key": {func(id *TPMIdentity) { id.Key = tpm2.Marshal(tpm2.ECCSRKTemplate) }, roots, now, "signs only quotes"},
			"no key":           {func(id *TPMIdentity) { id.Key = nil }, roots, now, "read the TPM's key"},
		} {
			changed := TPMIdentity{Endorsement: slices.Clone(id.Endorsement), Key: slices.Clone(id.Key)}
			tc.change(&changed)
			if _, err := Endorse(&changed, tc.roots, between, own, key, tc.at, time.Hour); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
		}
		// Another TPM cannot open what was sealed to this one, and no TPM what was changed, or
		// what certifies a key that is not in it.
		elsewhere, _ := swtpm.Start(t)
		if _, err := openTPM(t, TPMSettings{Path: elsewhere}).Activate(sealed); err == nil {
			t.Error("another TPM opens the certificate")
		}
		foreign, err := openTPM(t, TPMSettings{Path: elsewhere}).Identity()
		if err != nil {
			t.Fatal(err)
		}
		mixed, err := Endorse(&TPMIdentity{Endorsement: id.Endorsement, Key: foreign.Key}, roots, between, own, key, now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := device.Activate(mixed); err == nil {
			t.Error("a certificate of another TPM's key is opened")
		}
		for name, change := range map[string]func(*SealedCertificate){
			"credential":  func(s *SealedCertificate) { s.Credential[9] ^= 1 },
			"secret":      func(s *SealedCertificate) { s.Secret[9] ^= 1 },
			"certificate": func(s *SealedCertificate) { s.Certificate[9] ^= 1 },
		} {
			changed := SealedCertificate{slices.Clone(sealed.Credential), slices.Clone(sealed.Secret), slices.Clone(sealed.Certificate)}
			change(&changed)
			if _, err := device.Activate(&changed); err == nil {
				t.Errorf("opened although its %s was changed", name)
			}
		}
	})
}

// TestNoTPM: what is no TPM is an error with what is needed.
func TestNoTPM(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenTPM(TPMSettings{Path: filepath.Join(dir, "none")}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "needs a TPM 2.0") {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTPM(TPMSettings{Path: file}); err == nil {
		t.Error("a file is a TPM")
	}
}

// FuzzTPM: whatever comes as a quote or a log, nothing panics, and nothing is verified.
func FuzzTPM(f *testing.F) {
	q := tpmQuote{Data: make([]byte, Size), Attest: []byte("\xffTCG\x80\x18"), Key: tpm2.Marshal(attestationKey), Registers: make([][]byte, registers), Log: eventLog([]event{{0, "x"}})}
	for n := range q.Registers {
		q.Registers[n] = make([]byte, 32)
	}
	b, err := canonical(q)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, q.Log)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, quote, log []byte) {
		if i, err := Inspect(t.Context(), &Evidence{Format: tpmFormat, Quote: quote}, nil, time.Unix(1e9, 0), Trust{}); err == nil && i.Signature == nil {
			t.Errorf("verified %x", quote)
		}
		_, _ = unbroken(func() (*Inspection, error) { _, err := replayed(log, q.Registers); return nil, err })
	})
}
