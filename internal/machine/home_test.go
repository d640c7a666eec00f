package machine

import (
	"strings"
	"testing"
)

// TestHomeOf: a home is a container or a service, and holds no process id.
func TestHomeOf(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for groups, want := range map[string]string{
		"0::/system.slice/paysvc.service\n":                                                         "paysvc.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/my-app.service/x\n":             "user@1000.service/my-app.service",
		"0::/system.slice/docker-" + id + ".scope\n":                                                "container 0123456789ab",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-4711.scope\n": "user@1000.service",
		"0::/user.slice/user-0.slice/session-3.scope\n":                                             "",
		"0::/system.slice/system-systemd\\x2dcoredump.slice/systemd-coredump@0-4711-0.service\n":    "systemd-coredump@.service",
		"0::/system.slice/system-redis.slice/redis@6380.service\n":                                  "redis@6380.service",
		"0::/system.slice/ev\x1bil.service\n":                                                       "",
		"0::/user.slice/user-1000.slice/user@1000.service/postgresql.service\n":                     "user@1000.service/postgresql.service", // not that of the system
		"0::/system.slice/builder.service/a/postgresql.service\n":                                   "builder.service/postgresql.service",
		"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope\n":     "user@1000.service/container 0123456789ab",
		"0::/lxc.payload.web-frontend-1\n":                                                          "container web-frontend-1",
		"0::/lxc.payload.aaaaaaaaaaaü\x1b\xff\n":                                                    "container aaaaaaaaaaa___",
		"0::/\n": "", "": "",
	} {
		t.Run(groups, func(t *testing.T) {
			if got := HomeOf(groups); got != want {
				t.Errorf("%q: %q, want %q", groups, got, want)
			}
		})
	}
}

// TestPlaceIn finds the container in any hierarchy, however long the path in another.
func TestPlaceIn(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	const session = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.scope"
	for groups, want := range map[string][2]string{
		"":                   {},
		"0::/a.slice/b\n":    {"/a.slice/b", ""},
		"2:cpu:/a\n1:pids:/": {"/a", ""},
		"4:memory:/docker/" + id + "\n0::" + session + "\n":                {"/docker/" + id, id},
		"0::" + session + "\n4:memory:/docker/" + id + "\n":                {"/docker/" + id, id},
		"4:memory:/docker/" + id + "\n1:name=systemd:/docker/" + id + "/x": {"/docker/" + id + "/x", id},
	} {
		t.Run(groups, func(t *testing.T) {
			group, container := PlaceIn(groups)
			if got := [2]string{group, container}; got != want {
				t.Errorf("%q: %q, want %q", groups, got, want)
			}
		})
	}
}
