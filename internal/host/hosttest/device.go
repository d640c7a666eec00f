package hosttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// fakeDevices gives h sockets, ioctls and files of other processes.
func fakeDevices(t testing.TB, h *host.Host, ioctls string) {
	t.Helper()
	answers, err := parseIoctls(ioctls)
	if err != nil {
		t.Fatalf("ioctl: %v", err)
	}
	h.Dial = func(ctx context.Context, socket string) (net.Conn, error) {
		talk, err := h.ReadFile(socket)
		if err != nil {
			return nil, err
		}
		here, there := net.Pipe()
		go converse(there, talk)
		if end, ok := ctx.Deadline(); ok {
			_ = here.SetDeadline(end)
		}
		return here, nil
	}
	h.Ioctl = func(device string, request uint, arg []byte, refs ...host.Ref) error {
		if _, err := h.Stat(device); err != nil {
			return err
		}
		a, ok := answers[fmt.Sprintf("%s %x %x", device, request, arg)]
		if !ok {
			return fmt.Errorf("ioctl %#x with %x on %s: not recorded: %w", request, arg, device, unix.ENOTTY)
		}
		if a.err != nil {
			return fmt.Errorf("ioctl %#x on %s: %w", request, device, a.err)
		}
		for i, to := range append([][]byte{arg}, data(refs)...) {
			if i < len(a.bytes) {
				copy(to, a.bytes[i])
			}
		}
		return nil
	}
	h.Borrow = func(pid, fd int) (host.Borrowed, error) {
		text, err := h.ReadFile(fmt.Sprintf("/fd/%d/%d", pid, fd))
		if err != nil {
			return nil, fmt.Errorf("duplicate file %d of process %d: %w", fd, pid, err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			return nil, fmt.Errorf("fixture fd/%d/%d: %w", pid, fd, err)
		}
		return borrowed{bytes.NewReader(b)}, nil
	}
}

// converse plays the other side of a socket: the first line at once, then one
// for each that it receives. It listens while it speaks, as a socket's buffer does.
func converse(c net.Conn, talk []byte) {
	defer c.Close()
	heard := make(chan struct{}, bytes.Count(talk, []byte("\n"))+1)
	go func() {
		defer close(heard)
		in := bufio.NewReader(c)
		for range cap(heard) {
			if _, err := in.ReadBytes('\n'); err != nil {
				return
			}
			heard <- struct{}{}
		}
	}()
	for line := range bytes.Lines(talk) {
		if _, err := c.Write(line); err != nil {
			return
		}
		if _, ok := <-heard; !ok {
			return
		}
	}
}

type borrowed struct{ io.ReaderAt }

// Close implements host.Borrowed.
func (borrowed) Close() error { return nil }

func data(refs []host.Ref) (out [][]byte) {
	for _, r := range refs {
		out = append(out, r.Data)
	}
	return out
}

type answer struct {
	bytes [][]byte // of the argument, then of each buffer it points at
	err   error
}

func parseIoctls(s string) (map[string]answer, error) {
	out := map[string]answer{}
	for line := range lines(s) {
		asked, said, ok := strings.Cut(line, " -> ")
		if !ok {
			return nil, fmt.Errorf("%q: want \"device request argument -> answer\"", line)
		}
		var a answer
		if errno, ok := errnos[said]; ok {
			a.err = errno
		} else {
			for _, word := range strings.Fields(said) {
				b, err := hex.DecodeString(word)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", line, err)
				}
				a.bytes = append(a.bytes, b)
			}
		}
		out[asked] = a
	}
	return out, nil
}
