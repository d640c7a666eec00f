package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// debianKernel downloads Debian's cloud kernel and returns its image.
func debianKernel(t *testing.T, dir string) string {
	t.Helper()
	apt := tool(t, "apt-get", "apt")
	deps, err := exec.Command("apt-cache", "depends", "--no-recommends", "--no-suggests", "linux-image-cloud-amd64").Output()
	name := regexp.MustCompile(`Depends: (linux-image-\S+-cloud-amd64)`).FindStringSubmatch(string(deps))
	if err != nil || name == nil {
		t.Skipf("apt knows no linux-image-cloud-amd64 (%v); needs Debian's package lists", err)
	}
	get := exec.Command(apt, "download", name[1])
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Skipf("download %s: %v: %s", name[1], err, out)
	}
	debs, _ := filepath.Glob(filepath.Join(dir, name[1]+"_*.deb"))
	if len(debs) != 1 {
		t.Fatalf("found %v after the download of %s", debs, name[1])
	}
	if out, err := exec.Command("dpkg-deb", "-x", debs[0], filepath.Join(dir, "deb")).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", debs[0], err, out)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "deb/boot/vmlinuz-*"))
	if len(images) != 1 {
		t.Fatalf("kernel images %v", images)
	}
	return images[0]
}

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
