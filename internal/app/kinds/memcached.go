package kinds

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/app"
	"github.com/teescope/teescope/internal/host"
)

// memcached speaks its text protocol (doc/protocol.txt, "General-purpose
// statistics"). Its meta commands are counted by what they do.
var memcached = app.App{
	Name:    "memcached",
	Doc:     "Commands of memcached that read or change items, from its stats: reads, writes, touches, deletions, increments, decrements and flushes",
	Address: "127.0.0.1:11211 or the path of a unix socket",
	Check:   app.CheckSocket,
	Read: func(ctx context.Context, h *host.Host, t app.Target) (float64, error) {
		c, err := app.Dial(ctx, h, t.Address)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if _, err := c.Write([]byte("stats\r\n")); err != nil {
			return 0, err
		}
		return memcachedStats(bufio.NewReader(c))
	},
}

var memcachedCommands = []string{"cmd_get", "cmd_set", "cmd_touch", "cmd_flush",
	"delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses"}

// memcachedStats adds up the counters of commands.
func memcachedStats(r *bufio.Reader) (float64, error) {
	sum, found := 0.0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, unexpected("a line of stats", line, err)
		}
		text := strings.TrimSpace(string(line))
		f := strings.Fields(text)
		switch {
		case text == "END" && found:
			return sum, nil
		case text == "END":
			return 0, errors.New("its stats have no cmd_get")
		case len(f) < 2 || f[0] != "STAT":
			return 0, unexpected("a line of stats", line, nil)
		case len(f) == 3 && slices.Contains(memcachedCommands, f[1]):
			n, err := count(f[2])
			if err != nil {
				return 0, err
			}
			sum += n
			found = found || f[1] == "cmd_get"
		}
	}
}
