// Package bench runs workloads in environments and keeps the output. A Workload is
// three pure functions (the job, the parser of its output, the check that it did the
// work); a Launcher opens an Environment, which is one arm of a comparison; a Plan
// arranges their runs in random interleaved order. The members are in bench/workloads
// and bench/launchers; package verdict draws the conclusions.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// Params are the parameters of a workload or a launcher, by name.
type Params map[string]string

// Param declares a parameter.
type Param struct {
	Name, Doc, Default string
	// Subject: the parameter names what is compared (a binary, say), so arms may differ
	// in it without being different jobs.
	Subject bool
	// Text: the value is free text (a command line), taken literally; in other values
	// "|" separates alternatives, each of which is a case.
	Text bool
	// Path: the value is a path on the harness's machine; a relative one starts in the
	// user's current folder. List: several, separated by commas. Named: a value that is not a path (IsPath) is a name.
	Path, List, Named bool
	// Values are the allowed ones; nil is any.
	Values []string
}

// Tool is a command that a member needs, and the Debian package that provides it.
type Tool struct {
	Command, Package string
	// Param is the parameter that names the command, by name or path, where its value is another than Command.
	Param string
	// Outside is a pattern of paths where packages put the command outside PATH.
	Outside string
	// With reports whether jobs with these parameters need it; nil means that all do.
	With func(Params) bool
	// Load: it makes the load, so it is needed where that runs and not inside.
	Load bool
}

func (t Tool) neededFor(p Params) bool { return t.With == nil || t.With(p) }

// command is the tool's command in jobs with these parameters.
func (t Tool) command(p Params) string { return cmp.Or(p[t.Param], t.Command) }

// lack says what a machine lacks for jobs with these parameters; "" if it has the tool.
func (t Tool) lack(h *host.Host, p Params) string {
	command := t.command(p)
	_, err := h.LookPath(command)
	switch {
	case err == nil:
		return ""
	case command != t.Command:
		return fmt.Sprintf("%s=%s on this machine: %v; name another program, or install the package %s", t.Param, command, err, t.Package)
	case t.isOutsidePath(h):
		return ""
	}
	return fmt.Sprintf("%s on this machine; install the package %s", command, t.Package)
}

// isOutsidePath reports whether a machine has the command where packages put it outside PATH.
func (t Tool) isOutsidePath(h *host.Host) bool {
	if t.Outside == "" {
		return false
	}
	found, err := h.Glob(t.Outside)
	return err == nil && len(found) > 0
}

// Workload describes a job and how to read its output.
type Workload struct {
	Name, Doc string
	// Version is raised when the job changes: results do not compare across it.
	Version int
	Params  []Param
	// Metrics are all that Parse may return.
	Metrics func(Params) []*metric.Desc
	// Primary is the metric of the verdict, unless an experiment names another. It is
	// one of Metrics.
	Primary func(Params) *metric.Desc
	// Operations is the metric that counts the operations of a run, by which counters
	// are divided; nil if there is none.
	Operations *metric.Desc
	// Sweep are the parameter values used when the user names none.
	Sweep map[string][]string
	// Quick are parameters of one short case, for a first look: they replace defaults and the sweep, and nothing that an
	// experiment or the user sets.
	Quick map[string]string
	// Environments are used when the user names none; nil is native.
	Environments []string
	// Tools are needed inside the environment, or by the load on it.
	Tools []Tool
	// Estimate is the cost of one run, for the dry run: its duration and the disk space
	// it needs.
	Estimate func(Params) (time.Duration, int64)
	// Job is what to run for these parameters.
	Job func(Params) (Job, error)
	// Parse reads the metrics. A value missing from the output is left out and named in
	// the error, which may accompany samples; it is never 0.
	Parse func(Outcome) ([]metric.Sample, error)
	// Series returns the values of the primary metric over the run, from which the
	// steady state is found; nil if a run is one number.
	Series func(Outcome) (Series, error)
	// Check returns a digest of the work that was done, equal in every run of a case,
	// or an error that describes the wrong answer. Words may follow a hash, to say how
	// unequal work differs.
	Check func(Outcome) (string, error)
	// Path is what a run found of the network between the two machines of its job, for
	// result.Environment.Path; nil for jobs on one machine.
	Path func(Outcome) map[string]string
	// Server is what the server of a run said that it is, for result.ServerVersion; nil where the program's --version says it.
	Server func(Outcome) string
	// Failures are the failed operations of a run, by kind; nil if unknown.
	Failures func(Outcome) map[string]int
	// PerArm: a case's digest may differ between arms if the tool's version does (it is
	// then only compared within an arm). False for nearly all.
	PerArm bool
}

// Series is a metric over the time of a run.
type Series struct {
	Values []float64
	// Width is the length of a window in seconds.
	Width float64
	// Attained, if not nil, is the tool's own decision whether a steady state was
	// reached (fio's steadystate); Values are then not judged again, and Method names
	// the tool.
	Attained *bool
	Method   string
}

// Job is a command inside an environment, with the files it needs there.
type Job struct {
	// Inside runs in the environment. In Argv, Env and Dir the text {work} stands
	// for the environment's work folder, in which Files lie, and {data} for a
	// folder with room for test files (the disk under test).
	//
	// In Argv and Env of both commands and in Data of Files {port}, {port2} and
	// {port3} stand for TCP ports, and {host} for an address: in Inside and Files those
	// on which servers listen, in Outside those at which it reaches them. They stay the
	// same for the runs of an environment (Reached).
	Inside host.Cmd
	Files  []File
	// Programs are programs of the machine that the inside starts besides its own, and folders
	// that they read, as patterns of paths; a name without a slash is looked up in PATH.
	// Launchers whose environments do not see the machine's files copy them in.
	Programs []string
	// Modules are the kernel modules that the inside uses, for environments with a kernel of
	// their own; built-in ones count as present.
	Modules []string
	// Boots: what is measured is the boot of a machine (Outcome.Boot).
	Boots bool
	// Monitor: what is measured is what a virtual machine costs this one (Outcome.Monitor).
	Monitor bool
	// Outside runs next to it on the harness's machine (a load generator), after the
	// inside has printed the line Inside.Ready, or at once if that is "": it then waits
	// for the server itself. When one of the two ends, the other is ended. nil for most
	// jobs.
	Outside *host.Cmd
	// Datagrams: the load also sends UDP to the ports.
	Datagrams bool
	// Window are lines that Outside prints to standard error before the first and after
	// the last of the operations by which counters are divided; it then pauses until a
	// line on standard input tells it to continue. The counters cover the time between,
	// not the whole run, in which a server starts and is filled with data. "" for jobs
	// that are counted as a whole.
	Window [2]string
	// Waits begins lines that Outside prints to standard error when it has waited for a while;
	// the rest says for what. Only for jobs with a Window.
	Waits string
	// Waiting, if not nil, is called by the launcher with what the run waits for before its
	// load begins, and with "" when the wait ends. It does not block.
	Waiting func(what string)
	// Processes are further names under which the inside works (if a script starts the
	// server, say), for the counters.
	Processes []string
}

// File is put into an environment's work folder before the first run of a job.
type File struct {
	Name string // slash-separated, relative
	// Data is the content; if nil, it is read from the harness's file From.
	Data []byte
	// From is a path, or one of the constants below.
	From string
	Exec bool
	// Hint says how to get the file From, for an error.
	Hint string
}

// These stand in File.From for files that we build or fetch, which are next to this program or in PATH.
const (
	Worker = "{worker}" // of networked jobs
	Prover = "{prover}" // of jobs that make proofs
	ZKVM   = "{zkvm}"   // of jobs that prove the execution of a program

	Llama   = "{llama}"   // llama.cpp's server of language models
	Weights = "{weights}" // of a small language model

	RandomWeights38M  = "{random-38m}"  // of a smaller one, which says nothing
	RandomWeights362M = "{random-362m}" // of a larger one, which says nothing

	FerretDB = "{ferretdb}" // a server of MongoDB's protocol
)

// beside are the commands of these programs, or names of their files, and what makes them.
var beside = map[string]struct{ command, made string }{
	Worker: {"teescope-work", "`make build` builds it"},
	Prover: {"teescope-prove", "`make build` builds it"},
	ZKVM:   {"teescope-zkvm", "`make zkvm` builds it with Rust in about five minutes"},

	Llama:   {"llama-server", "`make llm` builds it in about 20 minutes"},
	Weights: {"smollm2-135m-instruct.gguf", "`make llm` downloads it"},

	RandomWeights38M:  {"random-38m.gguf", "`make llm` makes it"},
	RandomWeights362M: {"random-362m.gguf", "`make llm` makes it"},

	FerretDB: {"ferretdb", "`make ferretdb` builds it in about three minutes"},
}

// Content is what the file holds.
func (f File) Content(h *host.Host) ([]byte, error) {
	if f.Data != nil {
		return f.Data, nil
	}
	name, err := f.path(h)
	if err != nil {
		return nil, err
	}
	b, err := h.ReadFile(name)
	if err != nil {
		return nil, f.missing(err)
	}
	return b, nil
}

// checkReadable says why the file cannot be read on this machine, or is nil.
func (f File) checkReadable(h *host.Host) error {
	if f.Data != nil {
		return nil
	}
	name, err := f.path(h)
	if err != nil {
		return err
	}
	if _, err := h.Stat(name); err != nil {
		return f.missing(err)
	}
	return nil
}

// path is where the file lies on this machine.
func (f File) path(h *host.Host) (string, error) {
	program, ours := beside[f.From]
	if !ours {
		return f.From, nil
	}
	name, err := h.FindOwnProgram(program.command)
	if err != nil {
		return "", fmt.Errorf("%w next to this program or in PATH (%s)", err, program.made)
	}
	return name, nil
}

func (f File) missing(err error) error {
	if f.Hint != "" {
		return fmt.Errorf("file %s of the job: %w (%s)", f.Name, err, f.Hint)
	}
	return fmt.Errorf("file %s of the job: %w", f.Name, err)
}

// Outcome is what a run left behind.
type Outcome struct {
	Params          Params
	Inside, Outside host.Output
	// Processes are the names (15 bytes) under which the kernel of the harness's
	// machine sees the workload, for the monitor's counters; empty if it does not see
	// it (another machine).
	Processes []string
	// Machine: the workload ran in a virtual machine, and what its kernel did is not known to
	// the kernel of the harness's machine.
	Machine bool
	// Whole: the CPU time of Inside is that of all of the workload's processes and of
	// nothing else, so the counters by process can be checked against it.
	Whole bool
	// Counters are those of the run's events; nil without any.
	Counters []result.Counter
	// Beside is the CPU time of other programs that the launcher ran on purpose during the run.
	Beside time.Duration
	// Raw are further outputs to keep with the result, by name ("console").
	Raw map[string][]byte
	// Boot is of the machine that was booted for this run (Launcher.Boots); nil if none was.
	Boot *Boot
	// Monitor is what the machine of this run cost (Launcher.Monitor); nil if that could not be read.
	Monitor *Monitor
}

// ErrEarly says that a server did not outlive its load.
var ErrEarly = errors.New("the program inside ended before the load generator outside")

// withCause adds to the error of a run why, in the words of its programs. If the server ended early, only it can know.
func (o *Outcome) withCause(err error) error {
	if errors.Is(err, ErrEarly) {
		return host.WithReason(err, o.Inside)
	}
	return host.WithReason(err, o.Inside, o.Outside)
}

// Monitor is the cost of a virtual machine to this one, from before a job until after it.
type Monitor struct {
	// Elapsed is the time between the two readings.
	Elapsed time.Duration
	// CPU is the CPU time of the virtual machine monitor, which includes what the guest computed, and of its vhost threads.
	CPU time.Duration
}

// Boot holds when the phases of a machine's boot ended, since its virtual machine monitor was started. Inside's times count
// from there, too.
type Boot struct {
	// VMM: the monitor answers, so its memory and devices are there and the machine runs.
	VMM time.Duration
	// Firmware: the kernel's clock begins to count, after the firmware, the kernel's decompression and its first steps.
	Firmware time.Duration
	// Kernel: the first program begins.
	Kernel time.Duration
	// Init: the machine takes jobs.
	Init time.Duration
}

// SimulatedPrefix begins the names of metrics of simulated devices.
const SimulatedPrefix = result.SimulatedPrefix

// ErrAsks is wrapped by a Check that lacks nothing but a parameter that the user must give.
var ErrAsks = errors.New("this parameter is required")

// Launcher describes a kind of environment.
type Launcher struct {
	Name, Doc string
	Params    []Param
	// Short names the parameter that NAME:VALUE sets; "" is none.
	Short string
	// Aliases are other usual names of the launcher, each with the parameters that it stands for.
	Aliases map[string]Params
	// Foresee returns the parameters with what Open will choose on this machine, and why the environment will then not be
	// what it is named after ("it will be emulated in software"); "" if it will be. nil means that nothing is chosen.
	Foresee func(*host.Host, Params) (Params, string)
	// Check says what is missing on the harness's machine, before anything starts; it
	// names every missing thing, with its package.
	Check func(*host.Host, Params) error
	// Refuses says why a job can never run there, whatever the machine has; nil means that every
	// job can run.
	Refuses func(Params, Job) error
	// Boots reports whether a machine is booted for each run; nil means false.
	Boots func(Params) bool
	// Monitor: the environments are virtual machines of this one, and each run knows what they cost (Outcome.Monitor).
	Monitor bool
	// Settle returns the parameters with those filled in that the user left open and that follow
	// from the needs of the jobs; nil means that none follow.
	Settle func(Params, []Job) Params
	// Elsewhere reports whether programs come from another machine or image, so this machine is
	// not searched for the workload's tools; nil means false.
	Elsewhere func(Params) bool
	// LibraryOS: the runtime answers for the kernel. A static program's system calls reach it by another way than those
	// of a dynamic one, at another price.
	LibraryOS bool
	// Remote: the arm is on another machine than the harness.
	Remote bool
	// OwnLoad says in words where the environment runs loads itself; "" or nil: the harness or its client runs them.
	OwnLoad func(Params) string
	// OwnKernel reports whether jobs run under a kernel of their own, which the harness's kernel
	// does not see into, but which could run the monitor's sources; nil means false.
	OwnKernel func(Params) bool
	// Commands are what Open and one run of the job would start, for a dry run and for `bench
	// plan`. It has no side effects.
	Commands func(Params, Job) ([]host.Cmd, error)
	// Open prepares the environment. After an error nothing is left behind.
	Open func(context.Context, *host.Host, Params) (Environment, error)
}

// ErrRebooted is wrapped by a Run whose machine is not the one that was opened, or has been rebooted since.
var ErrRebooted = errors.New("runs before and after cannot be compared")

// ErrGone is wrapped by a Run whose machine has gone, so that no other run can be made. One that comes back can be used again.
var ErrGone = errors.New("the environment is gone")

// Environment is one arm of a comparison, open.
type Environment interface {
	// Describe fills in what the launcher knows of the arm: Params as read back, TEE
	// settings, evidence and declaration, versions, digests of images. The engine does
	// the detection from inside.
	Describe(context.Context, *result.Environment) error
	// Run runs a job to its end in a fresh process. An error that comes with an
	// outcome is a run that failed; the outcome is kept. While a job runs, an environment
	// with a kernel of its own (Launcher.OwnKernel) takes others that bring no files.
	Run(context.Context, Job) (Outcome, error)
	// Idle freezes the environment (true) while another arm runs, or thaws it.
	Idle(context.Context, bool) error
	Close() error
}

// Place is where servers are: an address, and a TCP port for each placeholder.
type Place struct {
	Host  string
	Ports []int
}

// Reached is an environment whose network is not that of the harness's machine.
type Reached interface {
	// Reach is called before the first job with a load from outside. Offered is an address
	// of the harness's machine, as the load sees it, with ports that are free there. It
	// returns where servers listen inside, where the load reaches them, and the way
	// between the two in words, which is part of the arm's fingerprint.
	Reach(ctx context.Context, offered Place) (inside, outside Place, way string, err error)
}

// Prepared is an environment that takes long to start, and starts once with all that its jobs bring.
type Prepared interface {
	// Prepare starts it. It is called before the first job, and after Reach; the jobs are those that will run. Another job
	// that brings more may cost a second start.
	Prepare(context.Context, ...Job) error
}

// Arm is one environment of a plan.
type Arm struct {
	Label    string
	Launcher *Launcher
	Params   Params // of the launcher
	Subject  Params // subject parameters of the workload
	// StandsFor is what the arm is declared to stand in for; "" if it is asked for as what it is.
	StandsFor string
}

// Foreseen returns the arm as it will be on this machine, and why it will be a stand-in, in words that follow its label;
// "" if it will be the real thing.
func (a *Arm) Foreseen(h *host.Host) (Arm, string) {
	out, why := *a, ""
	if a.Launcher.Foresee != nil {
		out.Params, why = a.Launcher.Foresee(h, a.Params)
	}
	if why == "" && a.StandsFor != "" {
		why = "stands in for " + a.StandsFor
	}
	return out, why
}

// Complete fills in defaults and checks names and values of parameters. what names
// their owner in the error ("workload fio").
func Complete(what string, declared []Param, given Params) (Params, error) {
	out := Params{}
	for _, p := range declared {
		out[p.Name] = p.Default
	}
	for name, v := range given {
		i := slices.IndexFunc(declared, func(p Param) bool { return p.Name == name })
		if i < 0 {
			names := make([]string, len(declared))
			for i, p := range declared {
				names[i] = p.Name
			}
			if len(names) == 0 {
				return nil, fmt.Errorf("%s has no parameter %q; it has no parameters at all", what, name)
			}
			return nil, fmt.Errorf("%s has no parameter %q; the parameters are %s", what, name, strings.Join(names, ", "))
		}
		if err := recordable(v); err != nil {
			return nil, fmt.Errorf("%s: parameter %s=%.60q: %w", what, name, v, err)
		}
		if vs := declared[i].Values; vs != nil && !slices.Contains(vs, v) {
			return nil, fmt.Errorf("%s: parameter %s=%q: want one of %s", what, name, v, strings.Join(vs, ", "))
		}
		if declared[i].Path && (!declared[i].Named || IsPath(v)) {
			var err error
			if v, err = absolute(v, declared[i].List); err != nil {
				return nil, fmt.Errorf("%s: parameter %s: %w", what, name, err)
			}
		}
		out[name] = v
	}
	return out, nil
}

// IsPath reports whether a value that may be a path or a name is a path.
func IsPath(value string) bool { return strings.HasPrefix(value, "/") || strings.HasPrefix(value, ".") }

// absolute makes a path, or each path of a list, absolute.
func absolute(value string, list bool) (string, error) {
	paths := []string{value}
	if list {
		paths = strings.Split(value, ",")
	}
	for i, p := range paths {
		if p == "" {
			continue
		}
		var err error
		if paths[i], err = filepath.Abs(p); err != nil {
			return "", err
		}
	}
	return strings.Join(paths, ","), nil
}

// Int reads a whole number not below least.
func (p Params) Int(name string, least int64) (int64, error) {
	v, err := strconv.ParseInt(p[name], 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("parameter %s=%q: want a whole number from %d to %d", name, p[name], least, math.MaxInt64)
	case err != nil || v < least:
		return 0, fmt.Errorf("parameter %s=%q: want a whole number of at least %d", name, p[name], least)
	}
	return v, nil
}

// Number reads a number that is not negative, or is above 0.
func (p Params) Number(name string, above bool) (float64, error) {
	v, err := metric.ParseNumber(p[name])
	switch {
	case err != nil:
		return 0, fmt.Errorf("parameter %s=%q: %w", name, p[name], err)
	case v < 0 || above && v == 0:
		return 0, fmt.Errorf("parameter %s=%q: want a number %s", name, p[name], map[bool]string{true: "above 0", false: "of at least 0"}[above])
	}
	return v, nil
}

// Seconds reads a duration like 500ms or 30s.
func (p Params) Seconds(name string) (time.Duration, error) {
	d, err := time.ParseDuration(p[name])
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("parameter %s=%q: want a time above 0, like 500ms or 30s", name, p[name])
	}
	return d, nil
}

// Bytes reads a size like 4096, 64KiB, 1MiB or 10GiB.
func (p Params) Bytes(name string) (int64, error) {
	num, shift := p[name], 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(num, unit); ok {
			num, shift = n, 10*(i+1)
		}
	}
	v, err := strconv.ParseInt(num, 10, 64)
	if err != nil || v <= 0 || v > 1<<62>>shift {
		return 0, fmt.Errorf("parameter %s=%q: want a size like 4096, 64KiB or 10GiB", name, p[name])
	}
	return v << shift, nil
}
