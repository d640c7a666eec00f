package launchers

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestCardLost: what the guest shows of its card tells why there is no network.
func TestCardLost(t *testing.T) {
	const head = "capture 1\ncpuid 0 0 16 756e6547 6c65746e 49656e69\nfact release 6.1.0\n"
	for capture, want := range map[string]string{
		head + "file " + carrier + " 1\\n\nend 3\n":                 "",
		head + "file " + carrier + " 0\\n\nend 3\n":                 "the guest's card eth0 has no link",
		head + "error " + carrier + " 22 Invalid argument\nend 3\n": "the guest's card eth0 is down",
		head + "end 2\n": "the guest's card eth0 is gone",
		head:             "",
		"":               "",
		head + "file " + carrier + "_changes 0\\n\nend 3\n": "the guest's card eth0 is gone",
	} {
		t.Run(capture, func(t *testing.T) {
			if got := cardLost(capture); got != want {
				t.Errorf("%q: %q, want %q", capture, got, want)
			}
		})
	}
}

// captured is a guest that shows its card as given.
func captured(t *testing.T, text string) *vm {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	go func() {
		_, _ = far.Write(frame(nil, 'H', []byte("4 0 x86_64 6.1 0 1")))
		if tag, _, err := receive(far); err != nil || tag != 'X' {
			t.Errorf("the guest was asked %q, %v", tag, err)
		}
		b := frame(nil, 'K', nil)
		b = frame(b, 'o', append([]byte{1}, text...))
		_, _ = far.Write(frame(b, 'Z', []byte("\x010 0 1 1 1")))
	}()
	a, err := meetAgent(near)
	if err != nil {
		t.Fatal(err)
	}
	h := host.Local()
	p, err := h.Start(t.Context(), host.Cmd{Argv: []string{"sleep", "6000"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return &vm{h: h, params: bench.Params{"net": netUser}, agent: a, process: p}
}

// TestNetworkLost: the error of a run, or its success, becomes one that names the lost network, and a run whose network is
// there stays as it is.
func TestNetworkLost(t *testing.T) {
	failed := errors.New("run teescope-work: exit status 1")
	const here, gone = "capture 1\nfile " + carrier + " 1\\n\nend 1\n", "capture 1\nend 0\n"
	for _, err := range []error{failed, nil} {
		if got := captured(t, here).connected(t.Context(), err); !errors.Is(got, err) {
			t.Errorf("with a network %v becomes %v", err, got)
		}
		got := captured(t, gone).connected(t.Context(), err)
		if !errors.Is(got, errNetwork) || err != nil && !errors.Is(got, err) || !strings.HasPrefix(got.Error(), "the guest has lost its network: the guest's card eth0 is gone") {
			t.Errorf("without one %v becomes %v", err, got)
		}
	}
	v := &vm{h: host.At(t.TempDir()), params: bench.Params{"net": netTap}}
	if got := v.connected(t.Context(), failed); !errors.Is(got, errNetwork) || !strings.Contains(got.Error(), v.net.name()+" is gone or down: run teescope-work") {
		t.Errorf("without the tap: %v", got)
	}
	if got := v.connected(t.Context(), errLost); got != errLost {
		t.Errorf("of a guest that is lost, %v is said", got)
	}
}

// monitored is a QEMU whose control socket has events before the answer to a question.
func monitored(t *testing.T, events ...string) *qmp {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	go func() {
		_, _ = io.WriteString(far, `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""}, "capabilities": []}}`+"\n")
		for asked := json.NewDecoder(far); ; {
			var q struct{ Execute string }
			if asked.Decode(&q) != nil {
				return
			}
			if q.Execute == "query-status" {
				_, _ = io.WriteString(far, strings.Join(events, "\n")+"\n")
				events = nil
			}
			_, _ = io.WriteString(far, `{"return": {"running": true}}`+"\n")
		}
	}()
	q, err := newQMP(near, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestDiskFault: an error of this machine's file under a guest's disk is reported once, the first one, and by its reason.
func TestDiskFault(t *testing.T) {
	const at = `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": `
	full := at + `"BLOCK_IO_ERROR", "data": {"device": "data", "node-name": "#block143", "operation": "write", "action": "report", "nospace": true, "reason": "No space left on device"}}`
	worse := at + `"BLOCK_IO_ERROR", "data": {"device": "root", "node-name": "#block1", "operation": "read", "action": "report", "nospace": false, "reason": "Input/output error"}}`
	other := at + `"RTC_CHANGE", "data": {"offset": 0, "qom-path": "/machine"}}`
	for want, events := range map[string][]string{"": {other}, "write disk data: No space left on device": {other, full, worse}, "read disk root: Input/output error": {worse, worse}} {
		t.Run(want, func(t *testing.T) {
			v := &vm{qmp: monitored(t, events...)}
			if got := v.diskFault(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got := v.diskFault(); got != "" {
				t.Errorf("again: %q", got)
			}
		})
	}
}
