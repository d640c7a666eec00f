package bpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// network gives the test's thread its own network namespace with a loopback device. The thread
// ends with the test.
func network(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		probetest.Skip(t, "network namespaces", fmt.Errorf("make a network namespace: %w", err))
	}
	loopback(t, unix.SIOCSIFFLAGS, func(lo *unix.Ifreq) { lo.SetUint16(unix.IFF_UP) })
}

// loopback sets something of the network's loopback device.
func loopback(t testing.TB, request uint, set func(lo *unix.Ifreq)) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	set(lo)
	if err := unix.IoctlIfreq(fd, request, lo); err != nil {
		t.Fatal(err)
	}
}

// lose makes a socket lose every packet that arrives for it, with a filter that accepts none of
// their bytes.
func lose(t *testing.T, fd int) {
	t.Helper()
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing}); err != nil {
		t.Fatal(err)
	}
}

// tcpMIB returns a number of the Tcp lines of the network's /proc/net/snmp.
func tcpMIB(t *testing.T, field string) uint64 {
	t.Helper()
	const path = "/proc/thread-self/net/snmp"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if words[0] != "Tcp:" {
			continue
		}
		for i, name := range names {
			if name == field {
				n, err := strconv.ParseUint(words[i], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		names = words
	}
	t.Fatalf("%s has no Tcp %s", path, field)
	return 0
}

// address is a loopback address of this process's own.
func address() [4]byte {
	pid := os.Getpid()
	return [4]byte{127, 0x80 | byte(pid>>16), byte(pid >> 8), byte(pid)}
}

// socket returns a TCP socket bound to the address.
func socket(t testing.TB) (fd, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: address()}); err != nil {
		t.Fatal(err)
	}
	a, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, a.(*unix.SockaddrInet4).Port
}

func connect(fd, port int) error {
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: address(), Port: port})
}

// pair returns a connection: the end that opened it, and the end that accepted it.
func pair(t *testing.T) (from, to, port int) {
	t.Helper()
	l, port := socket(t)
	defer unix.Close(l)
	if err := unix.Listen(l, 16); err != nil {
		t.Fatal(err)
	}
	from, _ = socket(t)
	if err := connect(from, port); err != nil {
		t.Fatal(err)
	}
	to, _, err := unix.Accept(l)
	if err != nil {
		t.Fatal(err)
	}
	return from, to, port
}

// abort closes a connection with a reset.
func abort(t *testing.T, fd int) {
	t.Helper()
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
}

// resent is how often a TCP program ran because something was sent again, whose counts are segments: a packet may have
// many.
const resent = "packets sent again"

// troubles returns the counts of a TCP program, "event phase" to number, and resent.
func troubles(c *Counters) map[string]uint64 {
	const answered = tcpEvents // the cell of its runs
	runs := c.runs()
	out := map[string]uint64{resent: runs.sum(Retransmitted) + runs.sum(answered)}
	TCPCounts{c}.ByPhase(func(event, phase int, n uint64) {
		out[[...]string{"retransmitted", "sent", "received"}[event]+" "+Phases[phase]] += n
	})
	return out
}

// tcpVariant returns TCP with only those variants whose name ends in a word.
func tcpVariant(p *Program, ending string) *Program {
	one := *p
	one.hooks = nil
	for _, h := range p.hooks {
		var keep []variant
		for _, v := range h.variants {
			if strings.HasSuffix(v.program, ending) {
				keep = append(keep, v)
			}
		}
		h.variants = keep
		one.hooks = append(one.hooks, h)
	}
	return &one
}

// troubled are the tracepoints of TCP.
var troubled = []string{"tcp/tcp_send_reset", "tcp/tcp_receive_reset", "tcp/tcp_retransmit_skb", "tcp/tcp_retransmit_synack"}

// testTroubles makes known trouble. The program counts the connections of the whole machine; what others may add at
// most, the kernel's tracer says.
func testTroubles(t *testing.T, c *Counters, step func(), want map[string]uint64) {
	t.Helper()
	x, blind := probetest.NewTracer(t, troubled...), probetest.OnInit(t, troubled...)
	x.Clear()
	was := troubles(c)
	step()
	is := troubles(c)
	others, lost := x.All()+passing(), blind()
	for _, n := range want {
		others -= min(others, n)
	}
	for what, n := range want {
		if is[what]-was[what]+lost < n {
			t.Errorf("%s: %d, want %d", what, is[what]-was[what], n)
		}
	}
	for what := range is {
		if strings.HasPrefix(what, "retransmitted ") {
			continue // segments; their packets are compared
		}
		if n := is[what] - was[what]; x.Works() && n > want[what]+others {
			t.Errorf("%s: %d, want %d; others have %d in all at most", what, n, want[what], others)
		}
	}
}

func TestResets(t *testing.T) {
	for _, ending := range []string{"_btf", "_raw"} {
		t.Run(ending[1:], func(t *testing.T) {
			network(t)
			c := openProgram(t, tcpVariant(TCP, ending), Limits{})
			noSocket := uint64(20)
			if older(t, 6, 10) {
				noSocket = 0 // resets without a socket do not pass the tracepoint
			}
			testTroubles(t, c, func() {
				closed, port := socket(t) // bound, but does not listen
				defer unix.Close(closed)
				for range 20 {
					fd, _ := socket(t)
					if err := connect(fd, port); err != unix.ECONNREFUSED {
						t.Fatalf("connect: %v", err)
					}
					unix.Close(fd)
				}
			}, map[string]uint64{"sent none": noSocket, "received connect": 20})
			testTroubles(t, c, func() {
				for range 10 {
					from, to, _ := pair(t)
					abort(t, from)
					if _, err := unix.Read(to, make([]byte, 1)); err != unix.ECONNRESET {
						t.Fatalf("read: %v", err)
					}
					unix.Close(to)
				}
			}, map[string]uint64{"sent closed": 10, "received open": 10})
		})
	}
}

// older reports whether the kernel is older than a version.
func older(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var is [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &is[0], &is[1]); err != nil {
		t.Fatal(err)
	}
	return is[0] < major || is[0] == major && is[1] < minor
}

func TestRetransmits(t *testing.T) {
	for _, ending := range []string{"_btf", "_raw"} {
		t.Run(ending[1:], func(t *testing.T) {
			network(t)
			x, blind := probetest.NewTracer(t, troubled[2:]...), probetest.OnInit(t, troubled[2:]...)
			c := openProgram(t, tcpVariant(TCP, ending), Limits{})
			wants := map[string]uint64{"connect": 2, "accept": 1, "open": 2}
			// Three kinds of packets are lost: data of an open connection, a request for
			// one, and the answer to that request.
			from, to, _ := pair(t)
			defer abort(t, from) // otherwise it would continue to send
			defer abort(t, to)
			lose(t, to)
			listen := func() (fd, port int) {
				fd, port = socket(t)
				if err := unix.Listen(fd, 16); err != nil {
					t.Fatal(err)
				}
				return fd, port
			}
			l1, request := listen()
			defer unix.Close(l1)
			lose(t, l1)
			l2, answer := listen()
			defer unix.Close(l2)

			was, mine := troubles(c), tcpMIB(t, "RetransSegs")
			if _, err := unix.Write(from, make([]byte, 40_000)); err != nil {
				t.Fatal(err)
			}
			for _, port := range []int{request, answer} {
				fd, _ := socket(t)
				defer unix.Close(fd)
				if err := unix.SetNonblock(fd, true); err != nil {
					t.Fatal(err)
				}
				if port == answer {
					lose(t, fd)
				}
				if err := connect(fd, port); err != unix.EINPROGRESS {
					t.Fatalf("connect: %v", err)
				}
			}
			again := func(is map[string]uint64, phase string) uint64 {
				return is["retransmitted "+phase] - was["retransmitted "+phase]
			}
			// The network's own count is awaited first, of a request after 1 s: the machine's other connections are in
			// the program's, and on init.
			await.Event(t, "the network sends again what is lost", func() error {
				if n := tcpMIB(t, "RetransSegs") - mine; n < 5 {
					return fmt.Errorf("%d segments, want at least 5", n)
				}
				return nil
			})
			var is map[string]uint64
			await.Event(t, "each kind of packet is sent again", func() error {
				is = troubles(c)
				lost := blind()
				for phase, least := range wants {
					if n := again(is, phase); n+lost < least {
						return fmt.Errorf("%d segments in phase %s, want at least %d", n, phase, least)
					}
				}
				return nil
			})
			// More may come at any time, and the network counts each a moment before the program.
			least := tcpMIB(t, "RetransSegs") - mine
			var sum uint64
			await.Event(t, "the program has counted what the network has", func() error {
				is, sum = troubles(c), 0
				for _, phase := range Phases {
					sum += again(is, phase)
				}
				if lost := blind(); sum+lost < least {
					return fmt.Errorf("%d segments of at least %d, %d were on init", sum, least, lost)
				}
				return nil
			})
			if least < 5 {
				t.Errorf("the network counted %d segments", least)
			}
			notMore(t, x, was, is, mine)
		})
	}
}

// TestRetransmittedSegments: a packet that is sent again counts as many times as it has segments.
func TestRetransmittedSegments(t *testing.T) {
	for _, ending := range []string{"_btf", "_raw"} {
		t.Run(ending[1:], func(t *testing.T) {
			network(t)
			const packet = 1500
			loopback(t, unix.SIOCSIFMTU, func(lo *unix.Ifreq) { lo.SetUint32(packet) })
			x, blind := probetest.NewTracer(t, troubled[2:]...), probetest.OnInit(t, troubled[2:]...)
			c := openProgram(t, tcpVariant(TCP, ending), Limits{})
			from, to, _ := pair(t)
			defer unix.Close(from)
			defer unix.Close(to)
			lose(t, to)
			was, mine := troubles(c), tcpMIB(t, "RetransSegs")
			data := make([]byte, 16*packet)
			if _, err := unix.Write(from, data); err != nil {
				t.Fatal(err)
			}
			await.Event(t, "the first segment is sent again", func() error {
				if tcpMIB(t, "RetransSegs") == mine {
					return errors.New("none yet")
				}
				return nil
			})
			// From now on several at once, as many as acknowledgements allow.
			if err := unix.SetsockoptInt(to, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < len(data); {
				more, err := unix.Read(to, data)
				if err != nil {
					t.Fatal(err)
				}
				n += more
			}
			least := tcpMIB(t, "RetransSegs") - mine
			var is map[string]uint64
			await.Event(t, "the program has counted what the network has", func() error {
				is = troubles(c)
				n := is["retransmitted open"] - was["retransmitted open"]
				if lost := blind() * uint64(len(data)/packet); n+lost < least {
					return fmt.Errorf("%d segments of at least %d, at most %d were on init", n, least, lost)
				}
				return nil
			})
			notMore(t, x, was, is, mine)
		})
	}
}

// notMore complains if the program counted more packets sent again than the kernel's tracer saw, or, unless the tracer saw
// some of other networks, more segments than this one. The tracer began before the program did, and comes first at each
// event.
func notMore(t *testing.T, x *probetest.Tracer, was, is map[string]uint64, mine uint64) {
	t.Helper()
	var segments uint64
	for _, phase := range Phases {
		segments += is["retransmitted "+phase] - was["retransmitted "+phase]
	}
	packets, network := is[resent]-was[resent], tcpMIB(t, "RetransSegs")-mine
	events, lost := x.Read()
	all := uint64(len(events)) + lost
	elsewhere, here := all, netip.AddrFrom4(address()).String()
	for _, e := range events {
		if strings.Contains(e.Event, " saddr="+here+" daddr="+here+" ") {
			elsewhere--
		}
	}
	t.Logf("%d packets of %d segments; %d segments here, %d packets elsewhere", packets, segments, network, elsewhere)
	if !x.Works() {
		return
	}
	if packets > all {
		t.Errorf("counted %d packets, the machine %d", packets, all)
	}
	if elsewhere == 0 && segments > network {
		t.Errorf("counted %d segments, the only network %d", segments, network)
	}
}

func TestTCPConnect(t *testing.T) {
	name := ownName(t)
	for _, ending := range []string{"_btf", "_raw"} {
		t.Run(ending[1:], func(t *testing.T) {
			network(t)
			c := openProgram(t, tcpVariant(TCPConnect, ending), Limits{})
			read := func() (a, f uint64) {
				ConnectCounts{c}.ByProcess(func(process string, attempts, failures uint64) {
					if process == name {
						a, f = attempts, failures
					}
				})
				return a, f
			}
			closed, port := socket(t)
			defer unix.Close(closed)
			blind := probetest.OnInit(t, "sock/inet_sock_set_state")
			attempts, failures := read()
			failed := tcpMIB(t, "AttemptFails")
			for range 30 {
				fd, _ := socket(t)
				if err := connect(fd, port); err != unix.ECONNREFUSED {
					t.Fatalf("connect: %v", err)
				}
				unix.Close(fd)
			}
			for range 10 {
				from, to, _ := pair(t)
				unix.Close(from)
				unix.Close(to)
			}
			a, f := read()
			lost := blind()
			if a -= attempts; !within(a, 40, lost) {
				t.Errorf("%d attempts, want 40", a)
			}
			if f -= failures; !within(f, 30, lost) || tcpMIB(t, "AttemptFails")-failed != 30 {
				t.Errorf("%d failures, want 30 (the kernel says %d)", f, tcpMIB(t, "AttemptFails")-failed)
			}
		})
	}
}

// Idle names give up their places, and sums stay exact.
func TestTCPConnectRecycles(t *testing.T) {
	rename := func(name string) {
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer rename(ownName(t))
	network(t)
	// Names that are idle go when three quarters of the places are taken.
	const places, least, each = 100, 120, 10
	c := openProgram(t, TCPConnect, Limits{Processes: places, Idle: time.Nanosecond})
	closed, port := socket(t)
	defer unix.Close(closed)
	prefix := probetest.Name("cycle")
	blind := probetest.OnInit(t, "sock/inet_sock_set_state")
	names := 0
	// The last one comes while half of the places are free, so that it stays, idle or not; others have names too.
	for few := false; names < least || !few; names++ {
		if names == 10*least {
			t.Fatalf("%d names, and fewer than half of the places are free", names)
		}
		held := 0
		ConnectCounts{c}.ByProcess(func(string, uint64, uint64) { held++ })
		few = held <= places/2
		rename(prefix + fmt.Sprint(names))
		for range each {
			fd, _ := socket(t)
			if err := connect(fd, port); err != unix.ECONNREFUSED {
				t.Fatalf("connect: %v", err)
			}
			unix.Close(fd)
		}
		for range 5 { // two checks until it counts as idle, and two more until its place is free
			kernelOf(local).Lock().tended = time.Time{}
			kernelOf(local).Unlock()
			if err := (Table{c}).Recycle(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	// The machine's other connections are in there too.
	var sum, ours, last uint64
	ConnectCounts{c}.ByProcess(func(process string, attempts, failures uint64) {
		sum += attempts + failures
		if strings.HasPrefix(process, prefix) || process == Other {
			ours += attempts + failures
		}
		if process == prefix+fmt.Sprint(names-1) {
			last = attempts + failures
		}
	})
	retired, lost := Table{c}.Retired(), blind()
	if ours += retired; ours+lost < 2*uint64(names)*each {
		t.Errorf("%d attempts and failures in all, want %d", ours, 2*names*each)
	}
	if !within(last, 2*each, lost) || retired == 0 {
		t.Errorf("%d attempts and failures of the last name, want %d; %d retired", last, 2*each, retired)
	}
	if sum+retired > c.Events() { // other changes of a connection's state are in no series
		t.Errorf("%d in series and %d retired, only %d happened", sum, retired, c.Events())
	}
}
