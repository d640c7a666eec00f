package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
	"github.com/google/go-configfs-tsm/configfs/faketsm"
)

func device(t testing.TB, s Settings) *Simulated {
	t.Helper()
	s.Parallel = max(s.Parallel, 1)
	d, err := NewSimulated(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSimulated: what is changed, replayed or revoked is refused, for that reason.
func TestSimulated(t *testing.T) {
	d := device(t, Settings{})
	data, other := [Size]byte{1}, [Size]byte{2}
	e, err := d.Quote(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(t.Context(), e, data, d, time.Now()); err != nil {
		t.Fatalf("a good quote is refused: %v", err)
	}
	if err := Verify(t.Context(), e, other, d, time.Now()); !errors.Is(err, ErrNotBound) {
		t.Errorf("a quote of other data: %v, want ErrNotBound", err)
	}
	changed := func(change func(*simulatedQuote)) *Evidence {
		var q simulatedQuote
		if err := json.Unmarshal(e.Quote, &q); err != nil {
			t.Fatal(err)
		}
		change(&q)
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return &Evidence{Format: e.Format, Quote: b}
	}
	for _, tc := range []struct {
		name string
		e    *Evidence
		c    Collateral
		now  time.Time
		want string
	}{
		{"other data under the same signature", changed(func(q *simulatedQuote) { q.Data[0]++ }), d, time.Now(), "not signed by the device"},
		{"another device's certificate", changed(func(q *simulatedQuote) { q.Leaf = device(t, Settings{}).leaf }), d, time.Now(), "certificate"},
		{"another root", e, device(t, Settings{}), time.Now(), "certificate"},
		{"a list of tomorrow's yesterday", e, d, time.Now().Add(2 * lifetime), "certificate"},
		{"a revoked device", e, republished(t, d, func(r *revocations) { r.Serials = []string{"2"} }), time.Now(), "not signed by the root"},
		{"no quote", &Evidence{Format: simulatedFormat, Quote: []byte("quote")}, d, time.Now(), "read the quote"},
		{"too much", &Evidence{Format: simulatedFormat, Quote: make([]byte, mostQuote+1)}, d, time.Now(), "too large for this format"},
		{"an unknown format", &Evidence{Format: "arm_cca_guest"}, d, time.Now(), "unsupported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := Verify(t.Context(), tc.e, data, tc.c, tc.now); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
			}
		})
	}
}

// republished is a service whose list was changed by somebody without the root's key.
func republished(t *testing.T, d *Simulated, change func(*revocations)) Collateral {
	t.Helper()
	var from simulatedCollateral
	var r revocations
	if err := errors.Join(json.Unmarshal(d.collateral, &from), json.Unmarshal(from.List, &r)); err != nil {
		t.Fatal(err)
	}
	change(&r)
	var err error
	if from.List, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	return &Simulated{collateral: body}
}

// TestRevoked: a device on the root's own list is refused.
func TestRevoked(t *testing.T) {
	now := time.Now()
	root, rootKey, err := certify(1, "root", now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, key, err := certify(2, "device", now, root, rootKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		list revocations
		want string
	}{
		{revocations{Until: now.Add(time.Hour)}, ""},
		{revocations{Serials: []string{"2"}, Until: now.Add(time.Hour)}, "revoked"},
		{revocations{Until: now.Add(-time.Minute)}, "out of date"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			d := &Simulated{turns: make(chan struct{}, 1), key: key, leaf: leaf.Raw}
			if d.collateral, err = publish(root, rootKey, tc.list); err != nil {
				t.Fatal(err)
			}
			e, err := d.Quote(t.Context(), [Size]byte{})
			if err != nil {
				t.Fatal(err)
			}
			err = Verify(t.Context(), e, [Size]byte{}, d, now)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("list %+v: %v, want %q", tc.list, err, tc.want)
			}
		})
	}
}

// TestPack: evidence comes back as it was, and what is none is refused.
func TestPack(t *testing.T) {
	e := &Evidence{Format: "f", Quote: []byte("quote"), Aux: []byte("aux")}
	b, err := e.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unpack(b); err != nil || got.Format != "f" || string(got.Quote) != "quote" || string(got.Aux) != "aux" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "cut": b[:len(b)-1], "more": append(bytes.Clone(b), 0), "text": []byte("{}"), "another key": []byte("\xa1\x07\x01"), "twice": []byte("\xa2\x01\x61a\x01\x61b")} {
		t.Run(name, func(t *testing.T) {
			if got, err := Unpack(bad); err == nil {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// TestConfigfsTSM asks a kernel's interface that a library makes up.
func TestConfigfsTSM(t *testing.T) {
	q := tsm{&faketsm.Client{Subsystems: map[string]configfsi.Client{"report": faketsm.ReportV7(0)}}}
	data := [Size]byte{7}
	e, err := q.Quote(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if e.Format == "" || !bytes.Contains(e.Quote, []byte("07")) && !bytes.Contains(e.Quote, data[:]) {
		t.Errorf("evidence is %q %q", e.Format, e.Quote)
	}
	if err := Verify(t.Context(), e, data, Cached(none{}, 0), time.Now()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("what nobody can verify: %v", err)
	}
}

// TestProviders: each can be found, and one that is not here says so.
func TestProviders(t *testing.T) {
	for _, p := range Providers {
		if got, err := Find(p.Name); err != nil || got != p {
			t.Errorf("%s: %v", p.Name, err)
		}
		q, c, err := p.Open(Settings{Parallel: 1})
		if errors.Is(err, errors.ErrUnsupported) {
			t.Logf("%s: %v", p.Name, err)
			continue
		}
		if err != nil || q == nil || c == nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if _, err := Find("sgx"); err == nil {
		t.Error("there is a provider sgx")
	}
	if _, _, err := simulated.Open(Settings{}); err == nil {
		t.Error("none at once is taken")
	}
}

// TestNSM asks a security module that the test plays.
func TestNSM(t *testing.T) {
	data := [Size]byte{7}
	for _, tc := range []struct {
		name   string
		answer []byte
		err    error
		want   string
	}{
		{"a document", []byte("\xa1\x6bAttestation\xa1\x68document\x43abc"), nil, ""},
		{"an error", []byte("\xa1\x65Error\x6fInvalidArgument"), nil, "InvalidArgument"},
		{"nothing", nil, nil, "read the answer"},
		{"no module", nil, errors.ErrUnsupported, "get a document"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := nsm{func(request, answer []byte) (int, error) {
				// {"Attestation": {"user_data": 64 bytes}}
				if want := append([]byte("\xa1\x6bAttestation\xa1\x69user_data\x58\x40"), data[:]...); !bytes.Equal(request, want) {
					t.Errorf("%s: the request is %x, want %x", tc.name, request, want)
				}
				return copy(answer, tc.answer), tc.err
			}}
			e, err := n.Quote(t.Context(), data)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && (e.Format != "nitro" || string(e.Quote) != "abc") {
				t.Errorf("%s: %+v, %v", tc.name, e, err)
			}
		})
	}
}
