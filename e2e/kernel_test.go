package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// debianKernel unpacks Debian's cloud kernel into dir and returns its image. The package is downloaded once.
func debianKernel(t *testing.T, dir string) string {
	t.Helper()
	apt := tool(t, "apt-get", "apt")
	deps, err := exec.Command("apt-cache", "depends", "--no-recommends", "--no-suggests", "linux-image-cloud-amd64").Output()
	name := regexp.MustCompile(`Depends: (linux-image-\S+-cloud-amd64)`).FindStringSubmatch(string(deps))
	if err != nil || name == nil {
		t.Skipf("apt knows no linux-image-cloud-amd64 (%v); needs Debian's package lists", err)
	}
	downloading.Lock()
	defer downloading.Unlock()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(user, "teescope/debian") // tools/setup.sh fills it
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	debs, _ := filepath.Glob(filepath.Join(cache, name[1]+"_*.deb"))
	if len(debs) == 0 {
		get := exec.Command(apt, "download", name[1])
		get.Dir = cache
		if out, err := get.CombinedOutput(); err != nil {
			t.Skipf("download %s: %v: %s", name[1], err, out)
		}
		debs, _ = filepath.Glob(filepath.Join(cache, name[1]+"_*.deb"))
	}
	if len(debs) == 0 {
		t.Fatalf("nothing was downloaded for %s", name[1])
	}
	if out, err := exec.Command("dpkg-deb", "-x", debs[len(debs)-1], filepath.Join(dir, "deb")).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", debs[len(debs)-1], err, out)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "deb/boot/vmlinuz-*"))
	if len(images) != 1 {
		t.Fatalf("kernel images %v", images)
	}
	return images[0]
}

// downloading is held while a package is fetched.
var downloading sync.Mutex

func place(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("place %s: %w", from, err))
	}
}
