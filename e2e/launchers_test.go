package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/benchtest"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// launcher finds a launcher and completes its parameters.
func launcher(t *testing.T, name string, given bench.Params) (*bench.Launcher, bench.Params) {
	t.Helper()
	i := slices.IndexFunc(launchers.All, func(l *bench.Launcher) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no launcher %s", name)
	}
	p, err := bench.Complete("launcher "+name, launchers.All[i].Params, given)
	if err != nil {
		t.Fatal(err)
	}
	return launchers.All[i], p
}

// openEnv checks and opens an environment, and closes it when the test ends.
func openEnv(t *testing.T, name string, given bench.Params) bench.Environment {
	t.Helper()
	l, p := launcher(t, name, given)
	h := host.Local()
	if err := l.Check(h, p); err != nil {
		t.Skip(err)
	}
	env, err := l.Open(t.Context(), h, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return env
}

// microJob runs the worker.
func microJob(args ...string) bench.Job {
	return bench.Job{
		Inside: host.Cmd{Argv: append([]string{"{work}/micro"}, args...)},
		Files:  []bench.File{{Name: "micro", Data: micro.Program, Exec: true}},
	}
}

// program runs a program of the environment.
func program(argv ...string) bench.Job { return bench.Job{Inside: host.Cmd{Argv: argv}} }

// conversations checks what every job may expect of an environment.
func conversations(t *testing.T, env bench.Environment) {
	t.Helper()
	f := func(what string, job bench.Job, stdout, stderr string, code int) {
		t.Helper()
		o, err := env.Run(t.Context(), job)
		if (err != nil) != (code != 0) || o.Inside.Code != code {
			t.Errorf("%s: status %d, %v; want %d", what, o.Inside.Code, err, code)
		}
		if got := string(o.Inside.Stdout); got != stdout {
			t.Errorf("%s: stdout %q, want %q", what, got, stdout)
		}
		if got := string(o.Inside.Stderr); got != stderr {
			t.Errorf("%s: stderr %q, want %q", what, got, stderr)
		}
		var lines []string
		for _, l := range o.Inside.Lines {
			lines = append(lines, l.Text)
			if l.At <= 0 || l.At > o.Inside.Wall {
				t.Errorf("%s: line %q at %v of %v", what, l.Text, l.At, o.Inside.Wall)
			}
		}
		if got := strings.Join(lines, "\n"); got != strings.TrimSuffix(stdout, "\n") {
			t.Errorf("%s: lines %q", what, lines)
		}
	}
	f("null", microJob("null"), "done\n", "", 0)
	f("status", program("sh", "-c", "echo out; echo err >&2; printf tail; exit 3"), "out\ntail", "err\n", 3)
	f("signal", program("sh", "-c", "kill -9 $$"), "", "", -1)

	ask := program("sh", "-c", "read first; echo $first; echo ready; read x; echo got $x; read y || echo closed")
	ask.Inside.Stdin, ask.Inside.Ready, ask.Inside.Ask = []byte("one\n"), "ready", []byte("it\n")
	f("ready and ask", ask, "one\nready\ngot it\nclosed\n", "", 0)

	place := program("sh", "-c", `read a <"$FILE"; echo "$a $WORDS"; cd -P . ; case $PWD in */sub) echo there;; esac; : >{data}/x && echo data`)
	place.Inside.Env = map[string]string{"FILE": "{work}/sub/a file", "WORDS": `two "words"`}
	place.Inside.Dir = "{work}/sub"
	place.Files = []bench.File{{Name: "sub/a file", Data: []byte("content\n")}}
	f("files, folder and environment", place, "content two \"words\"\nthere\ndata\n", "", 0)
	place.Files[0].Data = []byte("changed\n")
	f("a changed file", place, "changed two \"words\"\nthere\ndata\n", "", 0)

	long := strings.Repeat("0123456789abcdef", 4<<10)
	big := program("cat")
	big.Inside.Stdin = []byte(long + "\n")
	f("64 KiB in and out", big, long+"\n", "", 0)

	o, err := env.Run(t.Context(), benchtest.WordsJob())
	if err == nil {
		err = benchtest.CheckWords(o.Inside.Stdout)
	}
	if err != nil {
		t.Errorf("words on their way: %v", err)
	}

	if o, err := env.Run(t.Context(), program("{work}/absent")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("a program that is not there: %v, %+v", err, o.Inside)
	}

	capture, err := env.Run(t.Context(), microJob("capture", "/proc/version", "/proc/cpuinfo"))
	if err != nil {
		t.Errorf("capture: %v: %s", err, capture.Inside.Stderr)
	}
	text := strings.TrimSpace(string(capture.Inside.Stdout))
	if !strings.HasPrefix(text, "capture 1\n") || !strings.Contains(text, "\nfile /proc/version ") ||
		!strings.HasPrefix(text[strings.LastIndexByte(text, '\n')+1:], "end ") {
		t.Errorf("capture says %.200q ...", text)
	}
}

// long is how many seconds a job sleeps that is ended: no other run of these tests has the same number.
var long = strconv.Itoa(1_000_000 + os.Getpid())

// cancelled cancels a run and checks that the next one works.
func cancelled(t *testing.T, env bench.Environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := env.Run(ctx, program("sleep", long))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled run: %v", err)
	}
	if o, err := env.Run(t.Context(), microJob("null")); err != nil || string(o.Inside.Stdout) != "done\n" {
		t.Errorf("run after a cancelled one: %v, %q", err, o.Inside.Stdout)
	}
}

// leftovers lists our folders in the temporary folder.
func leftovers(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "teescope-*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(found, func(s string) bool { return strings.Contains(filepath.Base(s), "e2e") })
}

// TestQEMU boots Debian's cloud kernel under software emulation.
func TestQEMU(t *testing.T) {
	tool(t, "qemu-system-x86_64", "qemu-system-x86")
	t.Setenv("TMPDIR", t.TempDir())
	kernel := debianKernel(t, t.TempDir())

	t.Run("memory", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "bounce": "on"})
		conversations(t, env)
		cmdline, err := env.Run(t.Context(), program("cat", "/proc/cmdline"))
		if err != nil || !strings.Contains(string(cmdline.Inside.Stdout), " swiotlb=force ") {
			t.Errorf("kernel command line %q, %v", cmdline.Inside.Stdout, err)
		}
		if got := strings.Join(cmdline.Processes, " "); got != "qemu-system-x86" {
			t.Errorf("processes %q", got)
		}
		var d result.Environment
		if err := env.Describe(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		if d.Params["cpus"] != "1" || d.Params["memory"] != strconv.Itoa(1<<30) || d.Params["accel"] == "auto" || d.Software.Versions["qemu"] == "" {
			t.Errorf("described as %+v", d)
		}
		t.Logf("accelerator: %s; %s", d.Params["accel"], d.TEE.Settings["accelerator"])

		// Time stands still in a frozen guest.
		uptime := func() float64 {
			o, err := env.Run(t.Context(), program("cat", "/proc/uptime"))
			if err != nil {
				t.Fatal(err)
			}
			up, _, _ := strings.Cut(string(o.Inside.Stdout), " ")
			v, err := strconv.ParseFloat(up, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		began, before := time.Now(), uptime()
		if err := env.Idle(t.Context(), true); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second) // clock: it stands still at least for this time
		if err := env.Idle(t.Context(), false); err != nil {
			t.Error(err)
		}
		// clock: this one goes on for longer than the guest's, however late it is read.
		if inside, outside := uptime()-before, time.Since(began).Seconds(); inside > outside-2 {
			t.Errorf("frozen for 3 s of %.1f s, the guest saw %.1f s", outside, inside)
		}
		cancelled(t, env)
	})
	t.Run("disk", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "disk": "64MiB", "data": t.TempDir()})
		mounts, err := env.Run(t.Context(), program("cat", "/proc/mounts"))
		if err != nil || !strings.Contains(string(mounts.Inside.Stdout), "/dev/vda /data ext4 rw") {
			t.Errorf("mounts %s, %v", mounts.Inside.Stdout, err)
		}
		fio := program("fio", "--name=a", "--filename={data}/a", "--size=1M", "--rw=write", "--bs=64k", "--direct=1", "--ioengine=psync", "--output-format=terse")
		if _, err := exec.LookPath("fio"); err == nil {
			if o, err := env.Run(t.Context(), fio); err != nil || !strings.Contains(string(o.Inside.Stdout), ";a;") {
				t.Errorf("fio: %v\n%s%s", err, o.Inside.Stdout, o.Inside.Stderr)
			}
		}
		full := program("dd", "if=/dev/zero", "of={data}/full", "bs=1M")
		if o, err := env.Run(t.Context(), full); err == nil || !strings.Contains(host.WithReason(err, o.Inside, o.Outside).Error(), "No space left on device") {
			t.Errorf("a job that fills the guest's disk: %v\n%s", err, o.Inside.Stderr)
		}
		if o, err := env.Run(t.Context(), microJob("null")); err != nil || string(o.Inside.Stdout) != "done\n" {
			t.Errorf("after that: %v, %q", err, o.Inside.Stdout)
		}
		if err := env.Idle(t.Context(), true); err != nil { // a frozen guest can be closed
			t.Error(err)
		}
	})
	t.Run("servers", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "accel": "tcg", "net": "user", "memory": "256MiB"})
		if _, err := env.Run(t.Context(), microJob("null")); err != nil { // it boots
			t.Fatal(err)
		}
		far := env.(bench.Reached)
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		if _, _, _, err := far.Reach(t.Context(), bench.Place{Host: "127.0.0.1", Ports: []int{taken.Addr().(*net.TCPAddr).Port}}); err == nil || !strings.Contains(err.Error(), "another program") {
			t.Errorf("a port that is taken: %v", err)
		}
		port := freePort(t)
		inside, outside, way, err := far.Reach(t.Context(), bench.Place{Host: "127.0.0.1", Ports: []int{port}})
		if err != nil || inside.Host == outside.Host || outside.Ports[0] != port || way == "" {
			t.Fatalf("reached at %v and %v, %s, %v", inside, outside, way, err)
		}
		for name, c := range map[string]struct {
			script, ready, load string
			want                string // "": it succeeds
		}{
			"served":            {"trap 'echo bye; exit 0' TERM; echo up; sleep 600 & wait", "up", "echo loaded", ""},
			"fails":             {"echo up; sleep 600", "up", "exit 5", "exit status 5"},
			"dies at once":      {"exit 3", "", "sleep 600", "before the load generator outside: run /usr/bin/sh: exit status 3"},
			"never ready":       {"exit 4", "up", "sleep 600", `before it printed "up": run /usr/bin/sh: exit status 4`},
			"eats up the guest": {"echo up; tail /dev/zero", "up", "sleep 600", "the guest ran out of memory and its kernel killed tail"},
		} {
			job := program("sh", "-c", c.script)
			job.Inside.Ready, job.Programs, job.Outside = c.ready, []string{"tail", "sleep"}, &host.Cmd{Argv: []string{"sh", "-c", c.load}}
			o, err := env.Run(t.Context(), job)
			switch {
			case c.want == "" && (err != nil || string(o.Inside.Stdout) != "up\nbye\n" || string(o.Outside.Stdout) != "loaded\n"):
				t.Errorf("%s: %v, inside %q, outside %q", name, err, o.Inside.Stdout, o.Outside.Stdout)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%s: %v, want %q on one line", name, err, c.want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		hangs := program("sleep", "600")
		hangs.Outside = &host.Cmd{Argv: []string{"sleep", "600"}}
		if _, err := env.Run(ctx, hangs); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
		if o, err := env.Run(t.Context(), microJob("null")); err != nil || string(o.Inside.Stdout) != "done\n" {
			t.Errorf("after that: %v, %q", err, o.Inside.Stdout)
		}
		networkLost(t, env, outside)
	})
	t.Run("image", func(t *testing.T) {
		tool(t, "mkfs.ext4", "e2fsprogs")
		folder := bareImage(t)
		const script = `cp "$(command -v busybox)" "$1/busybox" && echo here >"$1/file"`
		if out, err := exec.Command("sh", "-c", script, "sh", folder).CombinedOutput(); err != nil {
			t.Skipf("no busybox (package busybox-static): %s", out)
		}
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "accel": "tcg", "net": "user", "image": folder, "disk": "64MiB", "data": t.TempDir()})
		bareServes(t, env)
		job := program("/busybox", "sh", "-c", "/busybox cat /file {work}/mine /proc/mounts; echo x >/new; /busybox cat /new")
		job.Files = []bench.File{{Name: "mine", Data: []byte("mine\n")}}
		o, err := env.Run(t.Context(), job)
		if text := string(o.Inside.Stdout); err != nil || !strings.HasPrefix(text, "here\nmine\n") || !strings.HasSuffix(text, "x\n") || !strings.Contains(text, "/dev/vda / ext4") || !strings.Contains(text, "/dev/vdb /data ext4") {
			t.Errorf("%v: %s%s", err, text, o.Inside.Stderr)
		}
		if _, err := os.Stat(filepath.Join(folder, "new")); err == nil {
			t.Error("the guest wrote into the image")
		}
		if o, err := env.Run(t.Context(), microJob("has", "/busybox", "redis-server")); err == nil || string(o.Inside.Stdout) != "redis-server\n" {
			t.Errorf("programs that the image lacks: %v, %q", err, o.Inside.Stdout)
		}
	})
	t.Run("fresh", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "fresh": "true", "accel": "tcg"})
		o, err := env.Run(t.Context(), microJob("null"))
		if err != nil || len(o.Inside.Lines) != 1 || o.Inside.Lines[0].At < 100*time.Millisecond {
			t.Errorf("a boot is not part of the run: %v, %+v", err, o.Inside.Lines)
		}
		phases(t, o)
		touchedInside(t, env)
	})
	t.Run("panic", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "accel": "tcg", "append": "rdinit=/absent root=/dev/absent"})
		err := env.(bench.Prepared).Prepare(t.Context(), microJob("null"))
		if err == nil || !strings.Contains(err.Error(), "panic") {
			t.Errorf("a guest without a first program: %v", err)
		}
		t.Log(err)
	})
	t.Run("killed", func(t *testing.T) {
		env := openEnv(t, "qemu", bench.Params{"kernel": kernel, "accel": "tcg", "net": "user"})
		started := filepath.Join(t.TempDir(), "started")
		job := program("sh", "-c", "echo up; sleep "+long)
		job.Inside.Ready, job.Programs = "up", []string{"sleep"}
		job.Outside = &host.Cmd{Argv: []string{"sh", "-c", ": >" + started + "; exec sleep " + long}}
		ended := make(chan error, 1)
		go func() {
			_, err := env.Run(t.Context(), job)
			ended <- err
		}()
		await.Event(t, "the job runs", func() error { _, err := os.Stat(started); return err })
		killQEMU(t)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("the machine was killed: %v", err)
		}
	})
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// networkLost: a run during which the guest's network card goes away says so, and its machine is ended, so the next run has
// another.
func networkLost(t *testing.T, env bench.Environment, outside bench.Place) {
	t.Helper()
	lost := program("sh", "-c", "for d in /sys/bus/virtio/drivers/virtio_net/virtio*; do echo ${d##*/} >${d%/*}/unbind; done; echo up; sleep 600")
	lost.Inside.Ready, lost.Programs = "up", []string{"sleep"}
	lost.Outside = &host.Cmd{Argv: []string{worker(), "identity", "-word", "x", "-wait", "1ms", "-address", net.JoinHostPort(outside.Host, strconv.Itoa(outside.Ports[0]))}}
	o, err := env.Run(t.Context(), lost)
	if said := host.WithReason(err, o.Inside, o.Outside); err == nil || !strings.Contains(said.Error(), "the guest has lost its network: the guest's card eth0 is gone: run "+worker()) || strings.Contains(said.Error(), "\n") {
		t.Errorf("without its network: %v", said)
	}
	if pid := ownQEMU(t); pid != 0 {
		t.Errorf("its machine still runs, as process %d", pid)
	}
}

// phases: those inside a guest follow one another by its own clock, and the job comes after the last.
func phases(t *testing.T, o bench.Outcome) {
	t.Helper()
	if o.Boot == nil {
		t.Fatal("no boot is recorded")
	}
	for _, at := range [][]time.Duration{{o.Boot.Firmware, o.Boot.Kernel, o.Boot.Init, o.Inside.Lines[0].At}, {0, o.Boot.VMM, o.Boot.Init}} {
		for i := range at[1:] {
			if at[i+1] <= at[i] {
				t.Errorf("phases end at %v: want each after the one before", at)
			}
		}
	}
	t.Logf("emulated: %+v", o.Boot)
}

// touchedInside: the guest's kernel counts one fault for each page of new memory, both times.
func touchedInside(t *testing.T, env bench.Environment) {
	t.Helper()
	w := workloads.All[slices.IndexFunc(workloads.All, func(w *bench.Workload) bool { return w.Name == "first-touch" })]
	p, err := bench.Complete("workload first-touch", w.Params, bench.Params{"size": "64MiB"})
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.Job(p)
	if err != nil {
		t.Fatal(err)
	}
	o, err := env.Run(t.Context(), job)
	o.Params = p
	if err != nil {
		t.Fatalf("%v: %s", err, o.Inside.Stderr)
	}
	if digest, err := w.Check(o); err != nil || digest == "" {
		t.Errorf("first touch inside: %v", err)
	}
	if n := strings.Count(string(o.Inside.Stdout), "faults 16384\n"); n != 2 {
		t.Errorf("pages of the first touch inside: %s", o.Inside.Stdout)
	}
}

// killQEMU kills the QEMU whose files are in this test's temporary folder.
func killQEMU(t *testing.T) {
	t.Helper()
	pid := ownQEMU(t)
	if pid == 0 {
		t.Error("found no QEMU of this test")
		return
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Errorf("kill QEMU: %v", err)
	}
}

// ownQEMU returns the process id of the QEMU whose files are in this test's temporary folder; 0 is none.
func ownQEMU(t *testing.T) int {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(b), "qemu-system-x86_64\x00") || !strings.Contains(string(b), os.TempDir()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			return pid
		}
	}
	return 0
}

// sshServer is an sshd with its own keys in dir.
type sshServer struct {
	dir          string
	temp         string // the temporary folder of what it runs
	port         int
	user         string
	known, wrong string // files of host keys
	address      string
}

// startSSH starts an sshd on loopback.
func startSSH(t *testing.T) *sshServer {
	t.Helper()
	return startSSHAt(t, "127.0.0.1", nil, "")
}

// startSSHAt starts an sshd at an address, by a command that brings it there, with further lines of its configuration.
func startSSHAt(t *testing.T, address string, by []string, lines string) *sshServer {
	t.Helper()
	sshd := "/usr/sbin/sshd" // it must be called by its whole path
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("no /usr/sbin/sshd (package openssh-server)")
	}
	keygen := tool(t, "ssh-keygen", "openssh-client")
	dir, temp, port := t.TempDir(), t.TempDir(), freePort(t)
	for _, name := range []string{"host", "user", "other"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("make keys: %v: %s", err, out)
		}
	}
	key := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(b))[:2], " ")
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known := write("known_hosts", fmt.Sprintf("[%s]:%d %s\n", address, port, key("host")))
	wrong := write("wrong_hosts", fmt.Sprintf("[%s]:%d %s\n", address, port, key("other")))
	config := write("sshd_config", fmt.Sprintf(`ListenAddress %s:%d
HostKey %s/host
PidFile none
AuthorizedKeysFile %s
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin prohibit-password
%s
SetEnv TMPDIR=%s
`, address, port, dir, write("authorized_keys", key("user")+"\n"), lines, temp))
	if os.Geteuid() == 0 { // the folder sshd changes its root to; systemd would make it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	argv := append(slices.Clone(by), sshd, "-D", "-e", "-f", config)
	p := start(t, argv[0], argv[1:]...)
	await.Event(t, "sshd listens", func() error {
		if text := p.Err.String(); !strings.Contains(text, "Server listening on") {
			return fmt.Errorf("it said %q", text)
		}
		return nil
	})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return &sshServer{dir, temp, port, me.Username, known, wrong, address}
}

// env is the server as an environment, with further parameters.
func (s *sshServer) env(more ...string) string {
	return "ssh," + strings.Join(append([]string{"host=" + s.user + "@" + s.address, "port=" + strconv.Itoa(s.port), "identity=" + filepath.Join(s.dir, "user"), "work=" + s.temp,
		"options=UserKnownHostsFile=" + s.known + " StrictHostKeyChecking=yes GlobalKnownHostsFile=/dev/null"}, more...), ",")
}

// client is the server as the machine of the load.
func (s *sshServer) client() string {
	return fmt.Sprintf("ssh:%s@%s,port=%d,identity=%s,options=UserKnownHostsFile=%s GlobalKnownHostsFile=/dev/null", s.user, s.address, s.port, filepath.Join(s.dir, "user"), s.known)
}

// TestSSH runs jobs through sshd.
func TestSSH(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	server := startSSH(t)
	dir, port, known, wrong := server.dir, server.port, server.known, server.wrong
	work := t.TempDir()
	params := bench.Params{"host": server.user + "@127.0.0.1", "port": strconv.Itoa(port), "identity": filepath.Join(dir, "user"), "work": work,
		"options": "UserKnownHostsFile=" + known + " StrictHostKeyChecking=yes GlobalKnownHostsFile=/dev/null"}

	env := openEnv(t, "ssh", params)
	conversations(t, env)
	if o, err := env.Run(t.Context(), microJob("null")); err != nil || len(o.Processes) != 0 || o.Inside.MaxRSS == 0 {
		t.Errorf("%v: processes %v, resident %d", err, o.Processes, o.Inside.MaxRSS)
	}
	cancelled(t, env)
	await.Event(t, "the cancelled program has ended", func() error {
		if pids := sleepers(t); len(pids) > 0 {
			return fmt.Errorf("it still runs: %v", pids)
		}
		return nil
	})
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(work)
	if err != nil || len(left) > 0 || len(leftovers(t)) > 0 {
		t.Errorf("left behind: %v, %v, %v", left, leftovers(t), err)
	}

	refused := func(what, want string, change bench.Params) {
		t.Helper()
		given := bench.Params{}
		for _, m := range []bench.Params{params, change} {
			for k, v := range m {
				given[k] = v
			}
		}
		l, p := launcher(t, "ssh", given)
		env, err := l.Open(t.Context(), host.Local(), p)
		if env != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", what, err, want)
		}
	}
	refused("another host key", "Host key verification failed", bench.Params{"options": "UserKnownHostsFile=" + wrong + " GlobalKnownHostsFile=/dev/null"})
	refused("another user key", "Permission denied", bench.Params{"identity": filepath.Join(dir, "other")})
	refused("no such folder", "absent", bench.Params{"work": "/absent"})
	refused("nobody listens", "Connection refused", bench.Params{"port": strconv.Itoa(freePort(t))})
}

// TestServerOverSSH: Redis runs on the other machine and its load here; they meet on an
// address of the other machine.
func TestServerOverSSH(t *testing.T) {
	tool(t, "redis-server", "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	server := startSSH(t)
	work, out := t.TempDir(), filepath.Join(t.TempDir(), "r.json")
	env := "ssh,host=" + server.user + "@127.0.0.1,port=" + strconv.Itoa(server.port) + ",identity=" + filepath.Join(server.dir, "user") + ",work=" + work +
		",options=UserKnownHostsFile=" + server.known + " StrictHostKeyChecking=yes GlobalKnownHostsFile=/dev/null"
	args := []string{"bench", "run", "redis", "--env", "native", "--pairs", "1", "--param", "connections=4", "--param", "keys=2000", "--param", "warm=200ms", "--param", "measure=4s", "--param", "rate=200",
		"--metric", "server_cpu_per_request_seconds", "--out", out, "--data", t.TempDir()}
	if _, said, code := run(t, append(args, "--env", env)...); code != 0 && code != 3 { // one pair gives no verdict
		t.Fatalf("exit status %d: %s", code, said)
	}
	e := whole(t, out)
	for i := range e.Runs {
		if e.Runs[i].OutputDigest != e.Runs[0].OutputDigest {
			t.Errorf("%s: digest %s, want %s", e.Runs[i].ID, e.Runs[i].OutputDigest, e.Runs[0].OutputDigest)
		}
	}
	if a, b := e.Environments[0].Network, e.Environments[1].Network; a != "loopback" || b == "" || a == b {
		t.Errorf("the networks are %q and %q", a, b)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 || len(leftovers(t)) > 0 {
		t.Errorf("left behind: %v, %v, %v", left, leftovers(t), err)
	}
	_, said, code := run(t, append(args, "--env", env+",address=::1", "--out", out+".2")...)
	if code != 4 || !strings.Contains(said, "IPv4 address") {
		t.Errorf("an address of version 6: exit status %d: %s", code, said)
	}
}

// sleepers returns the processes of the cancelled job.
func sleepers(t *testing.T) []string {
	t.Helper()
	var out []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && string(b) == "sleep\x00"+long+"\x00" {
			out = append(out, name)
		}
	}
	return out
}
