package build

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

// TestInfo: what version prints, with all that a program can say and with the least.
func TestInfo(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 5, 6, 0, time.UTC)
	whole := Info{Version: "v0.1.0", Commit: ptr("0123456789abcdef0123456789abcdef01234567"), CommittedAt: &at, Modified: ptr(true), Go: "go1.26.0", OS: "linux", Arch: "arm64", Kind: Full, Prometheus: ptr("3.15.0")}
	for _, c := range []struct {
		info Info
		text string
		json string
	}{
		{whole, `teescope v0.1.0 (full) linux/arm64
commit: 0123456789abcdef0123456789abcdef01234567 of 2026-11-30T04:05:06Z, modified
compiler: go1.26.0
embedded Prometheus: 3.15.0
`, `{"version":"v0.1.0","commit":"0123456789abcdef0123456789abcdef01234567","committed_at":"2026-11-30T04:05:06Z","modified":true,"go":"go1.26.0","os":"linux","arch":"arm64","kind":"full","prometheus":"3.15.0"}`},
		{Info{Version: "devel", Go: "go1.26.0", OS: "windows", Arch: "amd64", Kind: Client}, `teescope devel (client) windows/amd64
commit: unknown
compiler: go1.26.0
`, `{"version":"devel","commit":null,"committed_at":null,"modified":null,"go":"go1.26.0","os":"windows","arch":"amd64","kind":"client","prometheus":null}`},
	} {
		t.Run(c.text, func(t *testing.T) {
			var text strings.Builder
			if err := c.info.print(&text); err != nil || text.String() != c.text {
				t.Errorf("got %q, %v, want %q", text.String(), err, c.text)
			}
			if b, err := json.Marshal(c.info); err != nil || string(b) != c.json {
				t.Errorf("got %s, %v, want %s", b, err, c.json)
			}
		})
	}
}

// TestCommand: the command says what this program is.
func TestCommand(t *testing.T) {
	var out bytes.Buffer
	c := Command(&out, Agent, "")
	c.SetArgs([]string{"--json"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var got Info
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Version != Version() || got.Kind != Agent || got.OS != runtime.GOOS || got.Arch != runtime.GOARCH || got.Go != runtime.Version() || got.Prometheus != nil {
		t.Errorf("got %+v", got)
	}
	out.Reset()
	c = Command(&out, Agent, "")
	c.SetArgs(nil)
	if err := c.Execute(); err != nil || strings.Contains(out.String(), "Prometheus") || !strings.HasPrefix(out.String(), "teescope "+Version()+" (agent) ") {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestVersion: a release, a build in a clone, and what `go install` took have a version; a build outside of a repository has none.
func TestVersion(t *testing.T) {
	clone := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	for name, c := range map[string]struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		"release":                 {"v0.2.0", &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: clone}, "v0.2.0"},
		"clone":                   {"", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261130201842-0123456789ab+dirty"}, Settings: clone}, "devel-0123456789ab"},
		"go install":              {"", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "v0.1.0"},
		"outside of a repository": {"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		"nothing known":           {"", nil, "devel"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := versionOf(c.linked, c.info); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
