package attest

import (
	"fmt"
	"io"
	"time"

	sevabi "github.com/google/go-sev-guest/abi"
	sev "github.com/google/go-sev-guest/verify"
	tdxabi "github.com/google/go-tdx-guest/abi"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	tdx "github.com/google/go-tdx-guest/verify"
	"github.com/google/go-tdx-guest/verify/trust"
	"github.com/google/logger"
)

// The kernel's names of its providers, which say the format of the evidence.
const (
	tdxFormat = "tdx_guest"
	sevFormat = "sev_guest"
)

// Vendors are the services of Intel (PCS) and AMD (KDS) on the Internet. The libraries
// that ask them log a warning for each verification to standard error, which would be
// measured with it; that is switched off for the process.
func Vendors() Collateral {
	logger.Init("attest", false, false, io.Discard)
	return trust.DefaultHTTPSGetter()
}

// verifyTDX verifies a TDX quote of version 4 with the TCB levels and revocation
// lists of its platform, and returns REPORTDATA.
func verifyTDX(e *Evidence, c Collateral, now time.Time) ([]byte, error) {
	o := tdx.DefaultOptions()
	o.GetCollateral, o.CheckRevocations, o.Getter, o.Now = true, true, c, now
	if err := tdx.RawTdxQuote(e.Quote, o); err != nil {
		return nil, err
	}
	q, err := tdxabi.QuoteToProto(e.Quote)
	if err != nil {
		return nil, err
	}
	v4, ok := q.(*tdxpb.QuoteV4)
	if !ok {
		return nil, fmt.Errorf("the quote is a %T, want version 4", q)
	}
	return v4.GetTdQuoteBody().GetReportData(), nil
}

// verifySEV verifies an SEV-SNP report with the certificates that came with it or, where
// the host gave none, those of AMD's service, and returns REPORT_DATA.
func verifySEV(e *Evidence, c Collateral, now time.Time) ([]byte, error) {
	a, err := sevabi.ReportCertsToProto(append(append([]byte(nil), e.Quote...), e.Aux...))
	if err != nil {
		return nil, err
	}
	o := sev.DefaultOptions()
	o.Getter, o.Now, o.CheckRevocations = bodies{c}, now, true
	if err := sev.SnpAttestation(a, o); err != nil {
		return nil, err
	}
	return a.GetReport().GetReportData(), nil
}

// bodies is a collateral in the form of go-sev-guest's getters.
type bodies struct{ Collateral }

// Get fetches without the header.
func (b bodies) Get(url string) ([]byte, error) {
	_, body, err := b.Collateral.Get(url)
	return body, err
}
