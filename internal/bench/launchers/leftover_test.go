package launchers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestSweep opens an environment next to the leftovers of others.
func TestSweep(t *testing.T) {
	temp, disk, elsewhere := filepath.Join(t.TempDir(), "tmp[1]"), t.TempDir(), t.TempDir() // the signs of patterns are letters in a user's path
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	me, err := identity(host.Local(), "self")
	if err != nil {
		t.Fatal(err)
	}
	me += " " + namespace(host.Local())
	dead := "999999999 1 " + namespace(host.Local())
	for name, c := range map[string]struct {
		owner, data, short string
		mode               os.FileMode
		gone               bool
	}{
		"teescope-native-1": {dead, filepath.Join(disk, "teescope-native-1"), filepath.Join(elsewhere, "teescope-native-1"), 0o700, true},
		"teescope-native-2": {me, filepath.Join(disk, "teescope-native-2"), filepath.Join(elsewhere, "teescope-native-2"), 0o700, false},
		"teescope-native-3": {dead, disk, elsewhere, 0o777, false},
		"teescope-native-4": {"nonsense", "", "", 0o700, false},
		"teescope-native-5": {dead, disk, elsewhere, 0o700, true}, // the folder is removed, other folders of another name stay
		"teescope-runsc-6":  {dead, "", "", 0o700, false},
		"teescope-native-8": {"999999999 1 pid:[1]", disk, elsewhere, 0o700, false}, // it may live
		"other-native-7":    {dead, "", "", 0o700, false},
	} {
		folder := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Join(folder, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, c.mode); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{c.data, c.short} {
			if other != "" {
				if err := os.MkdirAll(other, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(folder, ownerFile), []byte(c.owner+"\n"+c.data+"\n"+c.short+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, err := os.Stat(folder)
			if gone := os.IsNotExist(err); gone != c.gone {
				t.Errorf("%s gone: %v, want %v", name, gone, c.gone)
			}
			for other, named := range map[string]bool{c.data: c.data != disk, c.short: c.short != elsewhere} {
				if other == "" {
					continue
				}
				_, err := os.Stat(other)
				if gone := os.IsNotExist(err); gone != (c.gone && named) {
					t.Errorf("%s: its folder %s gone: %v", name, other, gone)
				}
			}
		}()
	}
	open(t, &native, bench.Params{"data": disk})
}

// TestSweepEnds opens an environment while programs of killed harnesses still run: those that
// name a swept folder are ended, whether they react to a request or not, and no others.
func TestSweepEnds(t *testing.T) {
	temp, dead := t.TempDir(), "999999999 1 "+namespace(host.Local())
	t.Setenv("TMPDIR", temp)
	for name, c := range map[string]struct {
		owner, argument, env string
		ends                 bool
	}{
		"argument":    {dead, "WORK/job", "", true},
		"flag":        {dead, "--state=WORK", "", true},
		"environment": {dead, "", "TMPDIR=WORK", true},
		"longer name": {dead, "WORK1/job", "TMPDIR=WORK1", false},
		"alive":       {"", "WORK/job", "TMPDIR=WORK", false},
	} {
		work, err := os.MkdirTemp(temp, "teescope-native-*x")
		if err != nil {
			t.Fatal(err)
		}
		if c.owner == "" {
			if c.owner, err = identity(host.Local(), "self"); err != nil {
				t.Fatal(err)
			}
			c.owner += " " + namespace(host.Local())
		}
		if err := os.WriteFile(filepath.Join(work, ownerFile), []byte(c.owner+"\n\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := func(s string) string { return strings.ReplaceAll(s, "WORK", work) }
		// It ends in its own way, with status 7, once its input is closed, at the latest with this program.
		job := exec.Command("sh", "-c", "trap '' TERM; echo on; read x; exit 7", "sh", at(c.argument))
		job.Env = []string{at(c.env)}
		p := await.Converse(t, job)
		if line := p.Line(t); line != "on" {
			t.Fatalf("it says %q", line)
		}
		defer func() {
			_ = p.In.Close()
			if code := p.ExitStatus(t); (code == 7) == c.ends {
				t.Errorf("%s: %s; want killed: %v", name, p.Last(), c.ends)
			}
		}()
	}
	open(t, &native, nil)
}
