package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// switched is the state of a source that switches on and off by itself.
type switched struct {
	State, Reason, Seen string
	Auto                bool
}

func (m *monitor) switched(t *testing.T, name string) switched {
	t.Helper()
	body, err := fetch(m.url + "/api/teescope/v1/sources")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name string
		switched
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, s := range list {
		if s.Name == name {
			return s.switched
		}
	}
	t.Fatalf("no source %s", name)
	return switched{}
}

// TestSourcesSwitchThemselves: a monitor without a setting counts the transitions of an enclave's
// host program after it starts, and stops after it ended.
// The program stands for one over the Intel SDK: it has the names of the SDK's library and of its
// functions, and no enclave, because the test machines have no SGX.
// stand-in: sdk-program
func TestSourcesSwitchThemselves(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir, src := t.TempDir(), "../internal/probe/sources/testdata/runtimes/"
	name := fmt.Sprintf("enclave-%06x", rand.Uint32N(1<<24))
	lib, app := dir+"/libsgx_urts.so.2", dir+"/"+name
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-O2", "-o", lib, src + "urts.c"},
		{"-O2", "-o", app, src + "host.c", lib, "-Wl,-rpath," + dir},
	} {
		if out, err := exec.Command(tool(t, "cc", "gcc"), args...).CombinedOutput(); err != nil {
			t.Fatalf("compile: %v\n%s", err, out)
		}
	}
	m := startMonitor(t, "monitor", "--interval", "1s")
	// Tests of other packages may run such programs too.
	rests := func(name string) {
		t.Helper()
		await.Event(t, name+" waits", func() error {
			if s := m.switched(t, name); s.State != "off" || !strings.HasPrefix(s.Reason, "off until ") || !s.Auto || s.Seen != "" {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	rests("runtimes")
	rests("sgx_mappings")
	set := func(text string) {
		t.Helper()
		if _, err := m.call("POST", "/api/teescope/v1/sources/runtimes", text); err != nil {
			t.Fatal(err)
		}
	}

	c := exec.Command(app, "100", "7") // ECALLs, and OCALLs in each
	p := await.Converse(t, c)
	await.Event(t, "the source is on", func() error {
		if s := m.switched(t, "runtimes"); !strings.Contains(s.Seen, ") maps ") || s.State != "available" && s.State != "degraded" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	rests("sgx_mappings")
	for i := range 3 {
		if _, err := p.In.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		await.Event(t, "its transitions are counted", func() error {
			for metric, want := range map[string]float64{"entries": float64(100 * (i + 1)), "exits": float64(700 * (i + 1))} {
				if n := m.query(t, `tee_sgx_enclave_`+metric+`_total{runtime="intel_sgx_sdk"}`, "process")[name]; n != want {
					return fmt.Errorf("%v %s, want %v", n, metric, want)
				}
			}
			return nil
		})
	}

	set(`{"on": false}`)
	if s := m.switched(t, "runtimes"); s.State != "off" || s.Reason != "switched off" || s.Auto {
		t.Errorf("switched off by hand: %+v", s)
	}
	set(`{"auto": true}`)
	await.Event(t, "the source is on again", func() error {
		if s := m.switched(t, "runtimes"); s.State == "off" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})

	p.Stop(syscall.SIGKILL)
	rests("runtimes")
}
