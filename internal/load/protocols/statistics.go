package protocols

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/teescope/teescope/internal/load"
)

// dialed calls f with a new connection to where the statistics are, without TLS.
func dialed(ctx context.Context, o *load.Options, f func(net.Conn) error) error {
	d := net.Dialer{Timeout: o.Timeout}
	c, err := d.DialContext(ctx, o.Network, cmp.Or(o.StatisticsAddress, o.Address))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(o.Timeout))
	return f(c)
}

// sorted puts values that are numbers on one side and all others on the other.
func sorted(numbers map[string]float64, words map[string]string, name, v string) {
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		numbers[name] = n
	} else {
		words[name] = v
	}
}

// versionOf leaves the server's version of what it says in words.
func versionOf(words map[string]string, name string) map[string]string {
	if v := words[name]; v != "" {
		return map[string]string{name: v}
	}
	return nil
}

var redisStatistics = load.Statistics{
	Name: "redis", Doc: "INFO of Redis.",
	Gauges: []string{"used_memory", "used_memory_rss", "used_memory_peak", "connected_clients", "maxclients", "instantaneous_ops_per_sec", "mem_fragmentation_ratio",
		"instantaneous_input_kbps", "instantaneous_output_kbps", "blocked_clients", "total_system_memory", "maxmemory", "used_memory_dataset", "used_memory_overhead", "io_threads_active"},
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		numbers, words := map[string]float64{}, map[string]string{}
		err := dialed(ctx, o, func(c net.Conn) error {
			if o.Ask.Password != "" {
				if _, err := ask(c, "AUTH", o.Ask.Password); err != nil {
					return err
				}
			}
			r, err := ask(c, "INFO")
			if err != nil {
				return err
			}
			readInfo(r.text, numbers, words)
			return nil
		})
		return numbers, versionOf(words, "redis_version"), err
	},
}

// readInfo reads lines "name:value".
func readInfo(text []byte, numbers map[string]float64, words map[string]string) {
	for l := range bytes.Lines(text) {
		if name, v, ok := strings.Cut(strings.TrimSpace(string(l)), ":"); ok {
			sorted(numbers, words, name, v)
		}
	}
}

var memcachedStatistics = load.Statistics{
	Name: "memcached", Doc: "The stats of memcached.",
	Gauges: []string{"curr_connections", "curr_items", "bytes", "limit_maxbytes", "threads", "max_connections", "connection_structures", "pid", "pointer_size", "time"},
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		numbers, words := map[string]float64{}, map[string]string{}
		err := dialed(ctx, o, func(c net.Conn) error {
			if _, err := c.Write([]byte("stats\r\nquit\r\n")); err != nil {
				return err
			}
			text, err := io.ReadAll(io.LimitReader(c, mostHead))
			if !bytes.HasSuffix(text, []byte("END\r\n")) {
				return errors.Join(err, fmt.Errorf("stats: the server answers %.80q", text))
			}
			for l := range bytes.Lines(text) {
				if f := strings.Fields(string(l)); len(f) == 3 && f[0] == "STAT" {
					sorted(numbers, words, f[1], f[2])
				}
			}
			return nil
		})
		return numbers, versionOf(words, "version"), err
	},
}

var nginxStatistics = load.Statistics{
	Name: "nginx", Doc: "The page of ngx_http_stub_status_module at /stub_status, without TLS.",
	Gauges: []string{"active", "reading", "writing", "waiting"},
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		numbers, words := map[string]float64{}, map[string]string{}
		err := dialed(ctx, o, func(c net.Conn) error {
			if _, err := c.Write([]byte("GET /stub_status HTTP/1.0\r\n\r\n")); err != nil {
				return err
			}
			page, err := io.ReadAll(io.LimitReader(c, mostHead))
			if err != nil {
				return err
			}
			return readStub(string(page), numbers, words)
		})
		return numbers, versionOf(words, "server"), err
	},
}

// readStub reads the page of stub_status with its head.
func readStub(page string, numbers map[string]float64, words map[string]string) error {
	head, text, _ := strings.Cut(page, "\r\n\r\n")
	for l := range strings.Lines(head) {
		if name, v, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && strings.EqualFold(name, "server") {
			words["server"] = v
		}
	}
	var active, accepts, handled, requests, reading, writing, waiting float64
	n, err := fmt.Sscanf(text, "Active connections: %g\nserver accepts handled requests\n %g %g %g\nReading: %g Writing: %g Waiting: %g",
		&active, &accepts, &handled, &requests, &reading, &writing, &waiting)
	if err != nil || n != 7 {
		return fmt.Errorf("stub_status: the server answers %.60q", text)
	}
	numbers["active"], numbers["accepts"], numbers["handled"], numbers["requests"] = active, accepts, handled, requests
	numbers["reading"], numbers["writing"], numbers["waiting"] = reading, writing, waiting
	return nil
}

// postgresStatistics are the sums over all databases, and the blocks of the
// background writer.
var postgresStatistics = load.Statistics{
	Name: "postgres", Doc: "The sums of pg_stat_database of PostgreSQL.",
	Gauges: []string{"numbackends"},
	// A backend hands its counts in at most once a second, and what is left when it ends
	// (src/backend/utils/activity/pgstat.c).
	Late: true,
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		numbers, words := map[string]float64{}, map[string]string{}
		err := dialed(ctx, o, func(c net.Conn) error {
			config, err := postgresConfig(o.Ask, c)
			if err != nil {
				return err
			}
			p, err := pgconn.ConnectConfig(ctx, config)
			if err != nil {
				return err
			}
			if err := postgresAlone(ctx, p); err != nil {
				return errors.Join(err, p.Close(ctx))
			}
			names := []string{"numbackends", "xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched", "tup_inserted", "tup_updated", "tup_deleted"}
			rows, err := p.Exec(ctx, "SELECT sum("+strings.Join(names, "), sum(")+") FROM pg_stat_database").ReadAll()
			if err != nil || len(rows) != 1 || len(rows[0].Rows) != 1 {
				return errors.Join(err, errors.New("pg_stat_database gave no row"), p.Close(ctx))
			}
			for i, v := range rows[0].Rows[0] {
				sorted(numbers, words, names[i], string(v))
			}
			words["server_version"] = p.ParameterStatus("server_version")
			return p.Close(ctx)
		})
		return numbers, versionOf(words, "server_version"), err
	},
}

// postgresAlone waits until no other connection of ours has a backend: it goes from the
// list after it has handed its counts in. One statement, as each is counted, too; the
// connection's deadline ends it.
func postgresAlone(ctx context.Context, p *pgconn.PgConn) error {
	_, err := p.Exec(ctx, `DO $$ BEGIN
		WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '`+postgresName+`' AND pid <> pg_backend_pid()) LOOP
			PERFORM pg_sleep(0.005), pg_stat_clear_snapshot();
		END LOOP;
	END $$`).ReadAll()
	if err != nil {
		return fmt.Errorf("wait for other connections of %s, whose counts are not in before they end: %w", postgresName, err)
	}
	return nil
}
