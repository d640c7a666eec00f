package sources

import (
	"cmp"
	"context"

	"github.com/prometheus/procfs"

	"github.com/teescope/teescope/internal/host"
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

func readSystem(h *host.Host, out emitter) error {
	out.send(hostTime, float64(h.Now().UnixNano())/1e9)
	fs, err := procfs.NewFS(h.Path("/proc"))
	if err != nil {
		return err
	}
	st, err := fs.Stat()
	if err == nil {
		out.send(switchesAll, float64(st.ContextSwitches))
		out.send(interrupts, float64(st.IRQTotal))
		out.send(forks, float64(st.ProcessCreated))
		out.send(bootTime, float64(st.BootTime))
		out.send(procsRunning, float64(st.ProcessesRunning))
		out.send(procsBlocked, float64(st.ProcessesBlocked))
	}
	load, lerr := fs.LoadAvg()
	if lerr == nil {
		out.send(load1, load.Load1)
		out.send(load5, load.Load5)
		out.send(load15, load.Load15)
	}
	bits, berr := h.ReadUint("/proc/sys/kernel/random/entropy_avail")
	if berr == nil {
		out.send(entropy, float64(bits))
	}
	var labels []string
	var uerr error
	for _, name := range []string{"ostype", "osrelease", "version", "arch", "hostname", "domainname"} {
		s, err := h.ReadString("/proc/sys/kernel/" + name)
		if name != "arch" { // since Linux 6.1; the label stays empty before
			uerr = cmp.Or(uerr, err)
		}
		labels = append(labels, s)
	}
	if uerr == nil {
		out.send(uname, 1, labels...)
	}
	return cmp.Or(err, lerr, berr, uerr)
}
