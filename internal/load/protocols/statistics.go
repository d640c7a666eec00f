package protocols

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/servers"
)

var (
	redisStatistics     = statistics(&servers.Redis, "redis", "INFO of Redis.", "")
	memcachedStatistics = statistics(&servers.Memcached, "memcached", "The stats of memcached.", "")
	nginxStatistics     = statistics(&servers.Nginx, "nginx", "The page of ngx_http_stub_status_module at /stub_status, without TLS.", "/stub_status")
	postgresStatistics  = statistics(&servers.PostgreSQL, "postgres", "The sums of pg_stat_database of PostgreSQL.", "")
)

// statistics lets a load ask a server through package servers; page is the path if the
// server speaks HTTP.
func statistics(app *servers.App, name, doc, page string) load.Statistics {
	return load.Statistics{
		Name: name, Doc: doc, Gauges: app.Gauges, Late: app.Late,
		Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
			address := cmp.Or(o.StatisticsAddress, o.Address)
			q := servers.Question{
				Dial:    func(ctx context.Context) (net.Conn, error) { return dial(ctx, o) },
				Address: address, Password: o.Ask.Password,
				Plain: true, Await: postgresName,
			}
			if page != "" {
				q = servers.Question{Dial: q.Dial, Address: "http://" + address + page}
			}
			if app == &servers.PostgreSQL { // the only protocol here whose load logs in by name
				q.User, q.Database = o.Ask.User, o.Ask.Database
			}
			said, err := app.Ask(ctx, q)
			numbers := map[string]float64{}
			for name, v := range said {
				if n, err := strconv.ParseFloat(v, 64); err == nil && possible(n) {
					numbers[name] = n
				}
			}
			return numbers, versionOf(said, app.Version), err
		},
	}
}

// dial connects to the statistics' address, without TLS.
func dial(ctx context.Context, o *load.Options) (net.Conn, error) {
	d := net.Dialer{Timeout: o.Timeout}
	c, err := d.DialContext(ctx, o.Network, cmp.Or(o.StatisticsAddress, o.Address))
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(o.Timeout))
}

// dialed calls f with a connection to the statistics' address.
func dialed(ctx context.Context, o *load.Options, f func(net.Conn) error) error {
	c, err := dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return f(c)
}

// versionOf extracts the server's version from its words.
func versionOf(words map[string]string, name string) map[string]string {
	if v := words[name]; v != "" {
		return map[string]string{name: v}
	}
	return nil
}
