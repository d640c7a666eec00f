package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	pages "github.com/teescope/teescope/internal/store/page"
)

// serve answers each connection with the other side of a conversation.
func serve(t *testing.T, talk func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); talk(c) }()
		}
	}()
	return l.Addr().String()
}

// read asks a target.
func read(t *testing.T, target Target) (float64, error) {
	t.Helper()
	return target.App.Read(t.Context(), host.Local(), target)
}

func check(t *testing.T, name string, got float64, err error, want string) {
	t.Helper()
	s := fmt.Sprint(got)
	if err != nil {
		s = err.Error()
	}
	if s != want && !(err != nil && strings.HasPrefix(want, "~") && strings.Contains(s, want[1:])) {
		t.Errorf("%s: got %s, want %s", name, s, want)
	}
}

func TestRedis(t *testing.T) {
	for answer, want := range map[string]string{
		"$60\r\n# Stats\r\ntotal_commands_processed:1234\r\nother:1\r\n....\r\n....\r\n\r\n": "1234",
		"$46\r\ntotal_commands_processed:9007199254740991\r\n..\r\n":                         "9.007199254740991e+15",
		"$47\r\ntotal_commands_processed:18446744073709551615\r\n":                           `~want a whole number`,
		"$34\r\ntotal_commands_processed:-1......\r\n":                                       `it counts "-1......"; want a whole number`,
		"$2\r\nOK\r\n": "its INFO has no total_commands_processed",
		"-NOAUTH Authentication \x1b[31mrequired.\r\n": `it refuses: "NOAUTH Authentication \x1b[31mrequired."`,
		"$-1\r\n":                  `it says "$-1\r\n"; want a length`,
		"$99999999999\r\n":         `it says "$99999999999\r\n"; want a length`,
		"$100\r\nshort":            "unexpected EOF",
		"":                         "EOF",
		"HTTP/1.1 400 Bad\r\n\r\n": `it says "HTTP/1.1 400 Bad\r\n"; want an answer`,
		strings.Repeat("x", 10000): "~want an answer",
	} {
		address := serve(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n")))
			_, _ = io.WriteString(c, answer)
		})
		got, err := read(t, Target{App: &Redis, Address: address})
		check(t, fmt.Sprintf("%.40q", answer), got, err, want)
	}
}

func TestRedisPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		var said []string
		for range 7 {
			line, _ := in.ReadString('\n')
			said = append(said, strings.TrimSpace(line))
		}
		if strings.Join(said, " ") != "*3 $4 AUTH $3 bob $11 secret word" {
			fmt.Fprintf(c, "-ERR %q\r\n", said)
			return
		}
		fmt.Fprint(c, "+OK\r\n$26\r\ntotal_commands_processed:7\r\n")
	})
	got, err := read(t, Target{App: &Redis, Address: address, User: "bob", PasswordFile: file})
	check(t, "with a password", got, err, "7")
	_, err = read(t, Target{App: &Redis, Address: address, PasswordFile: file + "-none"})
	check(t, "without the file", 0, err, "~no such file")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = read(t, Target{App: &Redis, Address: address, PasswordFile: file})
	check(t, "an empty file", 0, err, "~is empty")
}

func TestMemcached(t *testing.T) {
	for answer, want := range map[string]string{
		"STAT pid 1\r\nSTAT cmd_get 10\r\nSTAT cmd_set 5\r\nSTAT cmd_meta 3\r\nSTAT delete_hits 2\r\nSTAT incr_misses 1\r\nSTAT version 1.6 x\r\nEND\r\n": "18",
		"STAT cmd_set 5\r\nEND\r\n": "its stats have no cmd_get",
		"STAT cmd_get x\r\nEND\r\n": `it counts "x"; want a whole number`,
		"STAT cmd_get 1\r\n":        "EOF",
		"ERROR\r\n":                 `it says "ERROR\r\n"; want a line of stats`,
		strings.Repeat("S", 1<<20):  "~want a line of stats",
	} {
		address := serve(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("stats\r\n")))
			_, _ = io.WriteString(c, answer)
		})
		got, err := read(t, Target{App: &Memcached, Address: address})
		check(t, fmt.Sprintf("%.40q", answer), got, err, want)
	}
}

const stub = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630948 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n"

func TestNginx(t *testing.T) {
	page := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user+password != "" {
				body = fmt.Sprintf("server accepts handled requests\n1 1 %d\n", len(user+password))
			}
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL + "/status"
	}
	for _, x := range []struct{ name, address, user, want string }{
		{"as nginx says it", page(200, stub), "", "31070465"},
		{"an error", page(403, stub), "", `it answers "403 Forbidden" to /status`},
		{"elsewhere", page(302, stub), "", `it answers "302 Found" to /status`},
		{"another page", page(200, "<html>\x1b[31m"), "", `it says "<html>\x1b[31m"; want a page of stub_status`},
		{"cut", page(200, stub[:60]), "", "~want a page of stub_status"},
		{"garbage", page(200, "server accepts handled requests\n1 2 x\n"), "", `it counts "x"; want a whole number`},
		{"with a user", page(200, stub), "bob", "3"},
		{"no server", "http://127.0.0.1:1/", "", "~connection refused"},
	} {
		got, err := read(t, Target{App: &Nginx, Address: x.address, User: x.user})
		s := fmt.Sprintf("%.0f", got)
		if err != nil {
			s = ""
		}
		if s != x.want {
			check(t, x.name, got, err, x.want)
		}
	}
}

// TestOpenMetrics: the page is read in the format that the server says it has.
func TestOpenMetrics(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/open" {
			w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
			fmt.Fprint(w, "# TYPE orders counter\norders_total 41.0 # {trace_id=\"x\"} 1.0 1700000000.1\n# EOF\n")
			return
		}
		fmt.Fprint(w, "# TYPE orders_total counter\norders_total{path=\"/a\"} 40\norders_total{path=\"/b\"} 1\n")
	}))
	defer s.Close()
	for _, path := range []string{"/metrics", "/open"} {
		got, err := read(t, Target{App: &openMetrics, Address: s.URL + path, Counter: "orders_total", Pages: pages.Parser{}})
		check(t, path, got, err, "41")
	}
	_, err := read(t, Target{App: &openMetrics, Address: s.URL, Counter: "orders"})
	check(t, "without a reader", 0, err, "nothing here reads pages of metrics")
}

func TestPostgreSQL(t *testing.T) {
	// A message is its kind, its length and its bytes
	// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
	message := func(kind byte, body string) string {
		n := len(body) + 4
		return string([]byte{kind, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + body
	}
	hello := message('R', "\x00\x00\x00\x00") + message('Z', "I")
	column := "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06\xa4\xff\xff\xff\xff\xff\xff\x00\x00"
	row := func(values ...string) string {
		n := string([]byte{0, byte(len(values))})
		described, data := n, n
		for _, v := range values {
			described += "sum" + column
			data += "\x00\x00\x00" + string(rune(len(v))) + v
		}
		return message('T', described) + message('D', data) + message('C', "SELECT 1\x00") + message('Z', "I")
	}
	for _, x := range []struct{ name, hello, answer, want string }{
		{"a sum", hello, row("1200", "34"), "1234"},
		{"one column", hello, row("1234"), "its pg_stat_database gave no sum"},
		{"no number", hello, row("1", "1e5"), `it counts "1e5"; want a whole number`},
		{"no row", hello, message('C', "SELECT 0\x00") + message('Z', "I"), "its pg_stat_database gave no sum"},
		{"refused", message('E', "SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"), "", "~password authentication failed"},
		{"a message of a gigabyte", hello, "T\x40\x00\x00\x00", "~conn closed"},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", "", "~failed to receive message"},
		{"nothing", "", "", "~unexpected EOF"},
	} {
		address := serve(t, func(c net.Conn) {
			request := func() []byte { b := make([]byte, 4096); n, _ := c.Read(b); return b[:n] }
			if len(request()) == 8 { // for TLS, of which there is none
				_, _ = io.WriteString(c, "N")
				return
			}
			if _, _ = io.WriteString(c, x.hello); x.answer == "" {
				return
			}
			request()
			_, _ = io.WriteString(c, x.answer)
			request()
		})
		got, err := read(t, Target{App: &PostgreSQL, Address: address})
		check(t, x.name, got, err, x.want)
	}
}

// TestHostile: servers that block, or never stop, end with an error.
func TestHostile(t *testing.T) {
	silent := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	line := "STAT x 1\r\n"
	endless := serve(t, func(c net.Conn) {
		chunk := strings.Repeat(line, 1<<16/len(line))
		for {
			if _, err := io.WriteString(c, chunk); err != nil {
				return
			}
		}
	})
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("# a comment\n", 1000)); err != nil {
				return
			}
		}
	}))
	defer page.Close()
	for _, a := range All {
		for name, address := range map[string]string{"silent": silent, "endless": endless} {
			if a.Check(address) != nil {
				address = "http://" + address
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if got, err := a.Read(ctx, host.Local(), Target{App: a, Address: address, Counter: "x", Pages: pages.Parser{}}); err == nil {
				t.Errorf("%s, %s: got %v", a.Name, name, got)
			}
			cancel()
		}
	}
	for _, x := range []Target{{App: &Memcached, Address: endless}, {App: &openMetrics, Address: page.URL, Counter: "x", Pages: pages.Parser{}}, {App: &Nginx, Address: page.URL}} {
		if _, err := read(t, x); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v", x, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, a := range All {
		for example := range strings.SplitSeq(a.Address, " or ") {
			if err := a.Check(example); err != nil && !strings.Contains(example, " ") {
				t.Errorf("%s: its own example: %v", a.Name, err)
			}
		}
		for _, bad := range []string{"", "127.0.0.1", "ftp://x/", "http://", "relative/socket", "http://user:secret@localhost/"} {
			if a.Check(bad) == nil {
				t.Errorf("%s takes %q", a.Name, bad)
			}
		}
		if a.Doc == "" || a.Name == "" {
			t.Errorf("%+v says too little", a)
		}
	}
	for address, want := range map[string]string{
		"[::1]:5432": "::1 5432", "/run/postgresql/.s.PGSQL.5433": "/run/postgresql 5433",
		"/run/postgresql": "~want a socket", "h:0": "~want a port", "h:99999": "~want a port", "h:x": "~want a port",
	} {
		t.Run(address, func(t *testing.T) {
			host, port, err := pgAddress(address)
			if got := fmt.Sprint(host, " ", port); err == nil && got != want || err != nil && !strings.Contains("~"+err.Error(), strings.TrimPrefix(want, "~")) {
				t.Errorf("%s: got %s, %v, want %s", address, got, err, want)
			}
		})
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("$60\r\n# Stats\r\ntotal_commands_processed:1234\r\n"))
	f.Add([]byte("-ERR no\r\n"))
	f.Add([]byte("$-1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := reply(bufio.NewReader(strings.NewReader(string(b))))
		if err == nil && len(text) > len(b) {
			t.Errorf("%d bytes of %d", len(text), len(b))
		}
		for name, v := range readInfo(text) {
			if len(name)+len(v) >= len(text) {
				t.Errorf("%q is %q in %q", name, v, text)
			}
		}
	})
}

func FuzzPages(f *testing.F) {
	f.Add(stub)
	f.Add("STAT cmd_get 10\r\nSTAT cmd_set 5\r\nEND\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		for name, n := range map[string]func() (float64, error){
			"nginx": func() (float64, error) {
				page, err := stubStatus(s)
				if err != nil {
					return 0, err
				}
				return count(page["requests"])
			},
			"memcached": func() (float64, error) {
				stats, err := memcachedStats(bufio.NewReader(strings.NewReader(s)))
				if err != nil {
					return 0, err
				}
				return memcachedRequests(stats)
			},
		} {
			if v, err := n(); err == nil && !(v >= 0) {
				t.Errorf("%s: %g requests", name, v)
			}
		}
	})
}

// TestFileNames: server NAME is in the file NAME.go, dashes as underscores.
func TestFileNames(t *testing.T) {
	for _, m := range All {
		file := strings.ReplaceAll(m.Name, "-", "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: want its file to be called %s", m.Name, file)
		}
	}
}
