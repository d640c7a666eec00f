package attest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/mutate"
)

// nvidiaTime is when the certificates of NVIDIA's samples were valid.
var nvidiaTime = time.Date(2025, 8, 29, 12, 0, 0, 0, time.UTC)

// sampleGPU is a real report with its certificates, as the provider reads it from what NVIDIA's tool prints.
func sampleGPU(t testing.TB, name string) *attest.Evidence {
	t.Helper()
	text, err := os.ReadFile("testdata/nvidia-" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	e, err := attest.Collected(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func manifest(t testing.TB, name string) *attest.RIM {
	t.Helper()
	text, err := os.ReadFile("testdata/nvidia-" + name + ".swidtag")
	if err != nil {
		t.Fatal(err)
	}
	m, err := attest.ReadRIM(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRealNVIDIA: reports that a Hopper and a Blackwell GPU have signed verify up to NVIDIA's root, say what NVIDIA's
// parser reads in them, and are refused before the certificates were valid and with those of the other GPU.
func TestRealNVIDIA(t *testing.T) {
	hopper, blackwell := sampleGPU(t, "hopper"), sampleGPU(t, "blackwell")
	for _, tc := range []struct {
		e                             *attest.Evidence
		device, serial, driver, vbios string
		nonce                         string
	}{
		{hopper, "GH100 A01 GSP BROM", "416A5FAFCBD9FA5CA3", "535.86.09", "96.00.5E.00.01", "27a328247bf7935c"},
		{blackwell, "GB100 A01 GSP BROM", "41E6DE55C3BDC14277", "575.32", "97.00.88.00.0F", "931d8dd0add203ac"},
	} {
		t.Run(tc.device, func(t *testing.T) {
			i, err := attest.Inspect(t.Context(), tc.e, nil, nvidiaTime, attest.Trust{})
			if err != nil || i.Signature != nil || !errors.Is(i.Standing, attest.ErrNotRead) {
				t.Fatalf("%s: %+v, %v", tc.device, i, err)
			}
			g := i.Facts.GPUs
			if len(g) != 1 || g[0].Device != tc.device || g[0].Driver != tc.driver || g[0].VBIOS != tc.vbios || g[0].Mode != "" || g[0].Serial != tc.serial {
				t.Errorf("it says %s, %s, %s, %s", g[0].Device, g[0].Serial, g[0].Driver, g[0].VBIOS)
			}
			if !strings.HasPrefix(hex.EncodeToString(i.Data), tc.nonce) || i.Facts.TEE != "nvidia-gpu" || i.Facts.Debug != nil || len(i.Facts.Registers) < 20 || len(i.Facts.Registers["gpu0_m3"]) != 96 && tc.e == hopper {
				t.Errorf("it says %x and %+v", i.Data, i.Facts)
			}
			if i.IsBoundTo([attest.Size]byte{}) || i.IsBoundTo([attest.Size]byte(slices.Concat(i.Data, make([]byte, 32)))) {
				t.Error("it is about data that nobody asked for")
			}
			if i, err := attest.Inspect(t.Context(), tc.e, nil, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), attest.Trust{}); err != nil || i.Signature == nil {
				t.Errorf("before its certificates: %+v, %v", i, err)
			}
			if err := attest.Verify(t.Context(), tc.e, [attest.Size]byte{}, nil, nvidiaTime); err == nil {
				t.Error("verified for other data")
			}
		})
	}
	for name, e := range map[string]*attest.Evidence{
		"a real switch":               sampleGPU(t, "switch"),
		"certificates of another GPU": {Format: "nvidia_gpu", Quote: hopper.Quote, Aux: blackwell.Aux},
		"no certificates":             {Format: "nvidia_gpu", Quote: hopper.Quote},
		"more certificates":           {Format: "nvidia_gpu", Quote: hopper.Quote, Aux: slices.Concat(hopper.Aux, blackwell.Aux)},
		"two GPUs, two nonces":        {Format: "nvidia_gpu", Quote: slices.Concat(hopper.Quote, blackwell.Quote), Aux: slices.Concat(hopper.Aux, blackwell.Aux)},
		"one GPU twice":               {Format: "nvidia_gpu", Quote: slices.Concat(hopper.Quote, hopper.Quote), Aux: slices.Concat(hopper.Aux, hopper.Aux)},
		"too large":                   {Format: "nvidia_gpu", Quote: bytes.Repeat(hopper.Quote, 100), Aux: hopper.Aux},
		"nothing":                     {Format: "nvidia_gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			if i, err := attest.Inspect(t.Context(), e, nil, nvidiaTime, attest.Trust{}); err == nil && i.Signature == nil {
				t.Errorf("%s: verified", name)
			}
		})
	}
}

// TestNVIDIALengths: a report that ends anywhere else, and lengths beyond its end, are refused.
func TestNVIDIALengths(t *testing.T) {
	e := sampleGPU(t, "hopper")
	good := func(quote []byte) bool {
		i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: e.Format, Quote: quote, Aux: e.Aux}, nil, nvidiaTime, attest.Trust{})
		return err == nil && i.Signature == nil
	}
	for cut := range len(e.Quote) {
		if good(e.Quote[:cut]) {
			t.Errorf("the first %d bytes are verified", cut)
		}
	}
	if good(append(slices.Clone(e.Quote), 0)) {
		t.Error("a byte too many is verified")
	}
	opaque := len(e.Quote) - 96 - 2
	for n := len(e.Quote) - 96 - 2; n > 0; n-- { // the length of the opaque data stands right before it
		if int(binary.LittleEndian.Uint16(e.Quote[n:])) == len(e.Quote)-96-2-n && binary.LittleEndian.Uint16(e.Quote[n:]) > 100 {
			opaque = n
			break
		}
	}
	for _, at := range []int{41, 42, 43, 44, 47, 50, opaque, opaque + 4} { // blocks, the record, a measurement, its value, the opaque data, a field
		for _, v := range []uint16{0, 1, 0x7fff, 0xffff} {
			changed := slices.Clone(e.Quote)
			binary.LittleEndian.PutUint16(changed[at:], v)
			if !bytes.Equal(changed, e.Quote) && good(changed) {
				t.Errorf("%#x at %d is verified", v, at)
			}
		}
	}
}

// TestNVIDIAManifests: the real Hopper report has the measurements that NVIDIA publishes for its VBIOS, and not those of a
// manifest that NVIDIA has damaged for a test of its own.
func TestNVIDIAManifests(t *testing.T) {
	i, err := attest.Inspect(t.Context(), sampleGPU(t, "hopper"), nil, nvidiaTime, attest.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	g := i.Facts.GPUs[0]
	vbios, driver := manifest(t, "vbios-96.00.5E.00.01"), manifest(t, "driver-535.86.09-mismatch")
	if c := g.Compare([]*attest.RIM{vbios}); c.Equal != 12 || c.Other != nil || !slices.Equal(c.Missing, []string{"driver 535.86.09"}) {
		t.Errorf("the VBIOS: %+v", c)
	}
	// 21 of the 22 measurements of the driver are compared: measurement 35 is of the decoder, which is off.
	if c := g.Compare([]*attest.RIM{driver, vbios}); c.Equal != 12+6 || len(c.Other) != 15 || c.Missing != nil {
		t.Errorf("both: %+v", c)
	}
	if c := g.Compare(nil); c.Equal != 0 || len(c.Missing) != 2 {
		t.Errorf("none: %+v", c)
	}
	other, err := attest.Inspect(t.Context(), sampleGPU(t, "blackwell"), nil, nvidiaTime, attest.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if c := other.Facts.GPUs[0].Compare([]*attest.RIM{driver, vbios}); c.Equal != 0 || len(c.Missing) != 2 {
		t.Errorf("of another GPU: %+v", c)
	}
}

// TestNVIDIAMachine: GPUs of the test, together.
func TestNVIDIAMachine(t *testing.T) {
	m := attesttest.NVIDIA(t, attesttest.GH100, attesttest.GH100)
	data := [attest.Size]byte{4}
	e, err := m.Quote(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	soon := attesttest.Made.Add(time.Hour)
	i, err := attest.Inspect(t.Context(), e, nil, soon, m.Trust)
	if err != nil || i.Signature != nil || !i.IsBoundTo(data) || i.IsBoundTo([attest.Size]byte{5}) || len(i.Facts.GPUs) != 2 || i.Facts.GPUs[1].Serial != "14" || i.Facts.GPUs[0].Mode != "spt" || len(i.Facts.Registers) != 78 {
		t.Fatalf("%+v, %v", i, err)
	}
	for _, at := range []time.Time{attesttest.Made.AddDate(-1, 0, 0), attesttest.Made.AddDate(1, 0, 0)} {
		i, err := attest.Inspect(t.Context(), e, nil, at, m.Trust)
		if err != nil {
			t.Fatal(err)
		}
		said(t, "signature", i.Signature, "expired")
	}
	if i, err := attest.Inspect(t.Context(), e, nil, soon, attest.Trust{}); err != nil || i.Signature == nil {
		t.Errorf("the test's own root is NVIDIA's: %v", err)
	}
	half := len(e.Quote) / 2
	swapped := &attest.Evidence{Format: e.Format, Quote: slices.Concat(e.Quote[half:], e.Quote[:half]), Aux: e.Aux}
	if i, err := attest.Inspect(t.Context(), swapped, nil, soon, m.Trust); err != nil || i.Signature == nil {
		t.Errorf("each with the other's certificates: %v", err)
	}
	// A switch of NVIDIA's would be believed by its signature.
	m = attesttest.NVIDIA(t, "LS_10 A01 FSP")
	if e, err = m.Quote(t.Context(), data); err == nil {
		i, err = attest.Inspect(t.Context(), e, nil, soon, m.Trust)
	}
	if err != nil {
		t.Fatal(err)
	}
	said(t, "a switch", i.Signature, "not a GPU and its firmware")
}

// TestReadRIM: manifests that are none are refused, and damage panics nowhere.
func TestReadRIM(t *testing.T) {
	good := string(attesttest.NVIDIAManifest("1.2", 1, 2))
	for name, text := range map[string]string{
		"nothing":         "",
		"other XML":       "<a/>",
		"no end":          good[:len(good)/2],
		"no version":      strings.Replace(good, "colloquialVersion", "version", 1),
		"an index twice":  strings.Replace(good, `index="2"`, `index="1"`, 1),
		"a high index":    strings.Replace(good, `index="2"`, `index="256"`, 1),
		"no alternatives": strings.Replace(good, `alternatives="2"`, `alternatives="0"`, 1),
		"a missing value": strings.Replace(good, "Hash1", "Hash7", 1),
		"a short value":   strings.Replace(good, `Hash1="01`, `Hash1="`, 1),
		"nothing active":  strings.ReplaceAll(good, "True", "False"),
		"active, damaged": strings.NewReplacer(`active="True"`, `active="true"`, `Hash1="01`, `Hash1="`).Replace(good),
		"too large":       strings.Repeat(" ", 1<<20) + good,
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := attest.ReadRIM([]byte(text)); err == nil {
				t.Errorf("%s: %+v", name, m)
			}
		})
	}
	if m, err := attest.ReadRIM([]byte(good)); err != nil || m.Version != "1.2" || m.Product != "GH100" {
		t.Errorf("%+v, %v", m, err)
	}
	for m := range mutate.Lines([]byte(good), "<>\"=") {
		_, _ = attest.ReadRIM(m.Data)
	}
}

// TestNVIDIACommand: what the command prints is read, and what it prints instead of evidence is an error that says so.
// stand-in: nvattest
func TestNVIDIACommand(t *testing.T) {
	provider, err := attest.Find("nvidia")
	if err != nil {
		t.Fatal(err)
	}
	sample, err := filepath.Abs("testdata/nvidia-hopper.json")
	if err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "nvattest") // a path is taken as it is
	if err := os.WriteFile(tool, []byte("#!/bin/sh\ncat "+sample+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ command, want string }{
		{"cat " + sample + " --nonce={nonce}", "status 1"},
		{"sed -e s/{nonce}// " + sample, ""},
		{"printf [] {nonce}", "no evidence of a GPU"},
		{"printf {\"evidences\":{nonce}", "the output begins with"},
		{"printf {nonce}", "the output begins with"},
		{"printf [{\"evidence\":\"a\"}] {nonce}", "base64"},
		{"sed -e s/{nonce}/ " + sample, "unterminated"}, // the command's own words
		{tool + " {nonce}", ""},
		{filepath.Dir(tool) + "/none {nonce}", "install NVIDIA's nvattest"},
		{sample + " {nonce}", "permission denied"},
		{"no-such-tool {nonce}", "install NVIDIA's nvattest"},
		{"cat " + sample, "the command must contain {nonce}"},
	} {
		t.Run(tc.command, func(t *testing.T) {
			q, _, err := provider.Open(attest.Settings{NVIDIA: tc.command})
			var e *attest.Evidence
			if err == nil {
				e, err = q.Quote(t.Context(), [attest.Size]byte{1})
			}
			said(t, tc.command, err, tc.want)
			if err == nil && !bytes.Equal(e.Quote, sampleGPU(t, "hopper").Quote) {
				t.Errorf("%s: other evidence", tc.command)
			}
		})
	}
	if _, _, err := provider.Open(attest.Settings{NVIDIA: "no-such-tool {nonce}"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no tool: %v", err)
	}
}

// FuzzNVIDIA: whatever comes as a report and its certificates, nothing panics, and only what NVIDIA has signed is verified.
func FuzzNVIDIA(f *testing.F) {
	known := map[string]bool{}
	for _, name := range []string{"hopper", "blackwell"} {
		e := sampleGPU(f, name)
		known[string(e.Quote)] = true
		f.Add(e.Quote, e.Aux)
	}
	f.Add([]byte("\x11\xe0\x01\xff"), []byte(nil))
	f.Fuzz(func(t *testing.T, quote, aux []byte) {
		i, err := attest.Inspect(t.Context(), &attest.Evidence{Format: "nvidia_gpu", Quote: quote, Aux: aux}, nil, nvidiaTime, attest.Trust{})
		if err == nil && i.Signature == nil && !known[string(quote)] {
			t.Errorf("verified %x", quote)
		}
	})
}
