package peer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/attest/attesttest"
	"github.com/teescope/teescope/internal/proof"
)

// TestPeer: a channel accepts what a policy wants, of each kind of machine, and nothing else.
func TestPeer(t *testing.T) {
	binding, other := [attest.Size]byte{1}, [attest.Size]byte{2}
	now := func() time.Time { return attesttest.Made.Add(time.Hour) }
	for name, machine := range attesttest.All {
		good := machine(t, attesttest.Options{})
		debug := machine(t, attesttest.Options{Debug: true})
		old := machine(t, attesttest.Options{OutOfDate: true})
		revoked := machine(t, attesttest.Options{Revoked: true})
		for _, tc := range []struct {
			what    string
			m       *attesttest.Machine
			p       proof.Policy
			at      func() time.Time
			binding [attest.Size]byte
			offline bool
			want    string // "" accepts
			not     string // the machine that cannot have the fault
		}{
			{what: "good", m: good, binding: binding},
			{what: "its kind", m: good, p: proof.Policy{Formats: []string{name}}, binding: binding},
			{what: "another kind", m: good, p: proof.Policy{Formats: []string{"sgx"}}, binding: binding, want: "environment: "},
			{what: "another handshake", m: good, binding: other, want: "binding: "},
			{what: "debug", m: debug, binding: binding, want: "debug: on"},
			{what: "debug, allowed", m: debug, p: proof.Policy{Debug: true}, binding: binding},
			{what: "another program", m: good, p: proof.Policy{Measurements: []string{strings.Repeat("ab", 48)}}, binding: binding, want: "measurement: "},
			{what: "another register", m: good, p: proof.Policy{Registers: map[string]string{"pcr4": strings.Repeat("ab", 48)}}, binding: binding, want: "measurement: "},
			{what: "out of date", m: old, binding: binding, want: "tcb: ", not: "nitro"},
			{what: "revoked", m: revoked, binding: binding, want: "tcb: ", not: "nitro"},
			{what: "expired", m: good, at: func() time.Time { return attesttest.Made.AddDate(30, 0, 0) }, binding: binding, want: "signature: "},
			{what: "no service", m: good, offline: true, binding: binding, want: "tcb: no collateral", not: "nitro"},
		} {
			if tc.not == name {
				continue
			}
			t.Run(name+"/"+tc.what, func(t *testing.T) {
				evidence, err := Self{tc.m}.Attest(t.Context(), binding)
				if err != nil {
					t.Fatal(err)
				}
				tc.p.MinTCB = attesttest.MinTCB
				p := &Other{Policy: tc.p, Collateral: tc.m.Collateral, Now: now, Roots: tc.m.Trust}
				if tc.at != nil {
					p.Now = tc.at
				}
				if tc.offline {
					p.Collateral = attest.Stored(nil)
				}
				said(t, p.Verify(t.Context(), evidence, tc.binding), tc.want)
			})
		}
		evidence, err := Self{good}.Attest(t.Context(), binding)
		if err != nil {
			t.Fatal(err)
		}
		said(t, (&Other{Collateral: good.Collateral, Now: now}).Verify(t.Context(), evidence, binding), "signature: ") // the test's root is nobody's
	}
	simulated, err := attest.NewSimulated(attest.Settings{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := Self{simulated}.Attest(t.Context(), binding)
	if err != nil {
		t.Fatal(err)
	}
	p := &Other{Collateral: simulated, Now: time.Now}
	said(t, p.Verify(t.Context(), evidence, binding), "no hardware vouches")
	said(t, p.Verify(t.Context(), []byte("GET / HTTP/1.1"), binding), "read evidence")
}

// TestTimeout: nothing of a verification goes on after its caller gave up. The bubble of synctest fails where a goroutine is left.
func TestTimeout(t *testing.T) {
	m := attesttest.SEV(t, attesttest.Options{})
	evidence, err := Self{m}.Attest(t.Context(), [attest.Size]byte{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		service := stuck{make(chan struct{})}
		p := &Other{Collateral: service, Now: func() time.Time { return attesttest.Made.Add(time.Hour) }, Roots: m.Trust}
		said(t, p.Verify(ctx, evidence, [attest.Size]byte{}), context.DeadlineExceeded.Error())
		<-service.asked
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func said(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// stuck is a service that answers nobody.
type stuck struct{ asked chan struct{} }

// Get waits until its caller gives up.
func (s stuck) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, nil, fmt.Errorf("fetch %s: %w", url, ctx.Err())
}
