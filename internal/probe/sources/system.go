package sources

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	load1        = gauge("node_load1", "Load average over 1 minute in tasks, from /proc/loadavg.")
	load5        = gauge("node_load5", "Load average over 5 minutes in tasks, from /proc/loadavg.")
	load15       = gauge("node_load15", "Load average over 15 minutes in tasks, from /proc/loadavg.")
	switchesAll  = counter("node_context_switches_total", "Context switches, from /proc/stat.")
	interrupts   = counter("node_intr_total", "Interrupts serviced, from /proc/stat.")
	forks        = counter("node_forks_total", "Processes and threads created, from /proc/stat.")
	bootTime     = gauge("node_boot_time_seconds", "Time of boot in seconds since 1970, from /proc/stat.")
	procsRunning = gauge("node_procs_running", "Runnable tasks, from /proc/stat.")
	procsBlocked = gauge("node_procs_blocked", "Tasks that wait for I/O, from /proc/stat.")
	hostTime     = gauge("node_time_seconds", "The host's clock in seconds since 1970.")
	entropy      = gauge("node_entropy_available_bits", "Entropy of the kernel's random number generator in bits, from /proc/sys/kernel/random.")
	uname        = gauge("node_uname_info", "Always 1, with the kernel's name and version as labels, from /proc/sys/kernel.",
		"sysname", "release", "version", "machine", "nodename", "domainname")
)

var system = probe.Source{
	Name: "system",
	Doc:  "Load, boot time, forks, interrupts and the kernel's identity, under node_exporter's names",
	Metrics: []*metric.Desc{load1, load5, load15, switchesAll, interrupts, forks, bootTime, procsRunning, procsBlocked,
		hostTime, entropy, uname},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error { return readSystem(h, out) }), nil
	},
}

// statNumbers are the lines of /proc/stat, loads the numbers of /proc/loadavg, in order.
var (
	statNumbers = map[string]*metric.Desc{"ctxt": switchesAll, "intr": interrupts, "processes": forks, "btime": bootTime,
		"procs_running": procsRunning, "procs_blocked": procsBlocked}
	loads = []*metric.Desc{load1, load5, load15}
)

func readSystem(h *host.Host, out emitter) error {
	out.send(hostTime, float64(h.Now().UnixNano())/1e9)
	var bad machine.Faults
	b, err := h.ReadFile("/proc/stat")
	if err == nil {
		err = machine.ParseStat(b, nil, func(name string, n uint64) {
			if desc := statNumbers[name]; desc != nil {
				out.send(desc, float64(n))
			}
		})
	}
	bad.Add(err)
	bad.Add(readLoad(h, out))
	bits, err := h.ReadUint("/proc/sys/kernel/random/entropy_avail")
	if err == nil {
		out.send(entropy, float64(bits))
	}
	bad.Add(err)
	var labels []string
	known := true
	for _, name := range []string{"ostype", "osrelease", "version", "arch", "hostname", "domainname"} {
		s, err := h.ReadString("/proc/sys/kernel/" + name)
		if name == "hostname" {
			s, err = machine.Hostname(h)
		}
		switch {
		case err == nil:
		case name == "arch": // since Linux 6.1; the label stays empty before
		case name == "hostname": // the others are known
			bad.Add(err)
		default:
			known = false
			bad.Add(err)
		}
		labels = append(labels, s)
	}
	if known {
		out.send(uname, 1, labels...)
	}
	return bad.Err()
}

// readLoad reads "0.20 0.18 0.12 1/80 11206".
func readLoad(h *host.Host, out emitter) error {
	s, err := h.ReadString("/proc/loadavg")
	if err != nil {
		return err
	}
	var bad machine.Faults
	f := strings.Fields(s)
	if len(f) < 5 { // cut off: the last number may be
		return fmt.Errorf("parse /proc/loadavg: %.40q has %d numbers, want 5", s, len(f))
	}
	for i, desc := range loads {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil || !(v >= 0 && v < 1e9) {
			bad.Add(fmt.Errorf("parse /proc/loadavg: %.40q is not a load", f[i]))
			continue
		}
		out.send(desc, v)
	}
	return bad.Err()
}
