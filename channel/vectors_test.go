package channel

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the test vectors anew")

const vectorsFile = "testdata/vectors.txt"

// counted is n bytes that count up from first: what the random numbers of a vector are.
func counted(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// vector is a session with known random numbers, and what goes over the wire in it.
type vector struct {
	name    string
	suite   Suite
	resume  *Ticket // of the client
	known   bool    // the server knows the ticket
	ticket  *Ticket // for the next session
	written strings.Builder
}

// make runs the session and writes what there is to know of it.
func (v *vector) make(t *testing.T) {
	t.Helper()
	say := func(name string, value []byte) { fmt.Fprintf(&v.written, "%s %x\n", name, value) }
	fmt.Fprintf(&v.written, "vector %s\n", v.name)
	say("suite", []byte{byte(v.suite)})
	say("service", []byte("test"))
	again := v.resume != nil && !v.known
	if v.resume != nil {
		say("ticket_id", v.resume.id[:])
		say("ticket_key", v.resume.key[:])
	}
	var clientRandom, serverRandom []byte
	random := func(of *[]byte, name string, first byte) {
		b := counted(first, 32)
		say(name, b)
		*of = append(*of, b...)
	}
	random(&clientRandom, "client_ephemeral", 0x10)
	if again {
		random(&clientRandom, "client_second_ephemeral", 0x30)
	}
	random(&serverRandom, "server_ephemeral", 0x50)
	random(&serverRandom, "server_share", 0x70)
	random(&clientRandom, "client_share", 0x90)

	evidence := func(name string) Attester {
		return AttesterFunc(func(_ context.Context, binding [64]byte) ([]byte, error) {
			say(name+"_binding", binding[:])
			say(name+"_evidence", append([]byte(name+" has "), binding[:8]...))
			return append([]byte(name+" has "), binding[:8]...), nil
		})
	}
	judge := func(name string) Verifier {
		return VerifierFunc(func(_ context.Context, e []byte, binding [64]byte) error {
			if !bytes.Equal(e, append([]byte(name+" has "), binding[:8]...)) {
				return errors.New("it is something else")
			}
			return nil
		})
	}
	now := func() time.Time { return time.Unix(1e9, 0) }
	c := Config{Suite: v.suite, Service: "test", Attester: evidence("client"), Verifier: judge("server"), Resume: v.resume, RekeyAfter: 2, Now: now, random: bytes.NewReader(clientRandom)}
	s := Config{Suite: v.suite, Service: "test", Attester: evidence("server"), Verifier: judge("client"), Sessions: NewSessions(1), Now: now, random: bytes.NewReader(serverRandom)}
	if v.known {
		s.Sessions.addTicket(v.resume, now(), time.Minute)
	}
	var up, down [][]byte
	keep := func(frames *[][]byte) func(int, []byte) [][]byte {
		return func(_ int, f []byte) [][]byte { *frames = append(*frames, bytes.Clone(f)); return [][]byte{f} }
	}
	client, near := Pipe(1 << 16)
	distant, server := Pipe(1 << 16)
	ended := make(chan struct{}, 2)
	go func() { frames(near, distant, keep(&up)); ended <- struct{}{} }()
	go func() { frames(distant, near, keep(&down)); ended <- struct{}{} }()
	a, b, aerr, berr := shake(t, client, server, c, s)
	if aerr != nil || berr != nil {
		t.Fatalf("%s: client: %v, server: %v", v.name, aerr, berr)
	}
	if a.Resumed() != v.known {
		t.Errorf("%s: resumed: %v", v.name, a.Resumed())
	}
	v.ticket = a.Ticket()
	say("hash", a.next.handshake)
	for _, m := range []struct {
		from, to *Conn
		name     string
		text     string
	}{{a, b, "client", "one"}, {a, b, "client", "two"}, {b, a, "server", "three"}, {a, b, "client", ""}} {
		say(m.name+"_says", []byte(m.text))
		if err := m.from.Send([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
		if got, err := m.to.Receive(nil); err != nil || string(got) != m.text {
			t.Fatalf("%s: received %q, %v", v.name, got, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Receive(nil); err != io.EOF {
		t.Errorf("%s: the end: %v", v.name, err)
	}
	_ = b.Close()
	<-ended
	<-ended
	for _, f := range up {
		say("client_frame", f)
	}
	for _, f := range down {
		say("server_frame", f)
	}
	say("next_ticket_id", v.ticket.id[:])
	say("next_ticket_key", v.ticket.key[:])
}

// TestVectors: with known random numbers each byte on the wire is known. A change of the
// file is a change of the wire format.
func TestVectors(t *testing.T) {
	var all strings.Builder
	all.WriteString("# Test vectors of docs/channel.md: a name and a value in hex per line; frames in their order of each direction.\n")
	for _, suite := range []Suite{AESGCM, ChaChaPoly} {
		fresh := &vector{name: "fresh " + suite.String(), suite: suite}
		fresh.make(t)
		resumed := &vector{name: "resumed " + suite.String(), suite: suite, resume: fresh.ticket, known: true}
		resumed.make(t)
		again := &vector{name: "unknown ticket " + suite.String(), suite: suite, resume: fresh.ticket}
		again.make(t)
		for _, v := range []*vector{fresh, resumed, again} {
			all.WriteString("\n" + v.written.String())
		}
	}
	if *update {
		if err := os.WriteFile(vectorsFile, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(all.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s, line %d: %.100s, this code has %.100s", vectorsFile, i+1, line, append(got, "nothing")[min(i, len(got))])
		}
	}
	if len(got) != strings.Count(string(want), "\n")+1 {
		t.Errorf("%s is too short", vectorsFile)
	}
}

// TestSecondImplementation: a program in another language, written from docs/channel.md,
// comes to the same bytes, and finds a byte that was changed.
func TestSecondImplementation(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("no java here, which runs the second implementation of the handshake")
	}
	check := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), java, "../workloads/channel-java/Channel.java", file).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := check(vectorsFile); err != nil || out != "6 vectors reproduced" {
		t.Errorf("%s: %v", out, err)
	}
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte("client_frame ")) + len("client_frame ") + 20
	text[at] = map[bool]byte{true: '1', false: '0'}[text[at] == '0']
	changed := t.TempDir() + "/vectors.txt"
	if err := os.WriteFile(changed, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := check(changed); err == nil || !strings.Contains(out, "client_frame") {
		t.Errorf("a changed vector: %q, %v", out, err)
	}
}
