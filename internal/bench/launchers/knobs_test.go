package launchers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// guestOf returns the completed parameters of the launcher qemu.
func guestOf(t *testing.T, given bench.Params) bench.Params {
	t.Helper()
	p, err := bench.Complete("launcher qemu", qemu.Params, given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBadKnobs: what would have no effect, or another one, is refused in one line that names the parameter.
func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		given bench.Params
		want  string // "": accepted
	}{
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB"}, ""},
		{bench.Params{"cvm": "snp", "bounce-pool": "128MiB", "bounce-areas": "1"}, ""},
		{bench.Params{"cvm": "snp", "bounce-pool": "64MiB"}, "treats this default size as not given"},
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB", "cpus": "3", "bounce-areas": "4"}, ""},
		{bench.Params{"bounce-pool": "64MiB"}, "bounce-pool: without bounce=on or cvm, nothing uses the pool"},
		{bench.Params{"bounce": "on", "bounce-pool": "128KiB"}, "power of two of at least 256KiB"},
		{bench.Params{"bounce": "on", "bounce-pool": "96MiB"}, "power of two"},
		{bench.Params{"bounce": "on", "bounce-pool": "512KiB", "cpus": "3"}, "too small for 4 areas"},
		{bench.Params{"bounce": "on", "bounce-pool": "much"}, "bounce-pool"},
		{bench.Params{"bounce": "on", "bounce-areas": "2", "cpus": "2"}, "needs bounce-pool"},
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB", "bounce-areas": "3", "cpus": "4"}, "power of two"},
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB", "bounce-areas": "4", "cpus": "2"}, "cpus=2"},
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB", "bounce-areas": "0"}, "bounce-areas"},
		{bench.Params{"bounce": "on", "bounce-pool": "512KiB", "bounce-areas": "4", "cpus": "4"}, "at least 256KiB"},
		{bench.Params{"bounce": "on", "bounce-pool": "512KiB", "bounce-areas": "2", "cpus": "4"}, ""},
		{bench.Params{"queues": "2", "cpus": "2", "disk": "1GiB"}, ""},
		{bench.Params{"queues": "2", "cpus": "2", "net": "vhost"}, ""},
		{bench.Params{"queues": "2", "disk": "1GiB"}, "cpus=1"},
		{bench.Params{"queues": "0", "disk": "1GiB"}, "queues"},
		{bench.Params{"queues": "1", "net": "user"}, "neither a disk"},
		{bench.Params{"pages": "2MiB", "memory": "1GiB"}, ""},
		{bench.Params{"pages": "1GiB", "memory": "1536MiB"}, "multiple of pages=1GiB"},
		{bench.Params{"pages": "2MiB", "cvm": "snp"}, "guest_memfd"},
		{bench.Params{"idle": "haltpoll", "accel": "tcg"}, "only under kvm"},
		{bench.Params{"idle": "poll", "accel": "tcg"}, ""},
	} {
		err := qemuParams(guestOf(t, c.given))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.given, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%v: %v, want one line with %q", c.given, err, c.want)
		}
	}
}

// TestBounceWords: the kernel's notation is swiotlb=SLOTS,AREAS,force, where SLOTS are of 2 KiB.
func TestBounceWords(t *testing.T) {
	for _, c := range []struct {
		given bench.Params
		want  string
	}{
		{bench.Params{}, ""},
		{bench.Params{"bounce": "on"}, "swiotlb=force"},
		{bench.Params{"bounce": "on", "bounce-pool": "64MiB"}, "swiotlb=32768,force"},
		{bench.Params{"bounce": "on", "bounce-pool": "1GiB", "bounce-areas": "4"}, "swiotlb=524288,4,force"},
		{bench.Params{"cvm": "tdx", "bounce-pool": "1GiB", "bounce-areas": "4"}, "swiotlb=524288,4"},
		{bench.Params{"idle": "poll"}, "idle=poll"},
		{bench.Params{"idle": "haltpoll"}, "cpuidle_haltpoll.force=1"},
	} {
		if got := strings.Join(knobWords(guestOf(t, c.given)), " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.given, got, c.want)
		}
	}
}

// machineWith returns a machine with files.
func machineWith(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	h := host.At(t.TempDir())
	for name, text := range files {
		if err := h.Install(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// TestKnobNeeds: a machine that has everything lacks nothing.
func TestKnobNeeds(t *testing.T) {
	const kernel, lib = "/boot/vmlinuz-6.1.0-56-cloud-amd64", "/lib/modules/6.1.0-56-cloud-amd64/modules.builtin"
	p := guestOf(t, bench.Params{"accel": "kvm", "cpus": "4", "memory": "2GiB", "bounce": "on", "bounce-pool": "64MiB", "bounce-areas": "4", "pages": "2MiB", "idle": "haltpoll"})
	has := map[string]string{"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "1024\n", lib: "kernel/drivers/cpuidle/cpuidle-haltpoll.ko\n"}
	if needs := knobNeeds(machineWith(t, has), p, kernel); len(needs) > 0 {
		t.Errorf("nothing is missing, but %v", needs)
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"too few huge pages": {"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1023\n", "free_hugepages of 1024 or more"},
		"no haltpoll":        {lib, "kernel/fs/ext4/ext4.ko\n", "cpuidle-haltpoll"},
	} {
		t.Run(name, func(t *testing.T) {
			h := machineWith(t, has)
			if err := h.Install(c.file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if needs := knobNeeds(h, p, kernel); len(needs) != 1 || !strings.Contains(needs[0].Path, c.want) {
				t.Errorf("%s: %v", name, needs)
			}
		})
	}
	if needs := knobNeeds(machineWith(t, has), p, "/srv/bzImage"); len(needs) != 1 || !strings.Contains(needs[0].Path, "vmlinuz-RELEASE") {
		t.Errorf("a kernel without a release: %v", needs)
	}
	p = guestOf(t, bench.Params{"pages": "4KiB"})
	for mode, lacks := range map[string]int{"always [never]": 0, "[deny] never": 0, "always [advise] never": 1} {
		t.Run(mode, func(t *testing.T) {
			h := machineWith(t, map[string]string{"/sys/kernel/mm/transparent_hugepage/shmem_enabled": mode})
			if needs := knobNeeds(h, p, kernel); len(needs) != lacks {
				t.Errorf("shared memory %s: %v", mode, needs)
			}
		})
	}
}

// TestFreeNet: each guest with a tap has addresses of its own.
func TestFreeNet(t *testing.T) {
	route := func(n int) string {
		return fmt.Sprintf("tap\t00%02X%02XC6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", n&255, 18+n>>8)
	}
	taken := "Iface\tDestination\tGateway\tFlags\n"
	for n := range 300 {
		taken += route(n)
	}
	n, err := freeNet(machineWith(t, map[string]string{"/proc/net/route": taken}))
	if err != nil || n.host() != "198.19.44.1" || n.guest() != "198.19.44.2" || n.name() != "teescope300" {
		t.Errorf("%s, %s, %s, %v", n.host(), n.guest(), n.name(), err)
	}
	const wide = "vpn\t00000080\t010011AC\t0003\t0\t0\t0\t00000080\t0\t0\t0\neth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\ntun\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\ntun\t010013C6\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n"
	if n, err := freeNet(machineWith(t, map[string]string{"/proc/net/route": wide, "/sys/class/net/teescope257/mtu": "1500"})); err != nil || n != 258 {
		t.Errorf("routes to 198.18.0.0/16 and 198.19.0.1, and an interface: %d, %v", n, err)
	}
	for n := 300; n < tapNets; n++ {
		taken += route(n)
	}
	if _, err := freeNet(machineWith(t, map[string]string{"/proc/net/route": taken})); err == nil {
		t.Error("no net is free, and one was found")
	}
	if _, err := freeNet(machineWith(t, nil)); err == nil {
		t.Error("without the table of routes, a net was found")
	}
}

// TestReachOnTap: servers listen at the guest's own address, and nothing is forwarded. UDP passes a tap.
func TestReachOnTap(t *testing.T) {
	for net, mover := range map[string]string{netTap: "QEMU", netVhost: "vhost-net"} {
		e := &qemuEnv{params: guestOf(t, bench.Params{"net": net}), net: 7}
		in, out, way, err := e.Reach(t.Context(), bench.Place{Host: "127.0.0.1", Ports: []int{4000}})
		if err != nil || in.Host != "198.18.7.2" || out.Host != in.Host || out.Ports[0] != 4000 || !strings.Contains(way, mover) {
			t.Errorf("%s: %v, %v, %s, %v", net, in, out, way, err)
		}
		if e.forwards.Ports != nil {
			t.Errorf("%s: ports are forwarded: %v", net, e.forwards)
		}
		udp := bench.Job{Datagrams: true, Outside: &host.Cmd{Argv: []string{"load"}}}
		if err := qemu.Refuses(e.params, udp); err != nil {
			t.Errorf("%s: %v", net, err)
		}
		if err := qemu.Refuses(guestOf(t, bench.Params{"net": net, "fresh": "true"}), udp); err == nil {
			t.Errorf("%s with fresh=true is not refused", net)
		}
	}
}

// TestMonitorCPU: the time of QEMU and of its own vhost threads only, in the ticks of proc_pid_stat(5).
func TestMonitorCPU(t *testing.T) {
	stat := func(name string, user, system int) string {
		return fmt.Sprintf("1 (%s) S 1 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0 1 0 99 0 0\n", name, user, system)
	}
	h := machineWith(t, map[string]string{
		"/proc/42/stat": stat("qemu-system-x86", 150, 50), "/proc/42/comm": "qemu-system-x86\n",
		"/proc/43/stat": stat("vhost-42", 0, 100), "/proc/43/comm": "vhost-42\n",
		"/proc/44/stat": stat("vhost-420", 0, 900), "/proc/44/comm": "vhost-420\n",
	})
	if got, err := monitorCPU(h, 42); err != nil || got != 3*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := monitorCPU(h, 7); err == nil {
		t.Error("a monitor that has ended has a CPU time")
	}
	at := time.Unix(1000, 0)
	h.Now = func() time.Time { return at }
	v := &vm{h: h, work: "/vm"}
	if v.costs()() != nil {
		t.Error("without QEMU's number there are costs")
	}
	if err := h.Install("/vm/pid", []byte("42\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cost := v.costs()
	at = at.Add(10 * time.Second)
	if err := h.Install("/proc/42/stat", []byte(stat("qemu-system-x86", 650, 50)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := cost(); got == nil || *got != (bench.Monitor{Elapsed: 10 * time.Second, CPU: 5 * time.Second}) {
		t.Errorf("%+v", got)
	}
}
