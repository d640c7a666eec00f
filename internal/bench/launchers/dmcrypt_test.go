package launchers

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// TestDMCryptReal makes the device and checks from inside that the data folder is on it, and
// afterwards that nothing is left. It is encrypted only if the kernel has dm-crypt.
func TestDMCryptReal(t *testing.T) {
	h := host.Local()
	if os.Geteuid() != 0 {
		t.Skip("loop devices and mounts need root")
	}
	for _, cipher := range []string{plainCipher, "aes-xts-plain64"} {
		t.Run(cipher, func(t *testing.T) {
			p, err := bench.Complete("launcher dmcrypt", dmcrypt.Params, bench.Params{"cipher": cipher, "size": "32MiB"})
			if err != nil {
				t.Fatal(err)
			}
			if err := dmcrypt.Check(h, p); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			env, err := dmcrypt.Open(t.Context(), h, p)
			if err != nil {
				t.Fatal(err)
			}
			if devices(t, dir) == "" {
				t.Errorf("no device or mount has its file in %s", dir)
			}
			out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", "--target", "{data}"}}})
			if err != nil {
				t.Error(err)
			}
			source := "/dev/loop"
			if cipher != plainCipher {
				source = "/dev/mapper/"
			}
			if got := string(out.Inside.Stdout); !strings.HasPrefix(got, source) || !strings.Contains(got, "ext4") {
				t.Errorf("the data folder lies on %q, want ext4 on %s", got, source)
			}
			var d result.Environment
			if err := env.Describe(t.Context(), &d); err != nil {
				t.Error(err)
			}
			if d.Software.Encryption["storage"] != cipher || d.Params["cipher"] != cipher || d.Params["size"] != "32MiB" {
				t.Errorf("described as %v, encryption %v", d.Params, d.Software.Encryption)
			}
			if err := env.Close(); err != nil {
				t.Error(err)
			}
			if left := devices(t, dir); left != "" {
				t.Errorf("left behind:\n%s", left)
			}
		})
	}
}

// devices returns the loop devices and mounts of files in a folder.
func devices(t *testing.T, dir string) string {
	t.Helper()
	loops, err := exec.Command("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for line := range strings.Lines(string(loops) + string(mounts)) {
		if strings.Contains(line, dir) {
			ours = append(ours, line)
		}
	}
	return strings.Join(ours, "")
}
