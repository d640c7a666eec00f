package attest

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sevtest "github.com/google/go-sev-guest/verify/testdata"
	"github.com/google/go-sev-guest/verify/trust"
	tdxabi "github.com/google/go-tdx-guest/abi"
	tdxpb "github.com/google/go-tdx-guest/proto/tdx"
	tdxtest "github.com/google/go-tdx-guest/testing"
	tdxdata "github.com/google/go-tdx-guest/testing/testdata"
)

// recorded is when the libraries' samples of collateral were valid.
var recorded = time.Date(2023, time.July, 1, 1, 0, 0, 0, time.UTC)

// TestTDX verifies a quote that a production machine made, with Intel's collateral of
// that time as far as there is any: its signatures, chains and revocation lists are good,
// and the sample of TCB levels has none of that machine, which is what it is refused for.
func TestTDX(t *testing.T) {
	const level = "no matching TCB level found"
	e, err := signedPart(&Evidence{Format: tdxFormat, Quote: tdxdata.RawQuote})
	if err != nil {
		t.Fatal(err)
	}
	q, err := tdxabi.QuoteToProto(e.Quote)
	if err != nil {
		t.Fatal(err)
	}
	data := [Size]byte(q.(*tdxpb.QuoteV4).GetTdQuoteBody().GetReportData())
	if err := Verify(t.Context(), e, data, samples{}, recorded); err == nil || !strings.Contains(err.Error(), level) {
		t.Fatalf("a good quote of an unknown level: %v", err)
	}
	// The body begins at byte 48; REPORTDATA is its last part (TDX DCAP quote, version 4).
	for _, at := range []int{48 + 16, 48 + 583, len(e.Quote) / 2} {
		changed := slices.Clone(e.Quote)
		changed[at] ^= 1
		if err := Verify(t.Context(), &Evidence{Format: tdxFormat, Quote: changed}, data, samples{}, recorded); err == nil || strings.Contains(err.Error(), level) {
			t.Errorf("a quote with another byte %d: %v", at, err)
		}
	}
	if err := Verify(t.Context(), e, data, Cached(none{}, 0), recorded); err == nil {
		t.Error("verified without collateral")
	}
	if err := Verify(t.Context(), e, data, samples{}, recorded.AddDate(30, 0, 0)); err == nil {
		t.Error("verified with collateral of 30 years ago")
	}
}

// TestOneSpelled: bits of a certificate's text that mean nothing are refused, whatever its length.
func TestOneSpelled(t *testing.T) {
	for size := 30; size < 33; size++ {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: make([]byte, size)})
		if err := oneSpelled(append(text, 0)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		last := bytes.LastIndexByte(text[:bytes.Index(text, []byte("-----END"))], 'A')
		for bit := range 6 {
			changed := slices.Clone(text)
			changed[last] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[1<<bit]
			b, _ := pem.Decode(changed)
			free := bytes.Equal(b.Bytes, make([]byte, size))
			if err := oneSpelled(changed); (err != nil) != free {
				t.Errorf("%d bytes, bit %d, which means nothing %v: %v", size, bit, free, err)
			}
		}
	}
}

// samples are the library's samples of Intel's collateral.
type samples struct{}

func (samples) Get(_ context.Context, url string) (map[string][]string, []byte, error) {
	return tdxtest.TestGetter.Get(url)
}

// none is a service that is away.
type none struct{}

func (none) Get(_ context.Context, url string) (map[string][]string, []byte, error) {
	return nil, nil, fmt.Errorf("fetch %s: away", url)
}

// amd has the certificates of the library's sample, and no revocation list.
type amd struct{}

func (amd) Get(_ context.Context, url string) (map[string][]string, []byte, error) {
	switch {
	case strings.HasSuffix(url, "/cert_chain"):
		return nil, trust.AskArkMilanVcekBytes, nil
	case strings.HasSuffix(url, "/crl"):
		return nil, nil, errors.New("there is no sample of the revocation list")
	}
	return nil, sevtest.VcekBytes, nil
}

// TestSEV verifies a report that a machine of AMD made, as far as there are samples: the
// certificates are found and the chain is good, and without AMD's revocation list it is refused.
func TestSEV(t *testing.T) {
	e := &Evidence{Format: sevFormat, Quote: sevtest.AttestationBytes}
	err := Verify(t.Context(), e, [Size]byte{}, amd{}, recorded)
	if err == nil || !strings.Contains(err.Error(), "there is no sample of the revocation list") {
		t.Errorf("a report without a revocation list: %v", err)
	}
	for name, quote := range map[string][]byte{"nothing": nil, "a part": e.Quote[:100]} {
		t.Run(name, func(t *testing.T) {
			if err := Verify(t.Context(), &Evidence{Format: sevFormat, Quote: quote}, [Size]byte{}, amd{}, recorded); err == nil {
				t.Errorf("%s is verified", name)
			}
		})
	}
}

// FuzzVerify: whatever comes as evidence, it is refused, and nothing panics.
func FuzzVerify(f *testing.F) {
	d := device(f, Settings{})
	e, err := d.Quote(f.Context(), [Size]byte{1})
	if err != nil {
		f.Fatal(err)
	}
	formats := []string{simulatedFormat, tdxFormat, sevFormat}
	f.Add(uint8(0), e.Quote, []byte(nil))
	f.Add(uint8(1), tdxdata.RawQuote, []byte(nil))
	f.Add(uint8(2), sevtest.AttestationBytes, []byte("certificates"))
	f.Fuzz(func(t *testing.T, format uint8, quote, aux []byte) {
		e := &Evidence{Format: formats[int(format)%len(formats)], Quote: quote, Aux: aux}
		c := Collateral(d)
		if e.Format != simulatedFormat {
			c = samples{}
		}
		if err := Verify(t.Context(), e, [Size]byte{0xff, 0xfe}, c, recorded); err == nil {
			t.Errorf("verified %q", quote)
		}
	})
}
