package counting

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// TestAskInALongFolder: the server in an environment is reached however long the path of its work folder is.
func TestAskInALongFolder(t *testing.T) {
	if micro.Program == nil {
		t.Skip("no worker was built for this architecture")
	}
	temp := filepath.Join(t.TempDir(), strings.Repeat("x", host.MostSocketPath))
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	native := launcherNamed(t, "native")
	p, err := bench.Complete("launcher native", native.Params, nil)
	if err != nil {
		t.Fatal(err)
	}
	env, err := native.Open(t.Context(), host.Local(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"pwd"}, Dir: "{work}"},
		Files: []bench.File{{Name: filepath.Base(insideWorker), Data: micro.Program, Exec: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(strings.TrimSuffix(string(out.Inside.Stdout), "\n")) // as the server has it
	l, err := net.Listen("unix", insideSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan request, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		var q request
		_ = json.NewDecoder(conn).Decode(&q)
		asked <- q
		_ = json.NewEncoder(conn).Encode(answer{})
		_ = conn.Close()
	}()
	c := &insideCounters{env: env}
	if _, err := c.roundTrip(t.Context(), request{Window: windowTo}); err != nil {
		t.Fatal(err)
	}
	if q := <-asked; q.Window != windowTo {
		t.Errorf("the server was asked %+v", q)
	}
}

func launcherNamed(t *testing.T, name string) *bench.Launcher {
	t.Helper()
	for _, l := range launchers.All {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no launcher is called %s", name)
	return nil
}
