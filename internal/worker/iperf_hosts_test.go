package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// farIperf starts a far end on loopback, which ends with the test, and returns its ports.
func farIperf(t *testing.T) (iperf, control string) {
	t.Helper()
	ports, err := host.Local().FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var errs bytes.Buffer
	go func() {
		defer close(ended)
		code := Main(ctx, []string{"iperf", "--listen", "127.0.0.1:" + strconv.Itoa(ports[0]), "--control", strconv.Itoa(ports[1]), "--wireguard-port", strconv.Itoa(ports[2])}, nil, w, &errs)
		if code != 0 {
			t.Errorf("the far end: status %d: %s", code, errs.String())
		}
		_ = w.Close()
	}()
	t.Cleanup(func() { cancel(); <-ended })
	lines := bufio.NewScanner(r)
	var said []string
	for len(said) < 2 && lines.Scan() {
		said = append(said, lines.Text())
	}
	var end linkEnd
	if len(said) != 2 || said[1] != "listening" || json.Unmarshal([]byte(strings.TrimPrefix(said[0], "link ")), &end) != nil || end.Interface != "lo" || end.MTU == 0 || end.Offloads["gso"] == "" {
		t.Fatalf("it said %q", said)
	}
	return strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
}

// TestIperfHosts: a near and a far end on one machine, both directions. The document has both of iperf3's own.
func TestIperfHosts(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not here; package iperf3 has it")
	}
	for _, more := range [][]string{{"--rate", "1000000"}, {"--rate", "1000000", "--reverse"}, {"--rate", "1000000", "--udp", "--streams", "2"}} {
		t.Run(strings.Join(more, " "), func(t *testing.T) {
			t.Parallel()
			port, control := farIperf(t)
			out, errs, code := command(t.Context(), append([]string{"iperf", "--connect", "127.0.0.1:" + port, "--control", control, "--omit", "0s", "--measure", "2s"}, more...)...)
			if code != 0 {
				t.Fatalf("status %d: %s", code, errs)
			}
			link, document, _ := strings.Cut(out, "\n")
			var r struct {
				Client, Server struct {
					Intervals []struct{ Sum struct{ Bytes float64 } }
				}
			}
			if err := json.Unmarshal([]byte(document), &r); err != nil || !strings.HasPrefix(link, "link ") || !strings.Contains(link, `"path_mtu":`) {
				t.Fatalf("%v: %s", err, out)
			}
			client, server := 0.0, 0.0
			for _, i := range r.Client.Intervals {
				client += i.Sum.Bytes
			}
			for _, i := range r.Server.Intervals {
				server += i.Sum.Bytes
			}
			if client == 0 || server == 0 {
				t.Errorf("%v bytes at the client, %v at the server", client, server)
			}
		})
	}
}

// TestFarOrders: what is no order is refused with the reason, and the far end goes on.
func TestFarOrders(t *testing.T) {
	_, control := farIperf(t)
	c, err := net.Dial("tcp", "127.0.0.1:"+control)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hear := json.NewDecoder(c)
	for order, want := range map[string]string{
		`{"do":"end"}`:                            "unexpected order",
		`{"do":"begin"}`:                          "unexpected order",
		`{"do":"open","interval":"-1"}`:           "want seconds",
		`{"do":"open","interval":"; rm"}`:         "want seconds",
		`{"do":"open","interval":"1","key":"00"}`: "want 32",
		`{"do":"open","interval":"1","key":"zz"}`: "want 32",
		`{"do":"open","interval":"1","key":"` + strings.Repeat("00", 32) + `","mtu":1}`: "at least 1200",
		`{}`: "unexpected order",
	} {
		t.Run(order, func(t *testing.T) {
			if _, err := io.WriteString(c, order+"\n"); err != nil {
				t.Fatal(err)
			}
			var a farAnswer
			if err := hear.Decode(&a); err != nil || !strings.Contains(a.Error, want) {
				t.Errorf("%s: %v, %q, want %q", order, err, a.Error, want)
			}
		})
	}
	if _, err := io.WriteString(c, "no JSON\n"); err != nil {
		t.Fatal(err)
	}
}

// TestHostsRefuse: flags that do not fit together.
func TestHostsRefuse(t *testing.T) {
	for args, want := range map[string]string{
		"--connect 127.0.0.1 --control 1":            "missing port",
		"--connect 127.0.0.1:x --control 1":          "want HOST:PORT",
		"--listen nowhere --control 1":               "missing port",
		"--listen 127.0.0.1:1 --connect 127.0.0.1:1": "near or far",
		"--connect 127.0.0.1:1 --control junk":       "junk",
	} {
		t.Run(args, func(t *testing.T) {
			if _, errs, code := command(t.Context(), append([]string{"iperf"}, strings.Fields(args)...)...); code != exitFailed || !strings.Contains(errs, want) {
				t.Errorf("%s: status %d, %q, want %q", args, code, errs, want)
			}
		})
	}
}

// TestBothMachines: the CPU time of two machines is added, that of one counted once, and of what may be a guest nothing is said.
func TestBothMachines(t *testing.T) {
	near, far := map[string]float64{"busy": 1, "softirq": 0.5}, map[string]float64{"busy": 2, "softirq": 0.25}
	for name, c := range map[string]struct {
		end       *farEnd
		near, far map[string]float64
		busy      float64
		unknown   bool
	}{
		"no far end":      {nil, near, nil, 1, false},
		"one machine":     {&farEnd{hidden: true}, near, far, 1, false},
		"two":             {&farEnd{elsewhere: true}, near, far, 3, false},
		"one is unknown":  {&farEnd{elsewhere: true}, near, nil, 0, false},
		"behind a tunnel": {&farEnd{elsewhere: true, hidden: true}, near, far, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			sum, unknown := c.end.add(c.near, c.far)
			if sum["busy"] != c.busy || (sum == nil) != (c.busy == 0) || (unknown != "") != c.unknown || near["busy"] != 1 {
				t.Errorf("%s: %v, %q", name, sum, unknown)
			}
		})
	}
}
