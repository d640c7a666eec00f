package attest

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	neturl "net/url"
	"strings"
	"sync"
	"time"

	sevabi "github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	sevpb "github.com/google/go-sev-guest/proto/sevsnp"
	"github.com/google/go-sev-guest/validate"
	sev "github.com/google/go-sev-guest/verify"
	sevtrust "github.com/google/go-sev-guest/verify/trust"
	tdxabi "github.com/google/go-tdx-guest/abi"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	tdx "github.com/google/go-tdx-guest/verify"
	"github.com/google/logger"
)

// The kernel's names of its providers, which say the format of the evidence.
const (
	tdxFormat = "tdx_guest"
	sevFormat = "sev_guest"
)

// quiet switches off, for the process, what the libraries log for each verification to
// standard error, which would be measured with it.
var quiet = sync.OnceFunc(func() { logger.Init("attest", false, false, io.Discard) })

// inspectTDX verifies a TDX quote of version 4: its signature, then again with the TCB
// levels and revocation lists of its platform.
func inspectTDX(e *Evidence, c *watched, now time.Time, roots Trust) (*Inspection, error) {
	q, err := tdxabi.QuoteToProto(e.Quote)
	if err != nil {
		return nil, err
	}
	v4, ok := q.(*tdxpb.QuoteV4)
	if !ok {
		return nil, fmt.Errorf("the quote is a %T, want version 4", q)
	}
	if n := len(v4.GetExtraBytes()); n > 0 {
		return nil, fmt.Errorf("no signature covers the %d bytes after the quote", n)
	}
	if err := oneSpelled(pckChainOf(v4)); err != nil {
		return nil, err
	}
	body := v4.GetTdQuoteBody()
	state := &TDX{Attributes: Bits(littleEndian(body.GetTdAttributes())), XFAM: Bits(littleEndian(body.GetXfam()))}
	i := &Inspection{Data: body.GetReportData(), Facts: Facts{
		TEE: "tdx", Measurement: hex.EncodeToString(body.GetMrTd()), Registers: Registers{}, TDX: state,
		Debug: new(state.Attributes&TDUnderDebug != 0), TCB: "module and firmware " + hex.EncodeToString(body.GetTeeTcbSvn()),
	}}
	i.Facts.Registers.set(map[string][]byte{"mrseam": body.GetMrSeam(), "mrsignerseam": body.GetMrSignerSeam(), "mrconfigid": body.GetMrConfigId(),
		"mrowner": body.GetMrOwner(), "mrownerconfig": body.GetMrOwnerConfig()})
	for n, r := range body.GetRtmrs() {
		i.Facts.Registers[fmt.Sprintf("rtmr%d", n)] = hex.EncodeToString(r)
	}
	o := tdx.DefaultOptions()
	o.Getter, o.Now, o.TrustedRoots = chains{c, v4}, now, roots.TDX
	if i.Signature = tdx.TdxQuote(q, o); i.Signature == nil {
		o.GetCollateral, o.CheckRevocations = true, true
		i.Standing = c.collateralError(tdx.TdxQuote(q, o))
	}
	return i, nil
}

// The headers in which Intel's service sends who signed a body.
const (
	tcbChain      = "Tcb-Info-Issuer-Chain"
	identityChain = "Sgx-Enclave-Identity-Issuer-Chain"
	pckChain      = "Sgx-Pck-Crl-Issuer-Chain"
)

// chains is a collateral with the quote's own chain in the header of the list that is signed
// by it: go-tdx-guest needs one there, and does not look at who signed it.
type chains struct {
	*watched
	quote *tdxpb.QuoteV4
}

// Get fetches.
func (c chains) Get(url string) (map[string][]string, []byte, error) {
	header, body, err := c.watched.Get(url)
	if err != nil {
		return nil, nil, err
	}
	if strings.Contains(url, "/pckcrl?") {
		_, rest := pem.Decode(pckChainOf(c.quote))
		own, err := issuers([]string{neturl.QueryEscape(string(rest))})
		if err != nil {
			return nil, nil, err
		}
		header = map[string][]string{pckChain: own}
	}
	return header, body, nil
}

// pckChainOf is the chain of the platform's certificate that a quote brings along, in PEM.
func pckChainOf(q *tdxpb.QuoteV4) []byte {
	return q.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetPckCertificateChainData().GetPckCertChain()
}

// oneSpelled refuses a chain in PEM whose text has bits that mean nothing: the last character of
// base64 can have some, which nothing signs.
func oneSpelled(chain []byte) error {
	text := strings.Join(strings.Fields(string(chain)), "")
	for rest := chain; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil
		}
		if !strings.Contains(text, base64.StdEncoding.EncodeToString(b.Bytes)) {
			return errors.New("a certificate of the quote is not in canonical form")
		}
	}
}

// issuers spells a chain of certificates in a header in the one way.
func issuers(values []string) ([]string, error) {
	if len(values) != 1 {
		return nil, fmt.Errorf("%d chains of certificates, want 1", len(values))
	}
	text, err := neturl.QueryUnescape(values[0])
	if err != nil {
		return nil, fmt.Errorf("read the chain of certificates: %w", err)
	}
	var out []byte
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: b.Bytes})...)
	}
	return []string{neturl.QueryEscape(string(out))}, nil
}

// oneSpelling spells a signed answer in the one way. In Intel's JSON the signature is over one member, and the rest is
// free. A list in DER (X.690) has a length, and what follows it is not signed. Other bodies are signed as a whole.
func oneSpelling(body []byte) []byte {
	var der asn1.RawValue
	if _, err := asn1.Unmarshal(body, &der); err == nil && der.Class == asn1.ClassUniversal && der.Tag == asn1.TagSequence {
		return der.FullBytes
	}
	var members map[string]json.RawMessage
	var signed struct {
		Signature string `json:"signature"`
	}
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(body, &signed) != nil {
		return body
	}
	for _, name := range []string{"tcbInfo", "enclaveIdentity"} {
		if content, ok := members[name]; ok {
			return fmt.Appendf(nil, `{%q:%s,"signature":%q}`, name, content, strings.ToLower(signed.Signature))
		}
	}
	return body
}

// inspectSEV verifies an SEV-SNP report with the certificate of the chip or cloud that came
// with it or, where the host gave none, with that of AMD's service.
func inspectSEV(e *Evidence, c *watched, now time.Time, roots Trust) (*Inspection, error) {
	a, err := sevabi.ReportCertsToProto(append(append([]byte(nil), e.Quote...), e.Aux...))
	if err != nil {
		return nil, err
	}
	r := a.GetReport()
	policy, err := sevabi.ParseSnpPolicy(r.GetPolicy())
	if err != nil {
		return nil, err
	}
	i := &Inspection{Data: r.GetReportData(), Facts: Facts{
		TEE: "sev-snp", Measurement: hex.EncodeToString(r.GetMeasurement()), Debug: new(policy.Debug), Registers: Registers{},
	}}
	i.Facts.Registers.set(map[string][]byte{"host_data": r.GetHostData(), "id_key_digest": r.GetIdKeyDigest(), "author_key_digest": r.GetAuthorKeyDigest(),
		"family_id": r.GetFamilyId(), "image_id": r.GetImageId(), "chip_id": r.GetChipId()})
	missing := chipCertificate(a, c)
	state := &SNP{Product: productOf(a), Reported: TCB(r.GetReportedTcb()), Launch: TCB(r.GetLaunchTcb()), VMPL: r.GetVmpl(), Migratable: policy.MigrateMA,
		Platform: readPlatform(r.GetPlatformInfo())}
	i.Facts.SNP, i.Facts.TCB = state, cmp.Or(state.Reported.Parts(state.Product), "reported "+state.Reported.String())
	if missing != nil {
		i.Signature = c.collateralError(missing)
		return i, nil
	}
	o := sev.DefaultOptions()
	o.Now, o.DisableCertFetching, o.TrustedRoots = now, true, fresh(roots.SEV)
	if i.Signature = sev.SnpAttestation(a, o); i.Signature == nil {
		i.Standing = c.collateralError(standingSEV(a, o, c, policy, now))
	}
	return i, nil
}

// fresh are roots without the revocation list that the library keeps in them.
func fresh(roots map[string][]*sevtrust.AMDRootCerts) map[string][]*sevtrust.AMDRootCerts {
	out := map[string][]*sevtrust.AMDRootCerts{}
	for line, of := range roots {
		for _, r := range of {
			c := sevtrust.AMDRootCertsProduct(line)
			c.ProductCerts = r.ProductCerts
			out[line] = append(out[line], c)
		}
	}
	return out
}

// signedPart returns evidence without what nobody would see change: bytes after a TDX quote,
// and certificates of SEV-SNP other than that of the chip's or the cloud's key.
func signedPart(e *Evidence) (*Evidence, error) {
	switch e.Format {
	case tdxFormat:
		q, err := tdxabi.QuoteToProto(e.Quote)
		if v4, ok := q.(*tdxpb.QuoteV4); ok {
			return &Evidence{Format: e.Format, Quote: e.Quote[:len(e.Quote)-len(v4.GetExtraBytes())]}, nil
		}
		return nil, fmt.Errorf("read the quote: %w", err)
	case sevFormat:
		var all, chip sevabi.CertTable
		if err := all.Unmarshal(e.Aux); err != nil {
			return nil, fmt.Errorf("read the certificates that the host gave: %w", err)
		}
		for _, c := range all.Entries {
			if id := c.GUID.String(); id == sevabi.VcekGUID || id == sevabi.VlekGUID {
				chip.Entries = append(chip.Entries, c)
			}
		}
		return &Evidence{Format: e.Format, Quote: e.Quote, Aux: chip.Marshal()}, nil
	}
	return e, nil
}

// chipCertificate adds the certificate of the chip's key if the host gave none.
func chipCertificate(a *sevpb.Attestation, c *watched) error {
	r, chain := a.GetReport(), a.GetCertificateChain()
	info, err := sevabi.ParseSignerInfo(r.GetSignerInfo())
	if err != nil || info.SigningKey != sevabi.VcekReportSigner || len(chain.GetVcekCert()) > 0 {
		return err
	}
	line := "Milan" // the only one with reports of version 2, which do not say it
	if fms := r.GetCpuid1EaxFms(); fms != 0 {
		line = kds.ProductLineFromFms(fms)
	}
	_, chain.VcekCert, err = c.Get(kds.VCEKCertURL(line, r.GetChipId(), kds.TCBVersion(r.GetReportedTcb())))
	return err
}

// certifiedLine is the product line in the certificate of a report's key: "Milan" of "Milan-B0".
func certifiedLine(a *sevpb.Attestation) string {
	x, err := certificateOf(a)
	if err != nil {
		return ""
	}
	return kds.ProductLineOfProductName(x.ProductName)
}

// certificateOf returns what AMD's extensions in the certificate of a report's key say.
func certificateOf(a *sevpb.Attestation) (*kds.Extensions, error) {
	info, err := sevabi.ParseSignerInfo(a.GetReport().GetSignerInfo())
	if err != nil {
		return nil, err
	}
	der := a.GetCertificateChain().GetVcekCert()
	if info.SigningKey == sevabi.VlekReportSigner {
		der = a.GetCertificateChain().GetVlekCert()
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return kds.CertificateExtensions(c, info.SigningKey)
}

// standingSEV says whether the certificate is for the firmware that runs, the firmware is no
// provisional one, and nothing is revoked.
func standingSEV(a *sevpb.Attestation, o *sev.Options, c *watched, policy sevabi.SnpPolicy, now time.Time) error {
	// The caller judges the guest's policy; nothing is restricted here.
	all := sevabi.SnpPolicy{SMT: true, MigrateMA: true, Debug: true, CXLAllowed: true, ABIMajor: policy.ABIMajor, ABIMinor: policy.ABIMinor}
	if err := validate.SnpAttestation(a, &validate.Options{GuestPolicy: all}); err != nil {
		return err
	}
	if err := equalTCBs(a); err != nil {
		return err
	}
	o.CheckRevocations, o.Getter = true, lists{c, now}
	return sev.SnpAttestation(a, o)
}

// equalTCBs compares the TCBs of a report and of its key's certificate byte by byte. The library takes a TCB with a part
// above 127 for one of zeros: a key that is certified for TCB 0 could sign a report of any.
func equalTCBs(a *sevpb.Attestation) error {
	r := a.GetReport()
	certified, err := certificateOf(a)
	if err != nil {
		return fmt.Errorf("read the TCB of the key's certificate: %w", err)
	}
	if is := TCB(certified.TCBVersion); is != TCB(r.GetReportedTcb()) {
		return fmt.Errorf("the reported TCB %s is not that of the key's certificate, %s", TCB(r.GetReportedTcb()), is)
	}
	if r.GetCommittedTcb() != r.GetCurrentTcb() {
		return fmt.Errorf("the firmware is provisional: the current TCB is %s, but the committed TCB is %s", TCB(r.GetCurrentTcb()), TCB(r.GetCommittedTcb()))
	}
	return nil
}

// lists is a collateral in the form of go-sev-guest's getters, which does not itself look at
// how old a revocation list is.
type lists struct {
	*watched
	now time.Time
}

// Get fetches without the header.
func (l lists) Get(url string) ([]byte, error) {
	_, body, err := l.watched.Get(url)
	if err != nil || !strings.HasSuffix(url, "/crl") {
		return body, err
	}
	list, err := x509.ParseRevocationList(body)
	if err != nil {
		return nil, fmt.Errorf("read the revocation list: %w", err)
	}
	if l.now.Before(list.ThisUpdate) || l.now.After(list.NextUpdate) {
		return nil, fmt.Errorf("the revocation list is valid only from %s to %s", list.ThisUpdate.Format(time.RFC3339), list.NextUpdate.Format(time.RFC3339))
	}
	return body, nil
}
