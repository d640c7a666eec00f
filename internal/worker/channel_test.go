package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/channelbench"
	"github.com/teescope/teescope/internal/host"
)

// measured runs the command and returns its report.
func measured(t *testing.T, args ...string) *channelbench.Report {
	t.Helper()
	var out, errs bytes.Buffer
	all := append([]string{"channel", "-windows", "2", "-window", "1ms", "-warm", "0s"}, args...)
	if code := Main(t.Context(), all, nil, &out, &errs); code != 0 {
		t.Fatalf("%v: status %d: %s", args, code, errs.String())
	}
	_, text, ok := bytes.Cut(out.Bytes(), []byte("begin\n"))
	var r channelbench.Report
	if err := json.Unmarshal(text, &r); !ok || err != nil {
		t.Fatalf("%v: %v in %.200s", args, err, out.String())
	}
	if r.Wrong != 0 || len(r.Variants) < 3 {
		t.Errorf("%v: %d wrong answers, %d variants", args, r.Wrong, len(r.Variants))
	}
	for _, v := range r.Variants {
		if len(v.Windows) != 2 || v.Windows[0].Operations == 0 || v.Windows[0].Seconds <= 0 {
			t.Errorf("%v: %s has windows %v", args, v.Name, v.Windows)
		}
	}
	return &r
}

func TestChannel(t *testing.T) {
	for _, args := range []string{
		"-measure echo -transport pipe -size 4096",
		"-measure echo -transport tcp -threads same",
		"-measure echo -transport unix -suite chacha20-poly1305 -message tensor",
		"-measure stream -transport tcp -size 100000",
		"-measure stream -transport pipe -message tensor",
		"-measure handshake -transport tcp -mutual",
		"-measure handshake -transport pipe -threads same -evidence simulated -quote-delay 1ms",
		"-measure codec -size 1536",
		"-measure codec -suite chacha20-poly1305 -message tensor",
	} {
		t.Run(args, func(t *testing.T) {
			r := measured(t, strings.Fields(args)...)
			if timed := r.Measure == "echo" || r.Measure == "handshake"; timed != (r.Variants[0].Histogram != "") {
				t.Errorf("operations are timed one by one: %v", !timed)
			}
			if r.Measure != "codec" && !strings.HasPrefix(r.TLS, "TLS_") {
				t.Errorf("TLS chose %q", r.TLS)
			}
		})
	}
}

// TestEveryPartHasASample: a window that is over before its first operation still times one, because a part without
// operations has no time per operation.
func TestEveryPartHasASample(t *testing.T) {
	for _, what := range []string{"codec", "echo", "stream", "handshake"} {
		t.Run(what, func(t *testing.T) {
			m := measurement{measure: what, transport: "pipe", suite: "aes-gcm", threads: "same", evidence: "mock", message: "bytes", size: 1536,
				windows: 1, window: time.Millisecond}
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
			var err error
			if m.proof, err = newEvidence(m.evidence, 0); err != nil {
				t.Fatal(err)
			}
			if m.wiring, err = newWiring(m.transport, "", "", pipeSize); err != nil {
				t.Fatal(err)
			}
			defer m.wiring.close()
			go func() { _ = newFar(m.proof, m.threads).serve(t.Context(), m.wiring.accept) }() // ends when the wiring is closed
			variants, err := m.variants(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range variants {
				if n, took, err := v.window(0, func(time.Duration) {}); err != nil || n == 0 || took <= 0 {
					t.Errorf("%s: %d operations in %v, %v", v.name, n, took, err)
				}
			}
		})
	}
}

// TestChannelInALongFolder: a socket is made whatever the length of the temporary folder, and nothing is left there.
func TestChannelInALongFolder(t *testing.T) {
	temp := filepath.Join(t.TempDir(), strings.Repeat("x", host.MostSocketPath))
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	if r := measured(t, "-measure", "echo", "-transport", "unix", "-size", "4096"); len(r.Variants) == 0 {
		t.Error("nothing was measured")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestChannelOverVsock(t *testing.T) {
	if _, err := os.Stat("/sys/module/vsock_loopback"); err != nil {
		t.Skip("the module vsock_loopback is not loaded")
	}
	measured(t, "-measure", "echo", "-transport", "vsock", "-size", "4096")
}

// TestChannelApart has the far side in another instance of the command.
func TestChannelApart(t *testing.T) {
	address := free(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string)
	go func() {
		var errs bytes.Buffer
		Main(ctx, []string{"channel", "-listen", address}, nil, &bytes.Buffer{}, &errs)
		ended <- errs.String()
	}()
	for _, measure := range []string{"echo", "stream", "handshake"} {
		measured(t, "-measure", measure, "-connect", address)
	}
	stop()
	if said := <-ended; said != "" {
		t.Errorf("the far side said %s", said)
	}
}

func TestChannelRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"-measure speed":                       "-measure",
		"-size 3":                              "-size",
		"-message tensor -size 100":            "-size",
		"-windows 0":                           "-windows",
		"-listen :1 -connect :2":               "-listen",
		"-listen :1 -transport pipe":           "-transport",
		"-connect :1 -evidence simulated":      "-evidence",
		"-connect nowhere -transport vsock":    "-connect",
		"-evidence configfs-tsm -measure echo": "configfs-tsm",
	} {
		t.Run(args, func(t *testing.T) {
			var errs bytes.Buffer
			if code := Main(t.Context(), append([]string{"channel"}, strings.Fields(args)...), nil, &bytes.Buffer{}, &errs); code == 0 || !strings.Contains(errs.String(), want) {
				t.Errorf("%s: status %d, %s, want it to name %s", args, code, errs.String(), want)
			}
		})
	}
}
