package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// asked is a server with a request counter, and how to increase it.
type asked struct {
	process string
	config  string       // its entry in the configuration
	drive   func(n int)  // n requests
	reset   func() error // restarts it, if not nil
	load    []string     // flags of the load generator, if it speaks to it
	answers string       // the system call of each answer
	asks    float64      // how many requests a reading of the counter is
}

// starts are the servers that count their requests.
var starts = map[string]func(t *testing.T, dir, name string) (s asked, missing string){
	"redis": askedRedis, "nginx": askedNginx, "postgresql": askedPostgres, "memcached": askedMemcached, "openmetrics": askedPage,
}

// named is a program under a name of this test's own: the kernel names a process by the link.
func named(t *testing.T, dir, name, exe string) string {
	t.Helper()
	link := filepath.Join(dir, name)
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// TestRequests: the counters of real servers grow by the requests made, also across a restart and independently of
// other servers.
func TestRequests(t *testing.T) {
	t.Parallel()
	needRoot(t)
	var servers []asked
	for name, start := range starts {
		s, missing := start(t, t.TempDir(), "rq-"+name)
		if missing != "" {
			t.Logf("%s is left out: %s", name, missing)
			continue
		}
		servers = append(servers, s)
	}
	config := filepath.Join(t.TempDir(), "teescope.yaml")
	text := "requests:\n- {process: stuck, app: redis, address: \"" + stuck(t) + "\"}\n"
	for _, s := range servers {
		text += s.config + "\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "agent", "--config", config)
	total := regexp.MustCompile(`(?m)^tee_requests_total\{process="([^"]+)",app="[^"]+"\} (\S+)$`)
	read := func() map[string]float64 {
		t.Helper()
		page, err := fetch(m.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, l := range total.FindAllStringSubmatch(page, -1) {
			if out[l[1]], err = strconv.ParseFloat(l[2], 64); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	var before map[string]float64
	await.Event(t, "every server but the stuck one is counted", func() error {
		if before = read(); len(before) != len(servers) {
			return fmt.Errorf("%d servers, counted are %v", len(servers), before)
		}
		return nil
	})
	const n, few = 1000, 100 // few allows for the agent's own requests and the servers' own work
	for i, s := range servers {
		s.drive(n)
		if s.reset == nil {
			continue
		}
		await.Event(t, s.process+" is read before it ends", func() error {
			if got := read()[s.process] - before[s.process]; got < n {
				return fmt.Errorf("it counts %g of %d requests", got, n)
			}
			return nil
		})
		if err := servers[i].reset(); err != nil {
			t.Fatal(err)
		}
	}
	// Judge each server by the first page that has all its requests: every page reads all servers again. A server
	// that answers late is missing from a page.
	await.Event(t, "the counters have grown by what was asked", func() error {
		after := read()
		servers = slices.DeleteFunc(servers, func(s asked) bool {
			grown := after[s.process] - before[s.process]
			if grown > n+few {
				t.Errorf("%s: %g requests, made were %d", s.process, grown, n)
			}
			return grown >= n
		})
		for _, s := range servers {
			return fmt.Errorf("%s: %g requests, made were %d", s.process, after[s.process]-before[s.process], n)
		}
		return nil
	})
	await.Event(t, "the server that does not answer is named", func() error {
		body, err := fetch(m.url + "/api/teescope/v1/sources")
		if err != nil || !strings.Contains(body, "the server has not answered ") {
			return fmt.Errorf("%v, %s", err, body)
		}
		return nil
	})
}

// stuck accepts connections and never answers.
func stuck(t *testing.T) string {
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
			defer c.Close()
		}
	}()
	return l.Addr().String()
}

// converse sends lines and reads the same number of answers of one line each.
func converse(t *testing.T, address string, lines []string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for _, line := range lines {
		if _, err := fmt.Fprintf(c, "%s\r\n", line); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

func askedRedis(t *testing.T, dir, name string) (asked, string) {
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		return asked{}, "redis-server is not installed (package redis-server)"
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	exe = named(t, dir, name, exe)
	begin := func() *await.Program {
		p := start(t, exe, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--requirepass", "open sesame")
		waitPort(t, port)
		return p
	}
	p, address := begin(), fmt.Sprintf("127.0.0.1:%d", port)
	return asked{
		process: name,
		config:  fmt.Sprintf("- {process: %s, app: redis, address: %q, password_file: %s}", name, address, password),
		load:    []string{"--protocol", "resp", "--address", address, "--password", "open sesame", "--command", "GET key:{key}", "--keys", "100", "--populate", "--stats", "redis"},
		answers: "write",
		asks:    2, // one is the password
		drive: func(n int) {
			converse(t, address, append([]string{`AUTH "open sesame"`}, slices.Repeat([]string{"PING"}, n-1)...))
		},
		reset: func() error {
			p.Stop(syscall.SIGTERM)
			begin()
			return nil
		},
	}, ""
}

func askedNginx(t *testing.T, dir, name string) (asked, string) {
	exe, err := exec.LookPath("nginx")
	if err != nil {
		return asked{}, "nginx is not installed (package nginx-light)"
	}
	port, statistics := freePort(t), freePort(t)
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen 127.0.0.1:%[2]d; location / { return 200 "ok"; } location /status { stub_status; } }
	server { listen 127.0.0.1:%[3]d; location / { stub_status; } }
}`, dir, port, statistics)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, named(t, dir, name, exe), "-c", file, "-p", dir, "-e", "stderr")
	waitPort(t, port)
	address := fmt.Sprintf("http://127.0.0.1:%d/", port)
	return asked{
		process: name,
		config:  fmt.Sprintf("- {process: %s, app: nginx, address: %q}", name, address+"status"),
		load:    []string{"--protocol", "http1", "--address", fmt.Sprintf("127.0.0.1:%d", port), "--stats", "nginx", "--stats-address", fmt.Sprintf("127.0.0.1:%d", statistics)},
		answers: "writev",
		asks:    1,
		drive: func(n int) {
			for range n {
				if _, err := fetch(address); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, ""
}

func askedMemcached(t *testing.T, dir, name string) (asked, string) {
	exe, err := exec.LookPath("memcached")
	if err != nil {
		return asked{}, "memcached is not installed (package memcached)"
	}
	port := freePort(t)
	start(t, named(t, dir, name, exe), "-u", "nobody", "-l", "127.0.0.1", "-p", strconv.Itoa(port))
	waitPort(t, port)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	return asked{
		process: name,
		config:  fmt.Sprintf("- {process: %s, app: memcached, address: %q}", name, address),
		load:    []string{"--protocol", "memcached", "--address", address, "--command", "get key:{key}", "--keys", "100", "--populate", "--stats", "memcached"},
		answers: "sendmsg",
		// One command of each kind; each answers in one line.
		drive: func(n int) {
			kinds := []string{"get none", "delete none", "incr none 1", "touch none 1", "decr none 1"}
			var lines []string
			for i := range n {
				lines = append(lines, kinds[i%len(kinds)])
			}
			converse(t, address, lines)
		},
	}, ""
}

// askedPostgres runs PostgreSQL as its own user, because it refuses to run as root.
func askedPostgres(t *testing.T, dir, name string) (asked, string) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	u, err := user.Lookup("postgres")
	if len(found) == 0 || err != nil {
		return asked{}, "PostgreSQL is not installed (package postgresql)"
	}
	bin := filepath.Dir(found[len(found)-1])
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	// The test's own folder is below one that only root may enter, and its path may be too long for a socket.
	dir, err = host.Local().MkdirShort("teescope-postgres", ".s.PGSQL.65535", host.MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	as := func(exe string, args ...string) *exec.Cmd {
		c := exec.Command(exe, args...)
		c.Dir = dir
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	}
	if out, err := as(filepath.Join(bin, "initdb"), "-D", dir+"/data", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	port := freePort(t)
	await.Start(t, as(named(t, dir, name, filepath.Join(bin, "postgres")), "-D", dir+"/data", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir, "-c", "fsync=off", "-c", "autovacuum=off"))
	waitPort(t, port)
	connect := func() (*pgconn.PgConn, error) {
		return pgconn.Connect(context.Background(), fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", port))
	}
	await.Event(t, "PostgreSQL takes connections", func() error {
		c, err := connect()
		if err == nil {
			err = c.Close(context.Background())
		}
		return err
	})
	return asked{
		process: name,
		config:  fmt.Sprintf("- {process: %s, app: postgresql, address: %s/.s.PGSQL.%d}", name, dir, port),
		load:    []string{"--protocol", "postgres", "--address", fmt.Sprintf("127.0.0.1:%d", port), "--command", "SELECT {key}", "--keys", "100", "--stats", "postgres"},
		answers: "sendto",
		asks:    2, // one is its connection
		drive: func(n int) {
			c, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background()) // it reports its statistics when it ends
			for range n {
				if _, err := c.Exec(context.Background(), "SELECT 1").ReadAll(); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, ""
}

// askedPage is a server of our own with a page of metrics.
func askedPage(t *testing.T, _, name string) (asked, string) {
	var served atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "# TYPE served_total counter\nserved_total{code=\"200\"} %d\nserved_total{code=\"500\"} 3\n", served.Load())
			return
		}
		served.Add(1)
		_, _ = io.WriteString(w, "ok")
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	address := "http://" + l.Addr().String()
	return asked{
		process: name,
		config:  fmt.Sprintf("- {process: %s, app: openmetrics, address: %q, counter: served_total}", name, address+"/metrics"),
		drive: func(n int) {
			for range n {
				if _, err := fetch(address); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, ""
}
