package servers

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
)

// PostgreSQL reads the cumulative statistics
// (https://www.postgresql.org/docs/current/monitoring-stats.html).
var PostgreSQL = App{
	Name:    "postgresql",
	Doc:     "Transactions of all databases of PostgreSQL, committed and rolled back, from pg_stat_database; any user may read it, and each question is two, one of them its connection",
	Address: "127.0.0.1:5432 or /var/run/postgresql/.s.PGSQL.5432",
	Check: func(address string) error {
		_, _, err := pgAddress(address)
		return err
	},
	Read: requests(askPostgreSQL, func(sums map[string]string) (float64, error) {
		committed, err1 := count(sums["xact_commit"])
		rolledBack, err2 := count(sums["xact_rollback"])
		return committed + rolledBack, cmp.Or(err1, err2)
	}),
	Ask:     askPostgreSQL,
	Gauges:  []string{"numbackends"},
	Version: "server_version",
	// A backend reports its counts at most once a second, and the rest when it ends
	// (src/backend/utils/activity/pgstat.c).
	Late: true,
}

// The columns of pg_stat_database; the first count transactions.
var pgColumns = []string{"xact_commit", "xact_rollback", "numbackends", "blks_read", "blks_hit",
	"tup_returned", "tup_fetched", "tup_inserted", "tup_updated", "tup_deleted"}

const pgTransactions = 2

// askPostgreSQL returns the sums over all databases.
func askPostgreSQL(ctx context.Context, q Question) (map[string]string, error) {
	c, err := connect(ctx, q)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if q.Await != "" {
		if err := pgAwait(ctx, c, q.Await); err != nil {
			return nil, err
		}
	}
	columns := pgColumns
	if q.Brief {
		columns = columns[:pgTransactions]
	}
	rows, err := c.Exec(ctx, "SELECT sum("+strings.Join(columns, "), sum(")+") FROM pg_stat_database").ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0].Rows) != 1 || len(rows[0].Rows[0]) != len(columns) {
		return nil, errors.New("its pg_stat_database gave no sum")
	}
	out := map[string]string{"server_version": c.ParameterStatus("server_version")}
	for i, v := range rows[0].Rows[0] {
		out[columns[i]] = string(v)
	}
	return out, nil
}

// pgAwait waits until no other connection of a client has a backend: a backend
// leaves the list after it has reported its counts. It is one statement, since each
// is counted; the connection's deadline ends it.
func pgAwait(ctx context.Context, c *pgconn.PgConn, client string) error {
	_, err := c.Exec(ctx, `DO $$ BEGIN
		WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '`+strings.ReplaceAll(client, "'", "''")+`' AND pid <> pg_backend_pid()) LOOP
			PERFORM pg_sleep(0.005), pg_stat_clear_snapshot();
		END LOOP;
	END $$`).ReadAll()
	if err != nil {
		return fmt.Errorf("wait for the connections of %s to end, which count when they do: %w", client, err)
	}
	return nil
}

// longestMessage is far more than any that this question brings.
const longestMessage = 1 << 20

// connect opens a session, encrypted where the server can and the question allows.
func connect(ctx context.Context, q Question) (*pgconn.PgConn, error) {
	server, port, err := pgAddress(q.Address)
	if err != nil {
		return nil, err
	}
	mode := "prefer"
	if q.Plain {
		mode = "disable"
	}
	// What is not set here would come from the environment and ~/.pgpass.
	c, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s application_name=%s sslmode=%s passfile=''",
		quoted(server), port, quoted(cmp.Or(q.User, "postgres")), quoted(cmp.Or(q.Database, "postgres")), quoted(cmp.Or(q.Await, "teescope")), mode))
	if err != nil {
		return nil, err
	}
	c.Password = q.Password
	c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return q.Dial(ctx) }
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

// pgAddress splits an address into a host, or the folder of the socket, and a port,
// as PostgreSQL's clients take them.
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
