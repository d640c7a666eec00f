package attest_test

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	sevtest "github.com/google/go-sev-guest/verify/testdata"
	tdxtest "github.com/google/go-tdx-guest/testing"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/mutate"
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
			{name: "lists of last month", at: attesttest.Made.Add(attesttest.Lifetime + time.Hour), standing: "valid only from", signature: "expired"},
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
				i, err := attest.Inspect(t.Context(), e, c, tc.at, m.Trust)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(i.Data, data[:]) || i.Facts.TEE != name || *i.Facts.Debug != tc.o.Debug || len(i.Facts.Measurement) != 96 {
					t.Errorf("it says %x and %+v", i.Data, i.Facts)
				}
				signature, standing := tc.signature, tc.standing
				switch {
				case name == "nitro":
					standing = "publishes none"
				case name == "sev-snp" && tc.standing == "valid only from":
					signature = "" // the certificates of the library's chain live longer
				case signature != "":
					standing = ""
				}
				said(t, "signature", i.Signature, signature)
				said(t, "standing", i.Standing, standing)
				if _, err := attest.Inspect(t.Context(), e, c, tc.at, attest.Trust{}); err != nil {
					t.Error(err)
				}
				if i, err := attest.Inspect(t.Context(), e, c, tc.at, attest.Trust{}); err != nil || i.Signature == nil {
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

// stretch is the distance of the bytes that TestAnyByte changes where many follow each other that mean the same: signatures,
// hashes, certificates. All bytes would take a minute; FuzzAnyByte goes on with the others, and with other bits.
const stretch = 5

// single are the bytes of a quote in which each field is changed everywhere: the header, and in TDX' version 4 the sizes
// and types between its signatures and certificates.
var single = map[string][][2]int{
	"tdx_guest": {{0, 64}, {616, 648}, {756, 776}, {1210, 1262}},
	"sev_guest": {{0, 64}, {0x180, 0x1c0}},
	"nitro":     {{0, 64}},
	// NVIDIA: the request, and the answer to where its measurements begin.
	"nvidia_gpu": {{0, 64}},
}

// signed is evidence that is good, with all that it is good by.
type signed struct {
	e     *attest.Evidence
	c     attest.Stored
	at    time.Time
	roots attest.Trust
}

// good reports whether evidence is believed in the place of this one.
func (s *signed) good(e *attest.Evidence, c attest.Stored) bool {
	i, err := attest.Inspect(context.Background(), e, c, s.at, s.roots)
	return err == nil && i.Signature == nil && (i.Standing == nil || s.c == nil)
}

// part is something of it whose bytes may be changed: the quote, the certificates beside it, a list, a header.
type part struct {
	name  string
	bytes []byte
	text  bool // it has letters of two cases
	each  [][2]int
	with  func([]byte) bool // reports whether it is good with these
}

// parts are all of them.
func (s *signed) parts() []part {
	out := []part{
		{"quote", s.e.Quote, false, single[s.e.Format], func(b []byte) bool {
			e := &attest.Evidence{Format: s.e.Format, Quote: b, Aux: s.e.Aux}
			i, err := attest.Inspect(context.Background(), e, nil, s.at, s.roots)
			return err == nil && i.Signature == nil && s.good(e, s.c) // most end before the lists
		}},
		{"certificates", s.e.Aux, false, nil, func(b []byte) bool {
			return s.good(&attest.Evidence{Format: s.e.Format, Quote: s.e.Quote, Aux: b}, s.c)
		}},
	}
	for n, f := range s.c {
		with := func(g attest.Fetched) bool {
			c := slices.Clone(s.c)
			c[n] = g
			return s.good(s.e, c)
		}
		out = append(out, part{"body of " + f.URL, f.Body, f.Body[0] == '{', nil, func(b []byte) bool {
			return with(attest.Fetched{URL: f.URL, Header: f.Header, Body: b})
		}})
		for h, values := range f.Header {
			out = append(out, part{h + " of " + f.URL, []byte(values[0]), true, nil, func(b []byte) bool {
				return with(attest.Fetched{URL: f.URL, Header: map[string][]string{h: {string(b)}}, Body: f.Body})
			}})
		}
	}
	return out
}

// everySigned is allSigned, made once.
var everySigned map[string]*signed

// allSigned is what real hardware and the test's machines have signed, by name.
func allSigned(t testing.TB) map[string]*signed {
	if everySigned != nil {
		return everySigned
	}
	all := map[string]*signed{
		"real tdx":       {e: &attest.Evidence{Format: "tdx_guest", Quote: attesttest.SampleTDX()}, at: time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC)},
		"real sev":       {e: &attest.Evidence{Format: "sev_guest", Quote: sevtest.AttestationBytes, Aux: attesttest.ChipCertificate(sevtest.VcekBytes)}, at: time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC)},
		"real nitro":     {e: &attest.Evidence{Format: "nitro", Quote: nitroDocument}, at: time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC)},
		"real hopper":    {e: sampleGPU(t, "hopper"), at: nvidiaTime},
		"real blackwell": {e: sampleGPU(t, "blackwell"), at: nvidiaTime},
	}
	for name, machine := range attesttest.All {
		m := machine(t, attesttest.Options{})
		e, err := m.Quote(t.Context(), [attest.Size]byte{9})
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &signed{e, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust}
	}
	for name, v := range all {
		if !v.good(v.e, v.c) {
			i, err := attest.Inspect(t.Context(), v.e, v.c, v.at, v.roots)
			t.Fatalf("%s, unchanged: %+v, %v", name, i, err)
		}
	}
	everySigned = all
	return all
}

// TestAnyByte changes bytes of what real hardware and the test's machines have signed, and of the certificates and lists
// beside it: all of each field of the quote, and of long ones every fifth.
func TestAnyByte(t *testing.T) {
	for name, v := range allSigned(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range v.parts() {
				for at := range p.bytes {
					if at%stretch != 0 && !slices.ContainsFunc(p.each, func(r [2]int) bool { return r[0] <= at && at < r[1] }) {
						continue
					}
					flip := byte(1)
					if p.text && at/stretch%2 == 1 {
						flip = 'a' ^ 'A'
					}
					changed := slices.Clone(p.bytes)
					changed[at] ^= flip
					if p.with(changed) {
						t.Errorf("%s: accepted although byte %d has %#x changed", p.name, at, flip)
					}
				}
			}
		})
	}
}

// FuzzAnyByte changes any bits of any byte of any part.
func FuzzAnyByte(f *testing.F) {
	all := allSigned(f)
	names := slices.Sorted(maps.Keys(all))
	for n := range names {
		for k := range all[names[n]].parts() {
			f.Add(uint8(n), uint8(k), uint16(7), byte(1))
		}
	}
	f.Fuzz(func(t *testing.T, name, which uint8, at uint16, flip byte) {
		v := all[names[int(name)%len(names)]]
		parts := v.parts()
		p := parts[int(which)%len(parts)]
		if flip == 0 || len(p.bytes) == 0 {
			return
		}
		changed := slices.Clone(p.bytes)
		changed[int(at)%len(changed)] ^= flip
		if p.with(changed) {
			t.Errorf("%s, %s: accepted although byte %d has %#x changed", names[int(name)%len(names)], p.name, int(at)%len(changed), flip)
		}
	})
}

// TestDamagedEvidence: evidence and collateral whose numbers are wrapped, or which end too early or too late, are refused
// with a reason.
func TestDamagedEvidence(t *testing.T) {
	for name, v := range allSigned(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range v.parts() {
				if len(p.bytes) == 0 {
					continue
				}
				damages := mutate.Cells(p.bytes, 4)
				if p.text {
					damages = mutate.Lines(p.bytes, "{}[]:,\"")
				}
				total := 0
				for range damages {
					total++
				}
				i := 0
				for m := range damages {
					if p.name == "certificates" && strings.HasSuffix(m.Name, "more") {
						continue // hosts fill up their table of certificates to whole pages
					}
					if i++; (i <= 6 || i%(1+total/evidenceDamages) == 0) && !bytes.Equal(m.Data, p.bytes) && p.with(m.Data) {
						t.Errorf("%s: accepted although %s", p.name, m.Name)
					}
				}
			}
		})
	}
}

// evidenceDamages are about as many as are made to a part.
const evidenceDamages = 50

// TestFreeBits: a TDX quote brings certificates along as text, whose last character can have bits that mean
// nothing. They are refused, too.
func TestFreeBits(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for range 1000 { // whether there is such a character depends on the lengths of random signatures
		m := attesttest.TDX(t, attesttest.Options{})
		e, err := m.Quote(t.Context(), [attest.Size]byte{9})
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(e.Quote, []byte("=\n-----END")) - 1
		if at < 0 {
			continue
		}
		if e.Quote[at] == '=' {
			at--
		}
		e.Quote[at] = alphabet[strings.IndexByte(alphabet, e.Quote[at])^1]
		if i, err := attest.Inspect(t.Context(), e, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil {
			t.Error("accepted with another spelling of a certificate")
		}
		return
	}
	t.Fatal("no certificate of 1000 machines has such a character")
}

// TestRealNitro: a document that AWS has signed, of an enclave in debug mode.
func TestRealNitro(t *testing.T) {
	e := &attest.Evidence{Format: "nitro", Quote: nitroDocument}
	i, err := attest.Inspect(t.Context(), e, nil, time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC), attest.Trust{})
	if err != nil || i.Signature != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	if !*i.Facts.Debug || i.Facts.Time == nil || i.Facts.Time.Format(time.RFC3339) != "2021-04-26T04:09:13Z" || len(i.Facts.Registers) != 1 {
		t.Errorf("facts %+v", i.Facts)
	}
	if i, err = attest.Inspect(t.Context(), e, nil, time.Date(2021, 4, 26, 8, 0, 0, 0, time.UTC), attest.Trust{}); err != nil || i.Signature == nil || !strings.Contains(i.Signature.Error(), "expired") {
		t.Errorf("hours later: %+v, %v", i, err)
	}
	for cut := range len(nitroDocument) {
		if i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: "nitro", Quote: nitroDocument[:cut]}, nil, *i.Facts.Time, attest.Trust{}); err == nil && i.Signature == nil {
			t.Errorf("the first %d bytes are verified", cut)
		}
	}
	if i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: "nitro", Quote: append(slices.Clone(nitroDocument), 0)}, nil, *i.Facts.Time, attest.Trust{}); err == nil && i.Signature == nil {
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
			if i, err := attest.Inspect(t.Context(), short, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil {
				t.Errorf("%s: the first %d bytes are verified", name, cut)
			}
		}
		for at := range len(e.Quote) - 1 {
			long := &attest.Evidence{Format: e.Format, Quote: slices.Concat(e.Quote[:at], []byte{0xff, 0xff}, e.Quote[at+2:]), Aux: e.Aux}
			if i, err := attest.Inspect(t.Context(), long, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil && !bytes.Equal(long.Quote, e.Quote) {
				t.Errorf("%s: 0xffff at %d is verified", name, at)
			}
		}
		e.Quote = append(e.Quote, 0)
		if i, err := attest.Inspect(t.Context(), e, m.Collateral, attesttest.Made.Add(time.Hour), m.Trust); err == nil && i.Signature == nil {
			t.Errorf("%s: a byte too many is verified", name)
		}
	}
}

// samples are the library's samples of Intel's collateral.
type samples struct{}

func (samples) Get(_ context.Context, url string) (map[string][]string, []byte, error) {
	return tdxtest.TestGetter.Get(url)
}

// TestRealTDXStanding: Intel's own sample of collateral verifies, and has no level of this machine.
func TestRealTDXStanding(t *testing.T) {
	i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: "tdx_guest", Quote: attesttest.SampleTDX()}, samples{}, time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC), attest.Trust{})
	if err != nil || i.Signature != nil || *i.Facts.Debug || errors.Is(i.Standing, attest.ErrNoCollateral) {
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
		if _, err := attest.Inspect(t.Context(), e, r, at, m.Trust); err != nil {
			t.Fatal(err)
		}
		i, err := attest.Inspect(t.Context(), e, r.Stored(), at, m.Trust)
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
		i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: "nitro", Quote: quote}, nil, time.Date(2021, 4, 26, 5, 0, 0, 0, time.UTC), attest.Trust{})
		if err == nil && i.Signature == nil && bytes.HasPrefix(quote, nitroDocument) {
			t.Errorf("verified %x", quote)
		}
	})
}
