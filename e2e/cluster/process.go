package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/e2e/kubernetes/cluster"
)

// The pair of interfaces that joins this machine to the cluster, and the addresses of its ends.
const (
	outside, inside     = "teescope-k8s", "outside0"
	outsideIP, insideIP = "192.168.76.1", "192.168.76.2"
)

// checkNoCluster checks that no cluster is up, of this folder or another, and that nobody has its addresses.
func checkNoCluster(dir string) error {
	if pid := recordedProcess(dir); pid > 0 {
		return fmt.Errorf("a cluster is up already, with process %d: use it (export KUBECONFIG=%s), or end it with make cluster-down", pid, filepath.Join(dir, "state/admin.conf"))
	}
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s is left of a cluster that has ended: make cluster-down removes it", folder)
	}
	if alias, err := os.ReadFile("/sys/class/net/" + outside + "/ifalias"); err == nil {
		return fmt.Errorf("a cluster is up already, of %s: end it with make cluster-down there", strings.TrimSpace(string(alias)))
	}
	cluster.RemoveCgroups()
	if busy := cluster.Cgroups(); len(busy) > 0 {
		return fmt.Errorf("control group %s is in use, by a test of Kubernetes or another cluster: wait for its end, then make cluster", busy[0])
	}
	return checkRoutes()
}

// checkRoutes checks that no route of this machine leads to the addresses of a cluster.
func checkRoutes() error {
	out, err := exec.Command("ip", "-4", "route", "show", "table", "all").Output()
	if err != nil {
		return fmt.Errorf("ip route: %w", err)
	}
	var own []netip.Prefix
	for _, r := range append(cluster.Ranges(), outsideIP+"/30") {
		own = append(own, netip.MustParsePrefix(r))
	}
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line)[:min(2, len(strings.Fields(line)))] {
			route, err := netip.ParsePrefix(word)
			if address, single := netip.ParseAddr(word); single == nil {
				route, err = netip.PrefixFrom(address, 32), nil
			}
			if err != nil || route.Bits() == 0 {
				continue
			}
			for _, r := range own {
				if r.Overlaps(route) {
					return fmt.Errorf("this machine uses addresses of the cluster, %v: end what has the route %q, then make cluster", r, strings.TrimSpace(line))
				}
			}
		}
	}
	return nil
}

// connect joins this machine to the network of the cluster's process, so that the API server, pods and services are reached from here.
// Every user of this machine can use the routes, so nothing else of the nodes is reached: the rules are there before the interface is up,
// and IPv6, which they do not cover, is off.
func connect(ctx context.Context, dir string, pid int) error {
	enter := fmt.Sprintf("nsenter --net --target=%d ", pid)
	lines := []string{
		fmt.Sprintf("ip link add %s type veth peer name %s netns %d", outside, inside, pid),
		fmt.Sprintf("ip addr add %s/30 dev %s", outsideIP, outside),
		fmt.Sprintf("ip link set %s up alias %s", outside, filepath.Dir(filepath.Dir(dir))),
		enter + "ip addr add " + insideIP + "/30 dev " + inside,
	}
	if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		lines = append(lines, enter+"/bin/busybox sysctl -w net.ipv6.conf."+inside+".disable_ipv6=1")
	}
	for _, rule := range cluster.Barrier(inside) {
		lines = append(lines, enter+rule)
	}
	lines = append(lines, enter+"ip link set "+inside+" up")
	for _, r := range cluster.Ranges() {
		lines = append(lines, "ip route add "+r+" via "+insideIP)
	}
	for _, line := range lines {
		argv := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// stopCluster ends the cluster, whatever there is of it.
func stopCluster(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: sudo make cluster-down")
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Println("no cluster is up here")
		return nil
	}
	if pid := recordedProcess(dir); pid > 0 {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return fmt.Errorf("end the cluster's process %d: %w", pid, err)
		}
		for began := time.Now(); recordedProcess(dir) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				return fmt.Errorf("process %d of the cluster was killed a minute ago and has not ended: make cluster-down once more, later", pid)
			}
		}
	}
	_ = exec.Command("ip", "link", "del", outside).Run() // mostly gone with the namespace
	cluster.RemoveCgroups()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	fmt.Println("the cluster has ended, and its files are removed")
	return nil
}

// recordProcess records the cluster's process, with its start time: numbers of processes are used again.
func recordProcess(dir string, pid int) error {
	began, err := startTime(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "process"), []byte(fmt.Sprintf("%d %s\n", pid, began)), 0o600)
}

// recordedProcess returns the process that was recorded, or 0 if that has ended.
func recordedProcess(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "process"))
	number, began, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, nan := strconv.Atoi(number)
	if now, gone := startTime(pid); err != nil || nan != nil || gone != nil || now != began {
		return 0
	}
	return pid
}

// startTime is field 22 of proc_pid_stat(5), in ticks since boot. A process whose end its parent has not read yet has none: field 3 is Z.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	if fields[0] == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
