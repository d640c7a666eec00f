package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/teescope/teescope/internal/app"
	"github.com/teescope/teescope/internal/host"
)

// postgresql reads the cumulative statistics
// (https://www.postgresql.org/docs/current/monitoring-stats.html).
var postgresql = app.App{
	Name:    "postgresql",
	Doc:     "Transactions of all databases of PostgreSQL, committed and rolled back, from pg_stat_database; any user may read it, and each question makes a connection and is one",
	Address: "127.0.0.1:5432 or /var/run/postgresql/.s.PGSQL.5432",
	Check: func(address string) error {
		_, _, err := pgAddress(address)
		return err
	},
	Read: func(ctx context.Context, h *host.Host, t app.Target) (float64, error) {
		c, err := connect(ctx, h, t)
		if err != nil {
			return 0, err
		}
		defer c.Close(ctx)
		rows, err := c.Exec(ctx, "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database").ReadAll()
		if err != nil {
			return 0, err
		}
		if len(rows) != 1 || len(rows[0].Rows) != 1 || len(rows[0].Rows[0]) != 1 {
			return 0, errors.New("its pg_stat_database gave no sum")
		}
		return count(string(rows[0].Rows[0][0]))
	},
}

// longestMessage is far more than any that this question brings.
const longestMessage = 1 << 20

// connect opens a session, encrypted where the server can.
func connect(ctx context.Context, h *host.Host, t app.Target) (*pgconn.PgConn, error) {
	password, err := t.Password()
	if err != nil {
		return nil, err
	}
	server, port, err := pgAddress(t.Address)
	if err != nil {
		return nil, err
	}
	// What is not said here would be taken from the environment and ~/.pgpass.
	c, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s application_name=teescope sslmode=prefer passfile=''",
		quoted(server), port, quoted(cmp.Or(t.User, "postgres")), quoted(cmp.Or(t.Database, "postgres"))))
	if err != nil {
		return nil, err
	}
	c.Password = password
	c.DialFunc = func(ctx context.Context, _, address string) (net.Conn, error) { return app.Dial(ctx, h, address) }
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(longestMessage)
		return f
	}
	return pgconn.ConnectConfig(ctx, c)
}

// quoted is a value of a connection string.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// pgAddress makes of an address what PostgreSQL's clients take: a host, or the
// folder of the socket, and a port.
func pgAddress(address string) (server string, port uint16, err error) {
	number := ""
	if path.IsAbs(address) {
		var ok bool
		if number, ok = strings.CutPrefix(path.Base(address), ".s.PGSQL."); !ok {
			return "", 0, fmt.Errorf("%q: want a socket called .s.PGSQL.PORT", address)
		}
		server = path.Dir(address)
	} else if server, number, err = net.SplitHostPort(address); err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q: want a port", address)
	}
	return server, uint16(n), nil
}
