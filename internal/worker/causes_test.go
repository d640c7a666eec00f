package worker

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

func TestSkipCommand(t *testing.T) {
	for in, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":                 "",
		"*2\r\n$3\r\nGET\r\n$5\r\nk\r\n:1\r\n": "",
		"*0\r\n":                               "",
		"":                                     "EOF",
		"*1\r":                                 "unexpected EOF",
		"*1\r\n$4\r\nPI":                       "unexpected EOF",
		"*1\r\n":                               "unexpected EOF",
		"PING\r\n":                             "want * and a length",
		"*17\r\n":                              "at most 16",
		"*-1\r\n":                              "at most 16",
		"*1\r\n$65537\r\n":                     "at most 65536",
		"*1\r\n$1e3\r\n":                       "at most 65536",
		"*1\n":                                 "want * and a length",
		"*" + strings.Repeat("1", 5000):        "buffer full",
	} {
		for _, r := range []*bufio.Reader{bufio.NewReader(strings.NewReader(in)), bufio.NewReader(iotest.OneByteReader(strings.NewReader(in)))} {
			err := skipCommand(r)
			if want == "" && (err != nil || r.Buffered() > 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%.30q: %v, %d bytes left, want %q", in, err, r.Buffered(), want)
			}
		}
	}
}

// TestMutex: no turn is lost, whichever thread sleeps and is woken.
func TestMutex(t *testing.T) {
	const threads, times = 8, 2000
	var m mutex
	var all sync.WaitGroup
	n := 0
	for range threads {
		all.Go(func() {
			for range times {
				m.lock()
				n++
				m.unlock()
			}
		})
	}
	all.Wait()
	if n != threads*times || m.state.Load() != 0 {
		t.Errorf("%d turns, want %d; the lock is %d", n, threads*times, m.state.Load())
	}
}

// TestCauseServers: every arm of the known causes gives the same answers.
func TestCauseServers(t *testing.T) {
	for _, args := range []string{
		"clockserver --clock vdso", "clockserver --clock syscall --reads 3", "lockserver --locks split", "lockserver --locks shared --connections 2 --turns 3",
	} {
		address := free(t)
		ctx, stop := context.WithCancel(t.Context())
		var errs bytes.Buffer
		ended := make(chan int)
		go func() { ended <- Main(ctx, append(strings.Fields(args), "--address", address), nil, &errs, &errs) }()
		var c net.Conn
		var err error
		await.Event(t, args+" listens", func() error {
			select {
			case code := <-ended:
				t.Fatalf("%s: ended with %d: %s", args, code, &errs)
			default:
			}
			c, err = net.Dial("tcp", address)
			return err
		})
		r := bufio.NewReader(c)
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if line, err := r.ReadString('\n'); line != pong {
				t.Errorf("%s: answered %q: %v", args, line, err)
			}
		}
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("%s: ended with %d: %s", args, code, &errs)
		}
		_ = c.Close()
	}
}

// free returns an unused address on the loopback.
func free(t *testing.T) string {
	t.Helper()
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

func TestCauseFlags(t *testing.T) {
	for _, args := range []string{"clockserver --clock sundial", "clockserver --reads -1", "lockserver --locks none", "lockserver --turns 0", "lockserver --connections 5000", "faultserver --fault sleepy", "faultserver --bytes 0", "faultserver --certificate x"} {
		var errs bytes.Buffer
		if code := Main(t.Context(), strings.Fields(args), nil, &errs, &errs); code != exitFailed || !strings.Contains(errs.String(), "-") {
			t.Errorf("%s: status %d: %s", args, code, &errs)
		}
	}
}
