package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/probe/probetest"
)

// network gives the test's thread its own network namespace with a loopback device. The thread
// ends with the test. Because the programs see all networks, only one test on the machine has
// one at a time.
func network(t testing.TB) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "teescope-network-test.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		probetest.Skip(t, "network namespaces", fmt.Errorf("make a network namespace: %w", err))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
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

// tcpMIB returns a number of the Tcp lines of the network's /proc/net/snmp, or of the host's if
// host is set.
func tcpMIB(t *testing.T, field string, host bool) uint64 {
	t.Helper()
	path := "/proc/thread-self/net/snmp"
	if host {
		path = "/proc/1/net/snmp"
	}
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

// socket returns a TCP socket bound to the loopback address.
func socket(t testing.TB) (fd, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	a, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, a.(*unix.SockaddrInet4).Port
}

func connect(fd, port int) error {
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
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

// troubles returns the counts of a TCP program: "event phase" to number.
func troubles(c *Counters) map[string]uint64 {
	out := map[string]uint64{}
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

// The machine's other connections are counted too, but have hardly any trouble: a step that
// others disturbed is repeated.
func testTroubles(t *testing.T, c *Counters, step func(), want map[string]uint64) {
	t.Helper()
	for attempt := range 5 {
		was := troubles(c)
		step()
		is := troubles(c)
		wrong := ""
		for what := range is {
			if n := is[what] - was[what]; n != want[what] {
				wrong += fmt.Sprintf(" %s: %d, want %d;", what, n, want[what])
			}
		}
		if wrong == "" {
			return
		}
		t.Logf("attempt %d:%s", attempt, wrong)
	}
	t.Error("never the known counts")
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
			c := openProgram(t, tcpVariant(TCP, ending), Limits{})
			wants := map[string]uint64{"connect": 2, "accept": 1, "open": 2}
			var least, sum, most, others uint64
			var is map[string]uint64
			var again func(is map[string]uint64, phase string) uint64
			offInit(t, func(disturbed func() bool) {
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

				was, mine, host := troubles(c), tcpMIB(t, "RetransSegs", false), tcpMIB(t, "RetransSegs", true)
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
				again = func(is map[string]uint64, phase string) uint64 {
					return is["retransmitted "+phase] - was["retransmitted "+phase]
				}
				// until waits for counts, longer than usual on a busy machine.
				until := func(holds func(is map[string]uint64) bool) map[string]uint64 {
					for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
						if is := troubles(c); holds(is) || time.Since(began) > 2*time.Minute {
							return is
						}
					}
				}
				until(func(is map[string]uint64) bool { // the first retransmission of a request is after 1 s
					for phase, least := range wants {
						if again(is, phase) < least {
							return false
						}
					}
					return true
				})
				// More may come at any time, and the network counts each a moment before the
				// program.
				least = tcpMIB(t, "RetransSegs", false) - mine
				is = until(func(is map[string]uint64) bool {
					sum = 0
					for _, phase := range Phases {
						sum += again(is, phase)
					}
					return sum >= least || disturbed()
				})
				most = tcpMIB(t, "RetransSegs", false) - mine
				others = tcpMIB(t, "RetransSegs", true) - host
			}, "tcp/tcp_retransmit_skb", "tcp/tcp_retransmit_synack")
			t.Logf("%d to %d segments here, %d elsewhere; counted %d: %v", least, most, others, sum, is)
			if least < 5 || sum < least || sum > most+others+1 {
				t.Errorf("counted %d segments, the network says %d to %d, the host's %d", sum, least, most, others)
			}
			for phase, least := range wants {
				if n := again(is, phase); n < least {
					t.Errorf("%d segments in phase %s, want at least %d", n, phase, least)
				}
			}
		})
	}
}

func TestTCPConnect(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(comm))
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
			var a, f, said uint64
			offInit(t, func(func() bool) {
				attempts, failures := read()
				failed := tcpMIB(t, "AttemptFails", false)
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
				a, f = read()
				a, f, said = a-attempts, f-failures, tcpMIB(t, "AttemptFails", false)-failed
			}, "sock/inet_sock_set_state")
			if a != 40 {
				t.Errorf("%d attempts, want 40", a)
			}
			if f != 30 || f != said {
				t.Errorf("%d failures, want 30 (the kernel says %d)", f, said)
			}
		})
	}
}

// Idle names give up their places, and sums stay exact.
func TestTCPConnectRecycles(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	rename := func(name string) {
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer rename(strings.TrimSpace(string(comm)))
	network(t)
	c := openProgram(t, TCPConnect, Limits{Processes: 6, Idle: time.Nanosecond})
	closed, port := socket(t)
	defer unix.Close(closed)
	read := func() (sum uint64, names []string) {
		ConnectCounts{c}.ByProcess(func(process string, attempts, failures uint64) {
			if strings.HasPrefix(process, "tcp-recycle") || process == Other {
				sum += attempts + failures
				names = append(names, process)
			}
		})
		return sum + Table{c}.Retired(), names
	}
	const names, each = 12, 10
	var sum uint64
	var left []string
	offInit(t, func(func() bool) {
		before, _ := read()
		for i := range names {
			rename(fmt.Sprintf("tcp-recycle-%d", i))
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
		sum, left = read()
		sum -= before
	}, "sock/inet_sock_set_state")
	if sum < 2*names*each || sum > 2*names*each+20 {
		t.Errorf("%d attempts and failures in all, want %d", sum, 2*names*each)
	}
	last := fmt.Sprintf("tcp-recycle-%d", names-1)
	if (Table{c}).Retired() == 0 || !slices.Contains(left, last) {
		t.Errorf("%d were retired, and these are left: %v", Table{c}.Retired(), left)
	}
}
