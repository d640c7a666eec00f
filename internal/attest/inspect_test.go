package attest_test

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	sevtest "github.com/google/go-sev-guest/verify/testdata"
	tdxtest "github.com/google/go-tdx-guest/testing"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
)

//go:embed testdata/nitro-debug.cbor
var nitroDocument []byte

// TestMachines: each kind of machine is believed, and for each thing that can be wrong with
// one it is not, for that reason.
func TestMachines(t *testing.T) {
	soon := attesttest.Made.Add(time.Hour)
	data := [attest.Size]byte{1, 2, 3}
	for name, machine := range attesttest.All {
		for _, tc := range []struct {
			name                string
			o                   attesttest.Options
			at                  time.Time
			without             bool
			signature, standing string
		}{
			{name: "a good one", at: soon},
			{name: "debugged", o: attesttest.Options{Debug: true}, at: soon},
			{name: "revoked", o: attesttest.Options{Revoked: true}, at: soon, standing: "revoked"},
			{name: "out of date", o: attesttest.Options{OutOfDate: true}, at: soon, standing: map[string]string{"tdx": "OutOfDate", "sev-snp": "TCB"}[name]},
			{name: "no collateral", at: soon, without: true, standing: "is not stored"},
			{name: "lists of last month", at: attesttest.Made.Add(attesttest.Lifetime + time.Hour), standing: "holds from", signature: "expired"},
			{name: "certificates of ten years ago", at: attesttest.Made.AddDate(10, 0, 0), signature: "expired"},
		} {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				m := machine(t, tc.o)
				e, err := m.Quote(t.Context(), data)
				if err != nil {
					t.Fatal(err)
				}
				c := m.Collateral
				if tc.without {
					c = nil
				}
				i, err := attest.Inspect(e, c, tc.at, m.Trust)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(i.Data, data[:]) || i.Facts.TEE != name || i.Facts.Debug != tc.o.Debug || len(i.Facts.Measurement) != 96 {
					t.Errorf("it says %x and %+v", i.Data, i.Facts)
				}
				signature, standing := tc.signature, tc.standing
				switch {
				case name == "nitro":
					standing = "publishes none"
				case name == "sev-snp" && tc.standing == "holds from":
					signature = "" // the certificates of the library's chain live longer
				case signature != "":
					standing = ""
				}
				said(t, "signature", i.Signature, signature)
				said(t, "standing", i.Standing, standing)
				if _, err := attest.Inspect(e, c, tc.at, attest.Trust{}); err != nil {
					t.Error(err)
				}
				if i, err := attest.Inspect(e, c, tc.at, attest.Trust{}); err != nil || i.Signature == nil {
					t.Errorf("the test's own root is one of the vendor's: %v", err)
				}
			})
		}
	}
}

func said(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestAnyByte changes each byte of what real hardware and the test's machines have signed, and
// of the certificates and lists beside it.
func TestAnyByte(t *testing.T) {
	type evidence struct {
		e     *attest.Evidence
		c     attest.Stored
		at    time.Time
		roots attest.Trust
	}
	all := map[string]evidence{
		"real tdx":   {e: &attest.Evidence{Format: "tdx_guest", Quote: attesttest.SampleTDX()}, at: time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC)},
		"real sev":   {e: &attest.Evidence{Format: "sev_guest", Quote: sevtest.AttestationBytes, Aux: attesttest.ChipCertificate(sevtest.VcekBytes)}, at: time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC)},
		"real nitro": {e: &attest.Evidence{Format: "nitro", Quote: nitroDocument}, at: time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC)},
	}
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		e, err := m.Quote(t.Context(), [attest.Size]byte{9})
		if err != nil {
			t.Fatal(err)
		}
		all[name] = evidence{e, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust}
	}
	for name, v := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := func(e *attest.Evidence, c attest.Stored) bool {
				i, err := attest.Inspect(e, c, v.at, v.roots)
				return err == nil && i.Signature == nil && (i.Standing == nil || v.c == nil)
			}
			if !good(v.e, v.c) {
				i, err := attest.Inspect(v.e, v.c, v.at, v.roots)
				t.Fatalf("unchanged: %+v, %v", i, err)
			}
			var accepted []string
			change := func(part string, b []byte, flip byte, with func([]byte) bool) {
				from, to := -1, -1
				flush := func() {
					if from >= 0 {
						accepted = append(accepted, fmt.Sprintf("%s %d to %d", part, from, to))
					}
					from = -1
				}
				for at := range b {
					changed := slices.Clone(b)
					changed[at] ^= flip
					if !with(changed) {
						flush()
						continue
					}
					if from < 0 {
						from = at
					}
					to = at
				}
				flush()
			}
			change("quote", v.e.Quote, 1, func(b []byte) bool {
				return good(&attest.Evidence{Format: v.e.Format, Quote: b, Aux: v.e.Aux}, v.c)
			})
			change("certificates", v.e.Aux, 1, func(b []byte) bool {
				return good(&attest.Evidence{Format: v.e.Format, Quote: v.e.Quote, Aux: b}, v.c)
			})
			for n, f := range v.c {
				with := func(g attest.Fetched) bool {
					c := slices.Clone(v.c)
					c[n] = g
					return good(v.e, c)
				}
				for _, flip := range []byte{1, 'a' ^ 'A'} {
					if flip > 1 && f.Body[0] != '{' {
						continue // only text has two cases
					}
					change(fmt.Sprintf("body of %s, bit %d,", f.URL, flip), f.Body, flip, func(b []byte) bool { return with(attest.Fetched{URL: f.URL, Header: f.Header, Body: b}) })
				}
				for h, values := range f.Header {
					change(h+" of "+f.URL, []byte(values[0]), 'a'^'A', func(b []byte) bool {
						return with(attest.Fetched{URL: f.URL, Header: map[string][]string{h: {string(b)}}, Body: f.Body})
					})
				}
			}
			if accepted != nil {
				t.Errorf("accepted although changed:\n%s", strings.Join(accepted, "\n"))
			}
		})
	}
}

// TestRealNitro: a document that AWS has signed, of an enclave in debug mode.
func TestRealNitro(t *testing.T) {
	e := &attest.Evidence{Format: "nitro", Quote: nitroDocument}
	i, err := attest.Inspect(e, nil, time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC), attest.Trust{})
	if err != nil || i.Signature != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	if !i.Facts.Debug || i.Facts.Time == nil || i.Facts.Time.Format(time.RFC3339) != "2021-04-26T04:09:13Z" || len(i.Facts.Registers) != 1 {
		t.Errorf("facts %+v", i.Facts)
	}
	if i, err = attest.Inspect(e, nil, time.Date(2021, 4, 26, 8, 0, 0, 0, time.UTC), attest.Trust{}); err != nil || i.Signature == nil || !strings.Contains(i.Signature.Error(), "expired") {
		t.Errorf("hours later: %+v, %v", i, err)
	}
	for cut := range len(nitroDocument) {
		if i, err := attest.Inspect(&attest.Evidence{Format: "nitro", Quote: nitroDocument[:cut]}, nil, *i.Facts.Time, attest.Trust{}); err == nil && i.Signature == nil {
			t.Errorf("the first %d bytes are verified", cut)
		}
	}
	if i, err := attest.Inspect(&attest.Evidence{Format: "nitro", Quote: append(slices.Clone(nitroDocument), 0)}, nil, *i.Facts.Time, attest.Trust{}); err == nil && i.Signature == nil {
		t.Error("a byte too many is verified")
	}
}

// TestRest: a quote that was cut off is refused, and so are lengths beyond its end and bytes after
// it, which nothing signs.
func TestRest(t *testing.T) {
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		e, err := m.Quote(t.Context(), [attest.Size]byte{9})
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(e.Quote) {
			short := &attest.Evidence{Format: e.Format, Quote: e.Quote[:cut], Aux: e.Aux}
			if i, err := attest.Inspect(short, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil {
				t.Errorf("%s: the first %d bytes are verified", name, cut)
			}
		}
		for at := range len(e.Quote) - 1 {
			long := &attest.Evidence{Format: e.Format, Quote: slices.Concat(e.Quote[:at], []byte{0xff, 0xff}, e.Quote[at+2:]), Aux: e.Aux}
			if i, err := attest.Inspect(long, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil && !bytes.Equal(long.Quote, e.Quote) {
				t.Errorf("%s: 0xffff at %d is verified", name, at)
			}
		}
		e.Quote = append(e.Quote, 0)
		if i, err := attest.Inspect(e, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil {
			t.Errorf("%s: a byte too many is verified", name)
		}
	}
}

// TestRealTDXStanding: Intel's own sample of collateral verifies, and has no level of this machine.
func TestRealTDXStanding(t *testing.T) {
	i, err := attest.Inspect(&attest.Evidence{Format: "tdx_guest", Quote: attesttest.SampleTDX()}, tdxtest.TestGetter, time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC), attest.Trust{})
	if err != nil || i.Signature != nil || i.Facts.Debug || errors.Is(i.Standing, attest.ErrNoCollateral) {
		t.Fatalf("%+v, %v", i, err)
	}
	said(t, "standing", i.Standing, "no matching TCB level")
}

// TestRecorder: what was fetched once verifies without a service.
func TestRecorder(t *testing.T) {
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		e, err := m.Quote(t.Context(), [attest.Size]byte{9})
		if err != nil {
			t.Fatal(err)
		}
		r := &attest.Recorder{From: m.Collateral}
		at := attesttest.Made.Add(time.Hour)
		if _, err := attest.Inspect(e, r, at, m.Trust); err != nil {
			t.Fatal(err)
		}
		i, err := attest.Inspect(e, r.Stored(), at, m.Trust)
		if err != nil || i.Signature != nil || errors.Is(i.Standing, attest.ErrNoCollateral) {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
}

// FuzzNitro: whatever comes as a document, nothing panics.
func FuzzNitro(f *testing.F) {
	f.Add(nitroDocument)
	b, err := cbor.Marshal([]any{[]byte{0xa1, 1, 0x38, 0x22}, map[int]int{}, []byte{0xa0}, make([]byte, 96)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, quote []byte) {
		if bytes.Equal(quote, nitroDocument) {
			return
		}
		i, err := attest.Inspect(&attest.Evidence{Format: "nitro", Quote: quote}, nil, time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC), attest.Trust{})
		if err == nil && i.Signature == nil && bytes.HasPrefix(quote, nitroDocument) {
			t.Errorf("verified %x", quote)
		}
	})
}
