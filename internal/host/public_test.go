package host

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestIsPublic(t *testing.T) {
	for name, want := range map[string]bool{
		"/proc/meminfo": true, "/proc/1/maps": true, "/sys/fs/cgroup/x/cpu.stat": true, "/usr/lib/x86_64-linux-gnu/libssl.so.3": true, "/dev/sgx_enclave": true,
		"/proc/1/root/home/x": false, "/proc/1/cwd/x": false, "/proc/1/task/2/root/x": false, "/proc/1/fd/3": false, "/proc/1/map_files/1-2": false, "/proc/../root/x": false, "/sys/../root/x": false,
		"/usr/../root/x": false, "/root/.ssh/key": false, "/home/bob/lib/libssl.so.3": false, "/dev/shm/x": false, "/var/lib/x": false, "usr/lib/x": false, "": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsPublic(name); got != want {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

func TestPublicText(t *testing.T) {
	secret := &fs.PathError{Op: "open", Path: "/root/.x/api-key", Err: fs.ErrPermission}
	for want, err := range map[string]error{
		"": nil,
		"open a file of a user: permission denied":                      secret,
		"read a: open a file of a user: permission denied":              fmt.Errorf("read a: %w", secret),
		"x\nopen a file of a user: permission denied":                   errors.Join(errors.New("x"), secret),
		"open /proc/1/maps: permission denied":                          &fs.PathError{Op: "open", Path: "/proc/1/maps", Err: fs.ErrPermission},
		"statfs /mnt/backup: input/output error":                        &fs.PathError{Op: "statfs", Path: "/mnt/backup", Err: errors.New("input/output error")},
		"parse: a counter of a file has no number":                      fmt.Errorf("parse: %w", &Private{Text: "/root/.x/api-key: x", Shown: "a counter of a file has no number"}),
		"read a file that matches /var/log/*.log: permission denied; 2": fmt.Errorf("%w; 2", &Private{Text: secret.Error(), Shown: "read a file that matches /var/log/*.log: permission denied", Err: secret}),
	} {
		t.Run(want, func(t *testing.T) {
			if got := PublicText(err); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		})
	}
	if !errors.Is(&Private{Text: "x", Err: secret}, fs.ErrPermission) {
		t.Error("the cause of a private error is lost")
	}
}
