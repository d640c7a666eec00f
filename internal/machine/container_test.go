package machine

import (
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestContainer: a file that an engine leaves in the root folder makes no container of a virtual machine that was made from an
// image. A container's root is an overlay, or the engine has mounted files over names in /etc.
func TestContainer(t *testing.T) {
	const (
		disk    = "6 27 254:0 / / rw,relatime - ext4 /dev/vda rw\n22 6 0:21 / /proc rw - proc proc rw\n"
		overlay = "600 500 0:60 / / rw,relatime master:10 - overlay overlay rw,lowerdir=/l\n"
		hosts   = "601 600 254:0 /var/lib/docker/containers/ab/hosts /etc/hosts rw - ext4 /dev/vda rw\n"
	)
	for name, c := range map[string]struct {
		marker, mounts, groups, want string
	}{
		"a machine":                        {"", disk, "0::/\n", ""},
		"a machine made of an image":       {"/.dockerenv", disk, "0::/init.scope\n", ""},
		"a machine made of podman's":       {"/run/.containerenv", disk, "0::/\n", ""},
		"a container":                      {"/.dockerenv", overlay, "0::/\n", "docker"},
		"a container on another driver":    {"/.dockerenv", disk + hosts, "0::/\n", "docker"},
		"podman":                           {"/run/.containerenv", overlay, "0::/\n", "podman"},
		"mounts that cannot be read":       {"/.dockerenv", "", "0::/\n", "docker"},
		"a control group's name":           {"/.dockerenv", disk, "0::/docker/abcdef\n", "docker"},
		"damaged mounts and no other sign": {"/.dockerenv", "6 27\n / / - \n", "0::/\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := host.At(t.TempDir())
			files := map[string]string{"/proc/self/cgroup": c.groups, "/proc/self/mountinfo": c.mounts, c.marker: "x"}
			for file, text := range files {
				if file == "" || text == "" {
					continue
				}
				if err := h.Install(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := Container(h); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		})
	}
}
