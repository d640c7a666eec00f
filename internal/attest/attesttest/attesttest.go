// Package attesttest has TEEs for tests: each signs quotes as its hardware does, by keys
// made for the test, whose root a test names as the one to trust. What verifies is the same
// as for hardware. It imports package testing and is for tests only.
// stand-in: attest-machines
package attesttest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	sevabi "github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	sevtest "github.com/google/go-sev-guest/testing"
	sevtrust "github.com/google/go-sev-guest/verify/trust"
	tdxabi "github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/pcs"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	tdxdata "github.com/google/go-tdx-guest/testing/testdata"
	"github.com/google/uuid"
	"github.com/veraison/go-cose"
	"google.golang.org/protobuf/proto"

	"github.com/teescope/teescope/internal/attest"
)

// Made is when the keys and lists of a machine were made; they hold for Lifetime.
var Made = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// Lifetime of what a machine's vendor signed.
const Lifetime = 30 * 24 * time.Hour

// Options say what is wrong with a machine.
type Options struct {
	Debug     bool // the host may look inside
	Revoked   bool // the vendor has revoked the key
	OutOfDate bool // the vendor knows of a newer TCB
	// SNPTCB is the TCB of an SEV-SNP machine, and of the certificate of its key; nil is MilanTCB.
	SNPTCB *attest.TCB
	// SNPReport and TDXBody change what the hardware is about to sign.
	SNPReport func(report []byte)
	TDXBody   func(*tdxpb.TDQuoteBody)
}

// MilanTCB is bootloader 4, tee 0, snp 24, microcode 219: what Microsoft's CCF wanted of a Milan in 2026.
const MilanTCB attest.TCB = 0xdb18000000000004

// MinTCB is a policy's minimum that a good machine has.
var MinTCB = map[string]attest.TCB{"milan": MilanTCB}

// Machine is a TEE.
type Machine struct {
	Trust      attest.Trust
	Collateral attest.Stored
	quote      func([attest.Size]byte) (*attest.Evidence, error)
}

// Quote is that of attest.Quoter.
func (m *Machine) Quote(_ context.Context, data [attest.Size]byte) (*attest.Evidence, error) {
	return m.quote(data)
}

// All are the machines by name.
var All = map[string]func(testing.TB, Options) *Machine{"sev-snp": SEV, "tdx": TDX, "nitro": Nitro}

// mustMake returns what fails a test that could not make a machine.
func mustMake[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ChipCertificate is a host's table of certificates with that of its chip.
func ChipCertificate(der []byte) []byte {
	t := sevabi.CertTable{Entries: []sevabi.CertTableEntry{{GUID: uuid.MustParse(sevabi.VcekGUID), RawCert: der}}}
	return t.Marshal()
}

// SampleTDX is the quote of a real machine, as go-tdx-guest publishes it, without the bytes
// that follow it in its file.
func SampleTDX() []byte {
	q, err := tdxabi.QuoteToProto(tdxdata.RawQuote)
	if err != nil {
		return nil
	}
	v4, _ := q.(*tdxpb.QuoteV4)
	return tdxdata.RawQuote[:len(tdxdata.RawQuote)-len(v4.GetExtraBytes())]
}

// SEV is a guest with SEV-SNP on a chip of the line Milan.
func SEV(t testing.TB, o Options) *Machine {
	t.Helper()
	tcb := MilanTCB
	if o.SNPTCB != nil {
		tcb = *o.SNPTCB
	}
	const chip = "Milan-B0"
	signer := mustMake((&sevtest.AmdSignerBuilder{Keys: sevtest.DefaultAmdKeys(), ProductName: chip, CSPID: "go-sev-guest",
		ArkCreationTime: Made, AskCreationTime: Made, AsvkCreationTime: Made, VcekCreationTime: Made, VlekCreationTime: Made,
		VcekCustom: sevtest.CertOverride{Extensions: sevtest.CustomExtensions(kds.DecomposeTCBVersion(kds.TCBVersion(tcb)), make([]byte, sevabi.ChipIDSize), "", chip)},
	}).TestOnlyCertChain())(t)
	root := sevtrust.AMDRootCertsProduct("Milan")
	root.ProductCerts = &sevtrust.ProductCerts{Ark: signer.Ark, Ask: signer.Ask, Asvk: signer.Asvk}
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: Made, NextUpdate: Made.Add(Lifetime), SignatureAlgorithm: x509.SHA384WithRSAPSS}
	if o.Revoked {
		list.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: signer.Ask.SerialNumber, RevocationTime: Made}}
	}
	crl := mustMake(x509.CreateRevocationList(rand.Reader, list, signer.Ark, signer.Keys.Ark))(t)
	certificates := ChipCertificate(signer.Vcek.Raw)
	return &Machine{
		Trust:      attest.Trust{SEV: map[string][]*sevtrust.AMDRootCerts{"Milan": {root}}},
		Collateral: attest.Stored{{URL: kds.CrlLinkByRole("Milan", "ASK"), Body: crl}},
		quote: func(data [attest.Size]byte) (*attest.Evidence, error) {
			// SEV-SNP firmware ABI, ATTESTATION_REPORT: GUEST_POLICY at 8, CURRENT_TCB at 0x38, MEASUREMENT at 0x90, REPORTED_TCB at
			// 0x180, COMMITTED_TCB at 0x1e0, LAUNCH_TCB at 0x1f0.
			whole := sevtest.TestRawReportV3(data, 0x00a00f10)
			r := whole[:sevabi.ReportSize]
			policy := sevabi.SnpPolicyToBytes(sevabi.SnpPolicy{SMT: true, Debug: o.Debug})
			for n := range 8 {
				r[8+n] = byte(policy >> (8 * n))
			}
			for n := range 48 {
				r[0x90+n] = byte(n + 1)
			}
			for _, at := range []int{0x38, 0x180, 0x1e0, 0x1f0} {
				binary.LittleEndian.PutUint64(r[at:], uint64(tcb))
			}
			if o.OutOfDate {
				r[0x180] = 1 // REPORTED_TCB is another one than that of the chip's certificate
			}
			if o.SNPReport != nil {
				o.SNPReport(r)
			}
			first, second, err := signer.Sign(sevabi.SignedComponent(r))
			if err == nil {
				err = sevabi.SetSignature(first, second, r)
			}
			return &attest.Evidence{Format: "sev_guest", Quote: r, Aux: certificates}, err
		},
	}
}

// authority is a certificate with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certify certifies a key; a nil authority signs itself.
func (a *authority) certify(t testing.TB, serial int64, curve elliptic.Curve, name pkix.Name, ca bool, more ...func(*x509.Certificate)) *authority {
	t.Helper()
	key := mustMake(ecdsa.GenerateKey(curve, rand.Reader))(t)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: name, BasicConstraintsValid: true, IsCA: ca, NotBefore: Made.Add(-time.Hour), NotAfter: Made.Add(Lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, SubjectKeyId: []byte{byte(serial)}}
	if ca {
		c.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	for _, f := range more {
		f(c)
	}
	by := a
	if by == nil {
		by = &authority{c, key}
	}
	der := mustMake(x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key))(t)
	return &authority{mustMake(x509.ParseCertificate(der))(t), key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign returns a signature on P-256 as two numbers of 32 bytes.
func (a *authority) sign(message []byte) ([]byte, error) {
	sum := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, a.key, sum[:])
	if err != nil {
		return nil, err
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), nil
}

// TDX is a TDX guest: the library's sample of a quote, signed anew.
func TDX(t testing.TB, o Options) *Machine {
	t.Helper()
	intel := func(name string) pkix.Name {
		return pkix.Name{CommonName: name, Organization: []string{"Intel Corporation"}}
	}
	const lists = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"
	var none *authority
	points := func(c *x509.Certificate) { c.CRLDistributionPoints = []string{lists} }
	root := none.certify(t, 1, elliptic.P256(), intel("Intel SGX Root CA"), true, points)
	platform := root.certify(t, 2, elliptic.P256(), intel("Intel SGX PCK Platform CA"), true)
	signing := root.certify(t, 3, elliptic.P256(), intel("Intel SGX TCB Signing"), false)

	sample := mustMake(tdxabi.QuoteToProto(tdxdata.RawQuote))(t).(*tdxpb.QuoteV4)
	sample.ExtraBytes = nil
	chain := sample.GetSignedData().GetCertificationData().GetQeReportCertificationData()
	block, _ := pem.Decode(chain.GetPckCertificateChainData().GetPckCertChain())
	old := mustMake(x509.ParseCertificate(block.Bytes))(t)
	leaf := platform.certify(t, 4, elliptic.P256(), intel("Intel SGX PCK Certificate"), false, points, func(c *x509.Certificate) {
		for _, x := range old.Extensions {
			if x.Id.Equal(asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}) { // SGX: PPID, TCB, PCEID, FMSPC
				c.ExtraExtensions = append(c.ExtraExtensions, x)
			}
		}
	})
	exts := mustMake(pcs.PckCertificateExtensions(leaf.cert))(t)

	status := "UpToDate"
	if o.OutOfDate {
		status = "OutOfDate"
	}
	zeros := make([]map[string]int, 16)
	for i := range zeros {
		zeros[i] = map[string]int{"svn": 0}
	}
	// A TDX module with version 3 is current, an older one is not.
	module := slices.Clone(zeros)
	module[0] = map[string]int{"svn": 3}
	level := func(module []map[string]int, status string) any {
		return map[string]any{"tcb": map[string]any{"sgxtcbcomponents": zeros, "pcesvn": 0, "tdxtcbcomponents": module}, "tcbDate": Made, "tcbStatus": status}
	}
	levels := []any{level(module, status), level(zeros, "OutOfDate")}
	answer := func(url, member, header string, from []byte, change map[string]any) attest.Fetched {
		var members map[string]map[string]any
		_ = json.Unmarshal(from, &members) // the signature beside it is no object
		m := members[member]
		m["issueDate"], m["nextUpdate"] = Made, Made.Add(Lifetime)
		for k, v := range change {
			m[k] = v
		}
		raw := mustMake(json.Marshal(m))(t)
		return attest.Fetched{URL: url, Header: map[string][]string{header: {escaped(signing, root)}},
			Body: fmt.Appendf(nil, `{%q:%s,"signature":%q}`, member, raw, hex.EncodeToString(mustMake(signing.sign(raw))(t)))}
	}
	revoked := func(by *authority, gone *authority) []byte {
		list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: Made, NextUpdate: Made.Add(Lifetime)}
		if o.Revoked && gone != nil {
			list.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: gone.cert.SerialNumber, RevocationTime: Made}}
		}
		return mustMake(x509.CreateRevocationList(rand.Reader, list, by.cert, by.key))(t)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root.cert)
	return &Machine{
		Trust: attest.Trust{TDX: pool},
		Collateral: attest.Stored{
			answer(pcs.TcbInfoURL(exts.FMSPC), "tcbInfo", "Tcb-Info-Issuer-Chain", tdxdata.TcbInfoBody, map[string]any{"fmspc": exts.FMSPC, "pceId": exts.PCEID, "tcbLevels": levels}),
			answer(pcs.QeIdentityURL(), "enclaveIdentity", "Sgx-Enclave-Identity-Issuer-Chain", tdxdata.QeIdentityBody, nil),
			{URL: pcs.PckCrlURL("platform"), Body: revoked(platform, leaf)},
			{URL: lists, Body: revoked(root, nil)},
		},
		quote: func(data [attest.Size]byte) (*attest.Evidence, error) {
			q, ok := proto.Clone(sample).(*tdxpb.QuoteV4)
			if !ok {
				return nil, fmt.Errorf("the sample is a %T", q)
			}
			body := q.GetTdQuoteBody()
			body.ReportData = data[:]
			body.TeeTcbSvn[1] = 0 // a module without an identity of its own
			body.TdAttributes[0] &^= 1
			body.TdAttributes[3] |= 1 << 4 // SEPT_VE_DISABLE
			if o.Debug {
				body.TdAttributes[0] |= 1
			}
			if o.TDXBody != nil {
				o.TDXBody(body)
			}
			return signTDX(t, q, leaf, append(joined(leaf, platform, root), 0))
		},
	}
}

// signTDX signs a quote with a new key of the quoting enclave, and that with the platform's.
func signTDX(t testing.TB, q *tdxpb.QuoteV4, leaf *authority, chain []byte) (*attest.Evidence, error) {
	key := &authority{key: mustMake(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	s := q.GetSignedData()
	s.EcdsaAttestationKey = append(key.key.X.FillBytes(make([]byte, 32)), key.key.Y.FillBytes(make([]byte, 32))...)
	message := append(mustMake(tdxabi.HeaderToAbiBytes(q.GetHeader()))(t), mustMake(tdxabi.TdQuoteBodyToAbiBytes(q.GetTdQuoteBody()))(t)...)
	s.Signature = mustMake(key.sign(message))(t)
	c := s.GetCertificationData()
	qe := c.GetQeReportCertificationData()
	sum := sha256.Sum256(append(append([]byte(nil), s.EcdsaAttestationKey...), qe.GetQeAuthData().GetData()...))
	qe.QeReport.ReportData = append(sum[:], make([]byte, 32)...)
	qe.QeReportSignature = mustMake(leaf.sign(mustMake(tdxabi.EnclaveReportToAbiBytes(qe.GetQeReport()))(t)))(t)
	p := qe.GetPckCertificateChainData()
	grown := uint32(len(chain)) - p.Size
	p.PckCertChain, p.Size = chain, uint32(len(chain))
	c.Size += grown
	q.SignedDataSize += grown
	raw, err := tdxabi.QuoteToAbiBytes(q)
	return &attest.Evidence{Format: "tdx_guest", Quote: raw}, err
}

func joined(chain ...*authority) []byte {
	var b []byte
	for _, a := range chain {
		b = append(b, a.pem()...)
	}
	return b
}

func escaped(chain ...*authority) string { return url.QueryEscape(string(joined(chain...))) }

// What the GPUs of NVIDIA report.
const (
	GH100        = "GH100 A01 GSP"
	NVIDIADriver = "590.12"
	NVIDIAVBIOS  = "96.00.A5.00.01"
)

// NVIDIA are devices, of which those with GSP are GPUs. Each byte of a measurement is its index as manifests count them, from 0.
func NVIDIA(t testing.TB, devices ...string) *Machine {
	t.Helper()
	var none *authority
	root := none.certify(t, 1, elliptic.P384(), pkix.Name{CommonName: "Device Identity CA"}, true)
	model := root.certify(t, 2, elliptic.P384(), pkix.Name{CommonName: "GH100 Identity"}, true)
	print := sha256.Sum256(root.cert.Raw)
	var keys []*authority
	var chains []byte
	for n, name := range devices {
		serial := int64(10 * (n + 1))
		device := model.certify(t, serial, elliptic.P384(), pkix.Name{CommonName: name + " BROM", SerialNumber: fmt.Sprintf("%X", serial)}, true)
		key := device.certify(t, serial+1, elliptic.P384(), pkix.Name{CommonName: name + " FMC LF"}, false)
		keys = append(keys, key)
		for _, a := range []*authority{key, device, model, root} {
			chains = append(chains, a.cert.Raw...)
		}
	}
	return &Machine{
		Trust: attest.Trust{NVIDIA: &print},
		quote: func(data [attest.Size]byte) (*attest.Evidence, error) {
			e := &attest.Evidence{Format: "nvidia_gpu", Aux: chains}
			for n, key := range keys {
				report := NVIDIAReport(sha256.Sum256(append([]byte("teescope nvidia report 1\x00"), data[:]...)), byte(n))
				sum := sha512.Sum384(report)
				r, s, err := ecdsa.Sign(rand.Reader, key.key, sum[:])
				if err != nil {
					return nil, err
				}
				e.Quote = slices.Concat(e.Quote, report, r.FillBytes(make([]byte, 48)), s.FillBytes(make([]byte, 48)))
			}
			return e, nil
		},
	}
}

// NVIDIAReport is what a GPU signs (DMTF DSP0274 1.1): a request for all measurements with a nonce, and the answer.
func NVIDIAReport(nonce [32]byte, own byte) []byte {
	const measurements = 40
	little := func(size, v int) (b []byte) {
		for n := range size {
			b = append(b, byte(v>>(8*n)))
		}
		return b
	}
	var record, fields []byte
	for n := range measurements {
		record = append(record, byte(n+1), 1, 51, 0, 1, 48, 0)
		record = append(record, bytes.Repeat([]byte{byte(n)}, 48)...)
	}
	for kind, v := range map[int]string{3: NVIDIADriver + "\x00", 6: "\x00\xa5\x00\x96\x01\x00\x00\x00", 11: "\x55", 34: "\x01\x00", 36: "\x01\x00"} {
		fields = slices.Concat(fields, little(2, kind), little(2, len(v)), []byte(v))
	}
	return slices.Concat([]byte{0x11, 0xe0, 1, 0xff}, nonce[:], []byte{0}, []byte{0x11, 0x60, 0, 0, measurements}, little(3, len(record)), record,
		bytes.Repeat([]byte{own}, 32), little(2, len(fields)), fields)
}

// NVIDIAManifest is the manifest of a version of driver or VBIOS, with some measurements of those GPUs by their indexes in it.
func NVIDIAManifest(version string, indexes ...int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<SoftwareIdentity><Meta colloquialVersion=%q product=\"GH100\"/><Payload>\n", version)
	for _, n := range indexes {
		fmt.Fprintf(&b, "<Resource type=\"Measurement\" index=\"%d\" active=\"True\" alternatives=\"2\" Hash0=\"%x\" Hash1=\"%x\"/>\n", n, bytes.Repeat([]byte{0xee}, 48), bytes.Repeat([]byte{byte(n)}, 48))
	}
	b.WriteString("</Payload></SoftwareIdentity>\n")
	return b.Bytes()
}

// Nitro is an AWS Nitro enclave.
func Nitro(t testing.TB, o Options) *Machine {
	t.Helper()
	name := func(n string) pkix.Name { return pkix.Name{CommonName: n} }
	var none *authority
	root := none.certify(t, 1, elliptic.P384(), name("aws.nitro-enclaves"), true)
	region := root.certify(t, 2, elliptic.P384(), name("region"), true)
	leaf := region.certify(t, 3, elliptic.P384(), name("enclave"), false)
	print := sha256.Sum256(root.cert.Raw)
	return &Machine{
		Trust: attest.Trust{Nitro: &print},
		quote: func(data [attest.Size]byte) (*attest.Evidence, error) {
			boot := make([]byte, 48)
			if !o.Debug {
				boot[0] = 7
			}
			payload, err := cbor.Marshal(map[string]any{"module_id": "i-0-enc0", "digest": "SHA384", "timestamp": Made.Add(time.Minute).UnixMilli(),
				"pcrs": map[uint64][]byte{0: boot, 4: append([]byte{4}, boot[1:]...)}, "certificate": leaf.cert.Raw, "cabundle": [][]byte{root.cert.Raw, region.cert.Raw},
				"public_key": nil, "user_data": data[:], "nonce": nil})
			if err != nil {
				return nil, err
			}
			signer, err := cose.NewSigner(cose.AlgorithmES384, leaf.key)
			if err != nil {
				return nil, err
			}
			m := cose.UntaggedSign1Message{Headers: cose.Headers{Protected: cose.ProtectedHeader{cose.HeaderLabelAlgorithm: cose.AlgorithmES384}}, Payload: payload}
			if err := m.Sign(rand.Reader, nil, signer); err != nil {
				return nil, err
			}
			b, err := m.MarshalCBOR()
			return &attest.Evidence{Format: "nitro", Quote: b}, err
		},
	}
}
