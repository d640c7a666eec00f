package launchers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestSweep opens an environment beside what others have left.
func TestSweep(t *testing.T) {
	temp, disk := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	me, err := identity(host.Local(), "self")
	if err != nil {
		t.Fatal(err)
	}
	const dead = "999999999 1"
	for name, c := range map[string]struct {
		owner, data string
		mode        os.FileMode
		gone        bool
	}{
		"teescope-native-1": {dead, filepath.Join(disk, "teescope-native-1"), 0o700, true},
		"teescope-native-2": {me, filepath.Join(disk, "teescope-native-2"), 0o700, false},
		"teescope-native-3": {dead, disk, 0o777, false},
		"teescope-native-4": {"nonsense", "", 0o700, false},
		"teescope-native-5": {dead, disk, 0o700, true}, // the folder goes, a data folder of another name stays
		"teescope-runsc-6":  {dead, "", 0o700, false},
		"other-native-7":    {dead, "", 0o700, false},
	} {
		folder := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Join(folder, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.data != "" && c.data != disk {
			if err := os.MkdirAll(c.data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(folder, ownerFile), []byte(c.owner+"\n"+c.data+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, err := os.Stat(folder)
			if gone := os.IsNotExist(err); gone != c.gone {
				t.Errorf("%s gone: %v, want %v", name, gone, c.gone)
			}
			if c.data != "" {
				_, err := os.Stat(c.data)
				if gone := os.IsNotExist(err); gone != (c.gone && c.data != disk) {
					t.Errorf("%s: its data folder gone: %v", name, gone)
				}
			}
		}()
	}
	open(t, &native, bench.Params{"data": disk})
}
