package sources

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

func TestMemberSearch(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid, p := range map[int]struct{ comm, cgroup string }{
		1:  {"systemd", "0::/init.scope\n"},
		20: {"redis", "0::/system.slice/docker-" + id + ".scope\n"},
		21: {"sh", "0::/system.slice/docker-" + id + ".scope/init\n"},
		30: {"v1", "12:cpu,cpuacct:/docker/" + id + "\n1:name=systemd:/docker/" + id + "\n0::/\n"},
		40: {"a) S 1 (b", "0::/odd:name/x y\n"},
		50: {"", "0::/other\n"},
	} {
		write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S 1%s %d 0 0\n", pid, p.comm, strings.Repeat(" 0", 17), 1000+pid))
		write(fmt.Sprintf("proc/%d/comm", pid), p.comm+"\n")
		write(fmt.Sprintf("proc/%d/cgroup", pid), p.cgroup)
	}
	write("proc/60/cgroup", "0::/half-gone\n") // it ended between two files
	write("proc/70/cgroup", "0::/bad\n")
	write("proc/70/stat", "70 (bad) S\n")
	write("proc/self-not-a-number/cgroup", "0::/\n")
	h := &host.Host{Root: root}
	re := regexp.MustCompile
	for _, c := range []struct {
		name  string
		scope probe.Scope
		want  []int
		err   string
	}{
		{"pids", probe.Scope{PIDs: []int{20, 99, 1}}, []int{1, 20}, ""},
		{"cgroup", probe.Scope{Cgroup: re("system.slice")}, []int{20, 21}, ""},
		{"v1 or v2", probe.Scope{Cgroup: re("^/docker/")}, []int{30}, ""},
		{"colons and spaces", probe.Scope{Cgroup: re("odd:name/x y$")}, []int{40}, ""},
		{"container", probe.Scope{Container: re("^0123")}, []int{20, 21, 30}, ""},
		{"both", probe.Scope{Container: re("^0123"), Cgroup: re("/init$")}, []int{21}, ""},
		{"pids in a container", probe.Scope{Container: re("^0123"), PIDs: []int{1, 21}}, []int{21}, ""},
		{"gone", probe.Scope{Cgroup: re("half-gone")}, nil, ""},
		{"bad stat", probe.Scope{Cgroup: re("bad")}, nil, "/proc/70/stat"},
		{"none", probe.Scope{Container: re("nothing")}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memberSearch{host: h, scope: c.scope}
			processes, err := s.candidates()
			if err != nil {
				t.Fatal(err)
			}
			for _, pid := range processes {
				m, ok := s.find(pid)
				if !ok {
					continue
				}
				own := len(c.scope.PIDs) > 0
				if m.Start != uint64(1000+pid) || m.Own != own || m.Children == own || own && m.Name == "" {
					t.Errorf("process %d is %+v", pid, m)
				}
			}
			slices.Sort(s.found)
			if !slices.Equal(s.found, c.want) {
				t.Errorf("found %v, want %v", s.found, c.want)
			}
			if got := fmt.Sprint(s.errs); (len(s.errs) > 0) != (c.err != "") || !strings.Contains(got, c.err) {
				t.Errorf("errors %v, want %q", s.errs, c.err)
			}
		})
	}
	write("proc/50/cgroup", "garbage\n::\n3\n")
	s := memberSearch{host: h, scope: probe.Scope{Cgroup: re(".")}}
	if _, ok := s.find(50); ok || len(s.errs) != 1 || !strings.Contains(s.errs[0].Error(), "names no control group") {
		t.Errorf("a bad cgroup file: %v, errors %v", ok, s.errs)
	}
}

func FuzzInContainer(f *testing.F) {
	f.Add("/docker/" + strings.Repeat("a", 64) + "/init.scope")
	f.Fuzz(func(t *testing.T, group string) {
		inContainer(group, regexp.MustCompile("^$"))
	})
}

// A source on the real kernel, narrowed and at its higher level, and back.
func TestLocalNarrowing(t *testing.T) {
	r, err := syscalls.Open(host.Local(), nil)
	if err != nil {
		probetest.Skip(t, "syscalls", fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	defer r.Close()
	adjust := func(level string, scope probe.Scope) {
		t.Helper()
		if err := r.(probe.Adjustable).Adjust(level, scope); err != nil {
			t.Fatal(err)
		}
	}
	pid := os.Getpid()
	own := fmt.Sprintf(`tee_pid_syscalls_total["%d" %q "getuid"]`, pid, ownName)
	name := fmt.Sprintf(`tee_syscalls_total[%q "getuid"]`, ownName)
	calls := func(n int) map[string]float64 {
		for range n {
			os.Getuid()
		}
		return read(t, r)
	}
	before := calls(1000)
	if before[own] > 0 || before[`tee_syscall_duration_seconds["getuid"]`] > 0 {
		t.Error("times, or counts of one process, which no one asked for")
	}
	adjust("latency", probe.Scope{PIDs: []int{pid}})
	if is := calls(1000); is[own] != 1000 || is[name] != before[name]+1000 || is[`tee_syscall_duration_seconds["getuid"]`] < 1000 {
		t.Errorf("%v calls of the process, %v of the name, %v times; want 1000, %v and 1000", is[own], is[name], is[`tee_syscall_duration_seconds["getuid"]`], before[name]+1000)
	}
	// Process 1 is another process: this one's calls are not counted.
	adjust("count", probe.Scope{PIDs: []int{1}})
	if is := calls(1000); is[name] != before[name]+1000 || is[own] > 0 {
		t.Errorf("%v calls of the name, want %v; %v of this process", is[name], before[name]+1000, is[own])
	}
	adjust("count", probe.Scope{})
	if is := calls(1000); is[name] != before[name]+2000 {
		t.Errorf("%v calls of the name, want %v", is[name], before[name]+2000)
	}
	if err := r.(probe.Adjustable).Adjust("count", probe.Scope{PIDs: []int{1 << 22}}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("narrowed to a process that does not exist: %v", err)
	}
}

// Processes that enter and leave a control group are noticed.
func TestLocalControlGroup(t *testing.T) {
	trees, err := cgroupTrees(host.Local())
	if err != nil {
		probetest.Skip(t, "control groups", err)
	}
	mount := ""
	if trees.v2 != nil {
		mount = trees.v2.mount
	}
	for _, tree := range trees.v1 {
		mount = tree.mount
	}
	group := probetest.Name("narrow")
	dir := filepath.Join(mount, group)
	if err := os.Mkdir(dir, 0o755); err != nil {
		probetest.Skip(t, "control groups", fmt.Errorf("make a cgroup: %w", err))
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	r, err := syscalls.Open(host.Local(), nil)
	if err != nil {
		probetest.Skip(t, "syscalls", fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
	}
	defer r.Close()
	step := shell(t)
	const read1000 = "dd if=/dev/zero of=/dev/null bs=1 count=1000 status=none" // as many writes
	dd := func() float64 { return read(t, r)[`tee_syscalls_total["dd" "write"]`] }
	if err := r.(probe.Adjustable).Adjust("count", probe.Scope{Cgroup: regexp.MustCompile("/" + group)}); err != nil {
		t.Fatal(err)
	}
	was := dd()
	step(read1000)
	if got := dd() - was; got != 0 {
		t.Errorf("counted %v calls outside of the control group", got)
	}
	step(fmt.Sprintf("echo $$ > %s/cgroup.procs", dir))
	read(t, r) // a round notices it
	step(read1000)
	if got := dd() - was; got != 1000 {
		t.Errorf("counted %v calls of a child in the control group, want 1000", got)
	}
	step(fmt.Sprintf("echo $$ > %s/cgroup.procs", mount))
	read(t, r)
	step(read1000)
	if got := dd() - was; got != 1000 {
		t.Errorf("counted %v calls after it left, want 1000", got)
	}
}

// read runs one round of an open source: series to value, or to the number of observations.
func read(t *testing.T, r probe.Reader) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	err := r.Read(t.Context(), func(x metric.Sample) {
		v := x.Value
		if x.Hist != nil {
			for _, n := range x.Hist.Counts {
				v += float64(n)
			}
		}
		out[fmt.Sprintf("%s%q", x.Desc.Name, x.Labels)] = v
	})
	if err != nil {
		t.Logf("read: %v", err)
	}
	return out
}

// shell starts a shell; step makes it run a command and waits until it has.
func shell(t *testing.T) (step func(string)) {
	t.Helper()
	p := await.Converse(t, exec.Command("sh"))
	t.Cleanup(func() {
		_ = p.In.Close() // ends it
		if code := p.ExitStatus(t); code != 0 {
			t.Error(p.Last())
		}
	})
	return func(command string) {
		t.Helper()
		fmt.Fprintln(p.In, command+"; echo done")
		if line := p.Line(t); line != "done" {
			t.Fatalf("%s: the shell says %q", command, line)
		}
	}
}
