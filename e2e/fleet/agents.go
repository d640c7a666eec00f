package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
)

// agents are the pages of many agents, from one process. Each has an address of its own in 127.0.0.0/8, so a scraper
// holds a connection for each, as to real machines.
type agents struct {
	lines  []line
	began  time.Time
	server *http.Server
	port   int
	ended  chan struct{}
}

// line is a series of each page: its value at a time since the start, for each target.
type line struct {
	head   string                // HELP and TYPE, before the first series of a metric
	series string                // the name with its labels; $host is the target's name
	on     func(target int) bool // nil: on all targets
	value  func(target int, s float64) float64
	digits int
}

// serveAgents starts to serve until close; enclaves is how many each page has besides its usual 150 series.
func serveAgents(enclaves int) (*agents, error) {
	l, err := net.Listen("tcp4", ":0") // of all addresses in 127.0.0.0/8; requests from elsewhere are refused
	if err != nil {
		return nil, err
	}
	a := &agents{lines: pageOf(enclaves), began: time.Now(), port: l.Addr().(*net.TCPAddr).Port, ended: make(chan struct{})}
	pool := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	a.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		target, known := targetAt(at)
		if !ok || !known {
			http.Error(w, "these pages are for this machine", http.StatusForbidden)
			return
		}
		b := pool.Get().(*bytes.Buffer)
		defer pool.Put(b)
		b.Reset()
		a.page(b, target, time.Since(a.began).Seconds())
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // an error means that the scraper went away
	})}
	go func() {
		defer close(a.ended)
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "serve the agents' pages:", err)
		}
	}()
	return a, nil
}

func (a *agents) close() {
	_ = a.server.Close()
	<-a.ended
}

// Addresses of targets are 127.1.0.1, 127.1.0.2 and so on, 250 in each of the last two bytes.
const perByte = 250

func addressOf(target int) net.IP {
	return net.IPv4(127, byte(1+target/(perByte*perByte)), byte(target/perByte%perByte), byte(1+target%perByte))
}

func targetAt(a *net.TCPAddr) (int, bool) {
	if a == nil {
		return 0, false
	}
	ip := a.IP.To4()
	if ip == nil || ip[0] != 127 || ip[1] == 0 || ip[3] == 0 {
		return 0, false
	}
	return (int(ip[1])-1)*perByte*perByte + int(ip[2])*perByte + int(ip[3]) - 1, true
}

// discovery is a file for file_sd_configs with the first targets.
func (a *agents) discovery(targets int) ([]byte, error) {
	var group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	group.Labels = map[string]string{"cluster": "measured"}
	for i := range targets {
		group.Targets = append(group.Targets, net.JoinHostPort(addressOf(i).String(), strconv.Itoa(a.port)))
	}
	return json.Marshal([]any{group})
}

// page writes a target's page as of a time since the start.
func (a *agents) page(b *bytes.Buffer, target int, s float64) {
	for _, l := range a.lines {
		b.WriteString(l.head)
		if l.on != nil && !l.on(target) {
			continue
		}
		if before, after, ok := strings.Cut(l.series, "$host"); ok {
			fmt.Fprintf(b, "%snode-%05d%s", before, target, after)
		} else {
			b.WriteString(l.series)
		}
		b.WriteByte(' ')
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), l.value(target, s), 'f', l.digits, 64))
		b.WriteByte('\n')
	}
}

// Targets are of three kinds, in turn: guests with SEV-SNP, TDX guests whose performance counters are hidden, and
// SGX hosts. One in a hundred loses an eighth of its CPU time to its hypervisor.
func kind(k int) func(int) bool { return func(target int) bool { return target%3 == k } }

func isLossy(target int) bool { return target%100 == 42 }

// lines in the making.
type composed struct {
	lines []line
	known map[string]*metric.Desc
	last  string
}

func (c *composed) add(series string, digits int, value func(int, float64) float64, on func(int) bool) {
	l := line{series: series, digits: digits, value: value, on: on}
	name, _, _ := strings.Cut(series, "{")
	if name != c.last {
		help, kind := "As an agent says it.", "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		if d := c.known[name]; d != nil {
			help, kind = d.Help, d.Kind.String()
		}
		l.head = fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	c.last, c.lines = name, append(c.lines, l)
}

// is adds a value that stays.
func (c *composed) is(v float64, on func(int) bool, series ...string) {
	for _, s := range series {
		c.add(s, 0, func(int, float64) float64 { return v }, on)
	}
}

// level adds a gauge near a value.
func (c *composed) level(near float64, digits int, series ...string) {
	for i, s := range series {
		c.add(s, digits, func(target int, sec float64) float64 {
			return near * (1 + 0.1*math.Sin(sec/47+float64(target+i)))
		}, nil)
	}
}

// count adds counters of that many events or seconds a second. Targets have been up for different times.
func (c *composed) count(rate float64, digits int, series ...string) {
	for i, s := range series {
		c.add(s, digits, func(target int, sec float64) float64 {
			return rate * (1 + float64(i)/16) * (sec + float64(1000+target%997))
		}, nil)
	}
}

// share adds a counter of a share of the time, which is another one on targets that lose CPU time.
func (c *composed) share(usual, losing float64, series string) {
	c.add(series, 2, func(target int, sec float64) float64 {
		share := usual
		if isLossy(target) {
			share = losing
		}
		return share * (sec + float64(1000+target%997))
	}, nil)
}

// pageOf returns the series of a page: a cut of an agent's page, of all its sources.
func pageOf(enclaves int) []line {
	c := &composed{known: map[string]*metric.Desc{}}
	for _, list := range [][]*metric.Desc{probe.Metrics, metricsOf(sources.All)} {
		for _, d := range list {
			c.known[d.Name] = d
		}
	}
	c.is(1, nil, `teescope_info{version="1.0.0",hostname="$host",kernel="Linux 6.12.43",arch="amd64",os="Debian GNU/Linux 13 (trixie)",cpu_model="AMD EPYC 9654 96-Core Processor",lockdown="",privileged="true",tee_unknown=""}`)
	c.is(1, kind(0), `tee_info{kind="sev",variant="sev-snp",role="guest",active="true",debug="false"}`)
	c.is(1, kind(1), `tee_info{kind="tdx",variant="",role="guest",active="true",debug="false"}`)
	c.is(1, kind(2), `tee_info{kind="sgx",variant="sgx2",role="host",active="true",debug="false"}`)
	c.is(1, nil, each("teescope_source_up{source=%q}", "tee", "samples", "waits", "syscalls", "faults", "switches", "cpu", "memory", "pressure", "network", "disk", "interrupts", "swiotlb", "conversions", "clocksource")...)
	c.is(1, kind(1), `teescope_source_blind{source="llc",reason="the hypervisor exposes no cache counters to this VM: open performance counter 0:0x2 of CPU 0: no such file or directory"}`)
	c.level(0.9, 4, each("teescope_source_coverage_ratio{source=%q}", "samples", "waits", "syscalls", "faults")...)
	c.level(0.002, 6, each(`teescope_source_standard_error_ratio{source="syscalls",of=%q}`, "sum", "rest")...)
	c.count(0.001, 3, each("teescope_overhead_cpu_seconds_total{part=%q}", "userspace", "page", "body", "dispatch")...)
	c.add("teescope_budget_ratio", 2, func(int, float64) float64 { return 0.01 }, nil)
	c.level(45<<20, 0, `teescope_memory_bytes{kind="rss"}`)
	c.level(0.01, 6, each("tee_sample_interval_seconds{clock=%q}", "cpu", "wait")...)
	for _, p := range []string{"redis-server", "nginx", "java", "kubelet", "containerd", "other"} {
		c.count(200, 0, each(`tee_syscalls_total{process="`+p+`",syscall=%q}`, "read", "write", "epoll_wait", "futex")...)
		c.count(0.02, 6, each(`tee_sampled_cpu_seconds_total{process="`+p+`",mode=%q,call=""}`, "user", "kernel")...)
		c.count(0.01, 6, each(`tee_sampled_wait_seconds_total{process="`+p+`",state=%q,call="read"}`, "cpu", "disk")...)
		c.count(40, 0, each(`tee_context_switches_total{process="`+p+`",kind=%q}`, "voluntary", "involuntary")...)
		c.count(20, 0, `tee_page_faults_total{process="`+p+`",space="user",cause="no_page_found"}`)
		c.count(0.05, 6, `tee_process_cpu_seconds_total{process="`+p+`"}`)
	}
	for _, cpu := range []string{"0", "1"} {
		c.count(0.1, 2, each(`node_cpu_seconds_total{cpu="`+cpu+`",mode=%q}`, "user", "system")...)
		c.count(0.01, 2, each(`node_cpu_seconds_total{cpu="`+cpu+`",mode=%q}`, "iowait", "softirq")...)
		c.share(0, 0.125, `node_cpu_seconds_total{cpu="`+cpu+`",mode="steal"}`)
		c.share(0.75, 0.625, `node_cpu_seconds_total{cpu="`+cpu+`",mode="idle"}`)
	}
	c.count(0.03, 6, each("node_pressure_%s_waiting_seconds_total", "cpu", "io", "memory")...)
	c.level(4<<30, 0, each("node_memory_%s_bytes", "MemTotal", "MemFree", "MemAvailable", "Cached")...)
	c.level(0.7, 2, "node_load1", "node_load5", "node_load15")
	c.count(900, 0, "node_netstat_Tcp_OutSegs", "node_netstat_Tcp_InSegs")
	c.count(0.1, 0, "node_netstat_Tcp_RetransSegs", "node_netstat_Tcp_EstabResets")
	c.count(5, 0, "node_netstat_Tcp_ActiveOpens", "node_netstat_Tcp_PassiveOpens")
	c.count(0, 0, "node_netstat_TcpExt_ListenDrops")
	for _, way := range []string{"receive", "transmit"} {
		c.count(1e5, 0, "node_network_"+way+`_bytes_total{device="eth0"}`)
		c.count(900, 0, "node_network_"+way+`_packets_total{device="eth0"}`)
		c.count(0, 0, "node_network_"+way+`_drop_total{device="eth0"}`)
	}
	c.is(1, nil, `tee_network_device_counted{device="eth0"}`, `tee_disk_counted{device="vda"}`)
	c.count(5e4, 0, `node_disk_read_bytes_total{device="vda"}`, `node_disk_written_bytes_total{device="vda"}`)
	c.count(0.01, 3, `node_disk_io_time_seconds_total{device="vda"}`)
	c.level(64<<20, 0, "tee_swiotlb_size_bytes")
	c.level(1<<20, 0, "tee_swiotlb_used_bytes", "tee_swiotlb_used_max_bytes")
	c.count(1e5, 0, `tee_swiotlb_bounced_bytes_total{device="virtio0"}`)
	c.count(2, 0, each("tee_private_memory_conversions_total{direction=%q}", "to_shared", "to_private")...)
	c.is(1, nil, `tee_clocksource_info{name="tsc"}`)
	for e := range enclaves {
		p := fmt.Sprintf("enclave-%d", e)
		c.is(1, nil, `tee_sgx_process_enclaves{process="`+p+`"}`)
		c.level(256<<20, 0, `tee_sgx_process_enclave_virtual_bytes{process="`+p+`"}`)
		for _, what := range []string{"entries", "exits", "async_exits"} {
			c.count(300, 0, "tee_sgx_enclave_"+what+`_total{process="`+p+`",runtime="gramine"}`)
		}
		c.count(1, 0, `tee_sgx_process_enclave_faults_total{process="`+p+`"}`)
		c.count(100, 0, each(`tee_syscalls_total{process="`+p+`",syscall=%q}`, "read", "write", "futex", "epoll_wait")...)
		c.count(20, 0, each(`tee_context_switches_total{process="`+p+`",kind=%q}`, "voluntary", "involuntary")...)
		c.count(10, 0, `tee_page_faults_total{process="`+p+`",space="user",cause="no_page_found"}`)
		c.count(0.01, 6, `tee_process_cpu_seconds_total{process="`+p+`"}`)
	}
	return c.sorted()
}

// sorted brings the series of a metric together, as the text format wants it.
func (c *composed) sorted() []line {
	at := map[string][]line{}
	var order []string
	for _, l := range c.lines {
		name, _, _ := strings.Cut(l.series, "{")
		if at[name] == nil {
			order = append(order, name)
		} else {
			l.head = ""
		}
		at[name] = append(at[name], l)
	}
	var out []line
	for _, name := range order {
		out = append(out, at[name]...)
	}
	return out
}

func each(format string, values ...string) (out []string) {
	for _, v := range values {
		out = append(out, fmt.Sprintf(format, v))
	}
	return out
}

func metricsOf(list []*probe.Source) (out []*metric.Desc) {
	for _, s := range list {
		out = append(out, s.Metrics...)
	}
	return out
}
