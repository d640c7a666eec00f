package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// TestSandboxes opens the launchers that need only tools of this machine. Each runs a job that
// works, one that fails, one that is cancelled and one whose client is killed; nothing may be
// left behind.
func TestSandboxes(t *testing.T) {
	cpu := probetest.CPUs(t)[0]
	for name, c := range map[string]struct {
		launcher string
		params   bench.Params
	}{
		"native":          {"native", bench.Params{"cpus": cpu}},
		"container":       {"container", bench.Params{"cpus": cpu, "memory": "256m", "cpu-limit": "0.5"}},
		"container, kept": {"container", bench.Params{"fresh": "false"}},
		"runsc":           {"runsc", nil},
		"runsc on ptrace": {"runsc", bench.Params{"platform": "ptrace"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the grace of jobs
			h := host.Local()
			l, params := launcher(t, c.launcher, c.params)
			if err := l.Check(h, params); err != nil {
				t.Skip(err)
			}
			data := t.TempDir()
			params["data"] = data
			env, err := l.Open(t.Context(), h, params)
			if err != nil {
				t.Fatal(err)
			}
			closed := false
			defer func() {
				if !closed {
					env.Close()
				}
			}()
			var d result.Environment
			sandboxWorks(t, env, "exec sleep 60") // as process 1 of its namespace it ignores SIGTERM, and is killed after the grace
			sandboxFails(t, env)
			sandboxPortTaken(t, env)
			sandboxEnds(t, env, c.launcher, data, "cancelled", func(cancel func(), _ string) { cancel() })
			for _, after := range []time.Duration{0, 50, 150, 300, 600} { // during the start
				ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
				if _, err := env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{"sleep", "60"}}}); err == nil {
					t.Errorf("cancelled after %d ms: no error", after)
				}
				cancel()
			}
			sandboxEnds(t, env, c.launcher, data, "killed", func(_ func(), mark string) {
				for _, pid := range marked(mark) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			sandboxWorks(t, env, "trap 'exit 0' TERM; sleep 60 & wait")
			if err := env.Describe(t.Context(), &d); err != nil {
				t.Errorf("describe: %v", err)
			}
			for k, want := range map[string]string{"cpus": cpu, "memory": "268435456", "cpu-limit": "0.5"} {
				if c.params[k] != "" && d.Params[k] != want {
					t.Errorf("%s is read back as %q, want %q", k, d.Params[k], want)
				}
			}
			own, err := os.ReadDir(data)
			if err != nil || len(own) != 1 {
				t.Fatalf("the data folder has %v (%v), want one folder of the environment's", own, err)
			}
			work := own[0].Name() // the data folder has the work folder's name
			if err := env.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			closed = true
			gone(t, "closed", work)
			if left, _ := os.ReadDir(data); len(left) > 0 {
				t.Errorf("after Close the data folder has %v", left)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), work+"*")); len(left) > 0 {
				t.Errorf("after Close there is %v", left)
			}
			mounts, err := os.ReadFile("/proc/self/mounts")
			if err != nil || strings.Contains(string(mounts), work) {
				t.Errorf("after Close something is mounted (%v):\n%s", err, mounts)
			}
		})
	}
}

// busyboxImage makes a folder with a shell, and a file that contains its own name.
func busyboxImage(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	const script = `mkdir -p "$1/bin" && cp "$(command -v busybox)" "$1/bin/" && for name in sh cat sleep; do ln -s busybox "$1/bin/$name"; done && echo here >"$1/file"`
	if out, err := exec.Command("sh", "-c", script, "sh", folder).CombinedOutput(); err != nil {
		t.Skipf("no busybox (package busybox-static): %s", out)
	}
	return folder
}

// TestImages: a folder, an ext4 file of it and an OCI image of it are equal for every launcher that takes an image,
// and stay unchanged.
func TestImages(t *testing.T) {
	folder := busyboxImage(t)
	images := map[string]string{"folder": folder}
	if mkfs, err := exec.LookPath("mkfs.ext4"); err == nil {
		disk := filepath.Join(t.TempDir(), "disk")
		if out, err := exec.Command(mkfs, "-q", "-d", folder, disk, "32m").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		images["ext4"] = disk
	}
	if podman, err := exec.LookPath("podman"); err == nil {
		name := "localhost/teescope-e2e-" + strconv.Itoa(os.Getpid())
		if out, err := exec.Command("sh", "-c", `tar -c -C "$1" . | "$2" import - "$3"`, "sh", folder, podman, name).CombinedOutput(); err != nil {
			t.Logf("without an OCI image: %v: %s", err, out)
		} else {
			images["oci"] = name
			t.Cleanup(func() { _ = exec.Command(podman, "rmi", "--force", name).Run() })
		}
	}
	tree := func() string {
		out, err := exec.Command("find", folder, "-printf", "%p %s %T@\n").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	before := tree()
	for kind, image := range images {
		for _, name := range []string{"container", "runsc"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				env := openEnv(t, name, bench.Params{"image": image})
				job := program("sh", "-c", "cat /file {work}/mine; echo x >/file; [ -e /etc/debian_version ] || echo alone")
				job.Files = []bench.File{{Name: "mine", Data: []byte("mine\n")}}
				o, err := env.Run(t.Context(), job)
				if err != nil || string(o.Inside.Stdout) != "here\nmine\nalone\n" {
					t.Errorf("%v: %s%s", err, o.Inside.Stdout, o.Inside.Stderr)
				}
				var d result.Environment
				if err := env.Describe(t.Context(), &d); err != nil || !strings.HasPrefix(d.Software.Versions["image"], "sha256:") {
					t.Errorf("described as %v, %v", d.Software.Versions, err)
				}
			})
		}
	}
	if after := tree(); after != before {
		t.Errorf("the image was\n%sand is\n%s", before, after)
	}
}

// bareImage makes a folder with a server that needs no library, and nothing else.
func bareImage(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(worker())
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("the worker was built with cgo and needs libraries")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "server"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// bareServes: an image without a shell runs what needs none: its own server under load, and the worker. What needs one fails
// with a line that names it.
func bareServes(t *testing.T, env bench.Environment) {
	t.Helper()
	at := bench.Place{Host: "127.0.0.1", Ports: []int{freePort(t)}}
	from := at
	if far, ok := env.(bench.Reached); ok {
		var err error
		if at, from, _, err = far.Reach(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	job := program("/server", "identity", "-word", "bare", "-listen", net.JoinHostPort(at.Host, strconv.Itoa(at.Ports[0])))
	job.Inside.Ready = "ready"
	job.Outside = &host.Cmd{Argv: []string{worker(), "identity", "-word", "bare", "-address", net.JoinHostPort(from.Host, strconv.Itoa(from.Ports[0]))}}
	if o, err := env.Run(t.Context(), job); err != nil {
		t.Errorf("a server: %v", host.WithReason(err, o.Inside, o.Outside))
	}
	if o, err := env.Run(t.Context(), microJob("null")); err != nil || string(o.Inside.Stdout) != "done\n" {
		t.Errorf("the worker: %v, %q", err, o.Inside.Stdout)
	}
	o, err := env.Run(t.Context(), program("sh", "-c", "true"))
	if said := host.WithReason(err, o.Inside); err == nil || !regexp.MustCompile(`(?i)\bsh\b.*(not found|no such file)|finding executable "sh"`).MatchString(said.Error()) || strings.Contains(said.Error(), "\n") {
		t.Errorf("a script: %v", said)
	}
}

// TestImagesWithoutShell: see bareServes. A workload that needs a shell is refused before its runs.
func TestImagesWithoutShell(t *testing.T) {
	folder := bareImage(t)
	for _, name := range []string{"container", "runsc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bareServes(t, openEnv(t, name, bench.Params{"image": folder}))
			_, said, code := run(t, "bench", "run", "custom", "--env", name+",image="+folder, "--param", "shell=sh", "--param", "command=true && true", "--pairs", "1", "--no-counters",
				"--out", filepath.Join(t.TempDir(), "r.json"), "--data", t.TempDir())
			if want := `the environment lacks sh: install what is missing, or name an image that has it (the job runs "sh -c true && true")`; code != 4 || !strings.Contains(said, want) {
				t.Errorf("a workload that needs a shell: exit status %d: %s", code, said)
			}
		})
	}
}

// sandboxWorks runs jobs that work, one of them a server that serves in its own way until it is ended.
func sandboxWorks(t *testing.T, env bench.Environment, serve string) {
	t.Helper()
	if micro.Program == nil {
		t.Skip("no worker was built for this architecture")
	}
	null := bench.Job{
		Inside: host.Cmd{Argv: []string{"{work}/micro", "null"}},
		Files:  []bench.File{{Name: "micro", Data: micro.Program, Exec: true}},
	}
	if err := env.Idle(t.Context(), true); err != nil {
		t.Errorf("idle: %v", err)
	}
	if err := env.Idle(t.Context(), false); err != nil {
		t.Errorf("idle no more: %v", err)
	}
	for range 2 { // the second finds its files, image and container
		out, err := env.Run(t.Context(), null)
		if err != nil || string(out.Inside.Stdout) != "done\n" {
			t.Fatalf("null worker: %v, stdout %q, stderr %q", err, out.Inside.Stdout, out.Inside.Stderr)
		}
		t.Logf("null worker: %v, seen as %v", out.Inside.Wall, out.Processes)
	}
	// A program of the machine, with folders, arguments, environment and input.
	script := `cat > "$0/seen" && cat "$0/seen" && pwd && echo "$WORDS" "$1"`
	out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{
		Argv:  []string{"sh", "-c", script, "{data}", `a "b"`},
		Env:   map[string]string{"WORDS": "in {data}"},
		Dir:   "{data}",
		Stdin: []byte("given\n"),
	}})
	lines := strings.Split(string(out.Inside.Stdout), "\n")
	if err != nil || len(lines) != 4 || lines[0] != "given" || lines[2] != "in "+lines[1]+` a "b"` {
		t.Errorf("a script: %v, stdout %q, stderr %q", err, out.Inside.Stdout, out.Inside.Stderr)
	}
	// A server that reports when it is ready, answers, and is stopped.
	out, err = env.Run(t.Context(), bench.Job{
		Inside:  host.Cmd{Argv: []string{"sh", "-c", "echo ready; read asked; echo got $asked; " + serve}, Ready: "ready", Ask: []byte("this\n")},
		Outside: &host.Cmd{Argv: []string{"sh", "-c", "sleep 0.3; echo load"}},
	})
	if err != nil || string(out.Inside.Stdout) != "ready\ngot this\n" || string(out.Outside.Stdout) != "load\n" {
		t.Errorf("inside and outside: %v, %q, %q, %q", err, out.Inside.Stdout, out.Inside.Stderr, out.Outside.Stdout)
	}
}

func sandboxFails(t *testing.T, env bench.Environment) {
	t.Helper()
	out, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", "echo half; echo why >&2; exit 7"}}})
	if err == nil || out.Inside.Code != 7 || string(out.Inside.Stdout) != "half\n" || !bytes.Contains(out.Inside.Stderr, []byte("why")) {
		t.Errorf("a failing job: %v, %+v", err, out.Inside)
	}
	if _, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{}}); err == nil {
		t.Error("a job without a command passes")
	}
	if _, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"true"}}, Files: []bench.File{{Name: "../out", Data: []byte("x")}}}); err == nil {
		t.Error("a file outside of the work folder passes")
	}
}

// sandboxPortTaken: a server whose port another program has fails its run with a line that says so.
func sandboxPortTaken(t *testing.T, env bench.Environment) {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	program, err := os.ReadFile(worker())
	if err != nil {
		t.Fatal(err)
	}
	o, err := env.Run(t.Context(), bench.Job{
		Inside:  host.Cmd{Argv: []string{"{work}/teescope-work", "identity", "-word", "x", "-listen", taken.Addr().String()}, Ready: "ready"},
		Files:   []bench.File{{Name: "teescope-work", Data: program, Exec: true}},
		Outside: &host.Cmd{Argv: []string{"sleep", "6000"}},
	})
	if said := host.WithReason(err, o.Inside, o.Outside); err == nil || !strings.Contains(said.Error(), "address already in use") || strings.Contains(said.Error(), "\n") {
		t.Errorf("a port that is taken: %v", said)
	}
}

var marks atomic.Int64

// jobRuns returns nil if a job runs that makes a file at its start and has a mark. The files of gVisor's jobs stay in its
// memory, so there its file server must run beside its command.
func jobRuns(launcher, mark, file string) error {
	made, _ := filepath.Glob(file)
	pids := marked(mark)
	if launcher == "runsc" && len(pids) >= 2 || len(made) > 0 && len(pids) > 0 {
		return nil
	}
	return fmt.Errorf("files %v, processes %v", made, pids)
}

// sandboxEnds runs a job that would take twenty minutes, with two children, and ends it early, when all of it runs: who
// kills what one look finds would miss a process that is made just then. Data is the folder that has
// the environment's own.
func sandboxEnds(t *testing.T, env bench.Environment, name, data, how string, end func(cancel func(), mark string)) {
	t.Helper()
	mark := fmt.Sprintf("teescope-mark-%d-%d", os.Getpid(), marks.Add(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := env.Run(ctx, bench.Job{Inside: host.Cmd{
			Argv: []string{"sh", "-c", "sleep 1201 & sleep 1202 & : >{data}/" + mark + "; wait; echo " + mark},
			Env:  map[string]string{"MARK": mark},
		}})
		done <- err
	}()
	await.Event(t, how+": the job runs", func() error { return jobRuns(name, mark, filepath.Join(data, "*", mark)) })
	end(cancel, mark)
	err := <-done
	if err == nil || how == "cancelled" && !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%s: the run's error is %v", how, err)
	}
	gone(t, how, mark)
}

// gone waits until no process is marked: the kernel ends a killed one with a delay.
func gone(t *testing.T, how, mark string) {
	t.Helper()
	await.Event(t, how+": its processes have ended", func() (err error) {
		for _, pid := range marked(mark) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			err = errors.Join(err, fmt.Errorf("process %d still runs: %q", pid, line))
		}
		return err
	})
}

// marked finds processes that carry a text in their command line or environment.
func marked(text string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(dir + "/cmdline")
		env, _ := os.ReadFile(dir + "/environ")
		if pid != os.Getpid() && (bytes.Contains(line, []byte(text)) || bytes.Contains(env, []byte(text))) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
