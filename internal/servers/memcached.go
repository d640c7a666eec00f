package servers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// Memcached speaks its text protocol (doc/protocol.txt, "General-purpose
// statistics"). Its meta commands are counted by what they do.
var Memcached = App{
	Name:    "memcached",
	Doc:     "Commands of memcached that read or change items, from its stats: reads, writes, touches, deletions, increments, decrements and flushes",
	Address: "127.0.0.1:11211 or the path of a unix socket",
	Check:   CheckSocket,
	Read:    requests(askMemcached, memcachedRequests),
	Ask:     askMemcached,
	Gauges:  []string{"curr_connections", "curr_items", "bytes", "limit_maxbytes", "threads", "max_connections", "connection_structures", "pid", "pointer_size", "time"},
	Version: "version",
}

func askMemcached(ctx context.Context, q Question) (map[string]string, error) {
	c, err := q.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "stats\r\n"); err != nil {
		return nil, err
	}
	said, err := memcachedStats(bufio.NewReader(c))
	dropImpossible(said, "uptime", "rusage_user", "rusage_system")
	return said, err
}

// mostStats is ten times what memcached has.
const mostStats = 1000

// memcachedStats reads lines "STAT name value" up to END.
func memcachedStats(r *bufio.Reader) (map[string]string, error) {
	out := map[string]string{}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, unexpected("a line of stats", line, err)
		}
		text := strings.TrimSpace(string(line))
		f := strings.SplitN(text, " ", 3)
		switch {
		case text == "END":
			return out, nil
		case len(f) < 2 || f[0] != "STAT":
			return nil, unexpected("a line of stats", line, nil)
		case len(f) == 3 && len(out) < mostStats:
			out[f[1]] = strings.TrimSpace(f[2])
		}
	}
}

var memcachedCommands = []string{"cmd_get", "cmd_set", "cmd_touch", "cmd_flush",
	"delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses"}

// memcachedRequests adds up the counters of commands.
func memcachedRequests(stats map[string]string) (float64, error) {
	if stats["cmd_get"] == "" {
		return 0, errors.New("its stats have no cmd_get")
	}
	sum := 0.0
	for _, name := range memcachedCommands {
		if v, ok := stats[name]; ok {
			n, err := count(v)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
