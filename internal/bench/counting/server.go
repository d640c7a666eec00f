//go:build linux

package counting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
)

// The ends of a counted window.
const (
	windowFrom = "from"
	windowTo   = "to"
)

// request is what the server is sent, as JSON without anything after it: begin, an end of the counted window, or end.
type request struct {
	Window    string
	End       bool
	Processes []string
}

// answer is the JSON that it sends back.
type answer struct {
	Counted bench.Counted
	Error   string
}

// ServeInside opens the sources and answers one client of a socket after the other. It ends with its context, or with the environment.
func ServeInside(ctx context.Context, h *host.Host, socket string) error {
	c := Open(h, tee.Detect(h, kinds.All))
	defer c.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var q request
		var a answer
		if err = json.NewDecoder(conn).Decode(&q); err == nil {
			if why := c.Reason(); why != "" {
				err = errors.New(why)
			} else if q.Window != "" {
				c.Window(ctx, q.Window == windowFrom)
			} else if q.End {
				a.Counted, err = c.Finish(ctx, q.Processes)
			} else {
				err = c.Begin(ctx)
			}
		}
		if err != nil {
			a.Error = err.Error()
		}
		_ = json.NewEncoder(conn).Encode(a) // a client that has gone asks again
		_ = conn.Close()
	}
}

// insideLimit is how long sources may take to open; an emulated processor needs most of it.
const insideLimit = 3 * time.Minute

// OpenInside starts the server, which is this program (self is its path), and waits until its sources are open. The socket is
// the name of one in the program's folder.
func OpenInside(ctx context.Context, h *host.Host, self, socket string) error {
	folder := filepath.Dir(self)
	log := filepath.Join(folder, socket+".log")
	if err := h.Detach(host.Cmd{Argv: []string{self, "bench", "inside", "serve", "--socket", socket}, Dir: folder}, log); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if ok, _ := h.Exists(filepath.Join(folder, socket)); ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			said, _ := h.ReadString(log) // none: it said nothing
			return fmt.Errorf("the sources were not open after %v: %s", insideLimit, contain.OneLine(errors.New(said)))
		}
	}
}
