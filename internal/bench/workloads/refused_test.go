package workloads

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/workloads/micro"
)

// TestRefused: impossible parameters are refused before a run, by name.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ workload, params, want string }{
		{"custom", "", "command"},
		{"custom", "command=a|b", "shell=sh"},
		{"custom", "command={binary}", "binary"},
		{"custom", "command=a;binary=/bin/true", "{binary}"},
		{"custom", "command=a;pattern=x", "group"},
		{"custom", "command=a;pattern=(", "pattern"},
		{"custom", "command=a;expect=(", "expect"},
		{"custom", "command=a;pattern=(x);json=a", "one of them"},
		{"custom", "command=a;json=a..b", "json"},
		{"custom", "command=a;json=a;unit=ms", "scale=1e-3"},
		{"custom", "command=a;json=a;unit=", "unit"},
		{"custom", "command=a;json=a;metric=wall", "wall_seconds"},
		{"custom", "command=a;json=a;metric=a b", "metric"},
		{"custom", "command=a;json=a;metric=x;unit=total", "metric"},
		{"custom", "command=a;scale=0", "scale"},
		{"custom", "command=a;scale=NaN", "scale"},
		{"custom", "command=a;estimate=soon", "estimate"},
		{"syscall", "windows=0", "windows"},
		{"syscall", "windows=1000000", "windows"},
		{"syscall", "window=1us", "1ms"},
		{"syscall", "operations=-1", "operations"},
		{"syscall", "warmup=2h", "warmup"},
		{"syscall", "warmup=", "warmup"},
		{"wakeup", "samples=0", "samples"},
		{"exits", "samples=0", "samples"},
		{"exits", "leaf=seven", "leaf"},
		{"exits", "window=x", "window"},
		{"wakeup", "window=x", "window"},
		{"memory", "size=64", "128"},
		{"memory", "size=x", "size"},
		{"startup", "touch=x", "touch"},
		{"first-touch", "size=x", "size"},
		{"first-touch", "size=5000", "multiple"},
		{"first-touch", "page=1GiB;size=1536MiB", "multiple"},
		{"channel", "size=1", "size"},
		{"channel", "size=100;message=tensor", "3072"},
		{"channel", "window=2h", "window"},
		{"channel", "peer=outside;transport=pipe", "transport"},
		{"channel", "peer=outside;evidence=simulated", "mock"},
		{"iperf", "streams=0", "streams"},
		{"iperf", "streams=129", "streams"},
		{"iperf", "mtu=576", "mtu"},
		{"iperf", "mtu=70000", "mtu"},
		{"iperf", "omit=500ms", "omit"},
		{"iperf", "measure=0s", "measure"},
		{"iperf", "rate=-1", "rate"},
		{"iperf", "rate=NaN", "rate"},
		{"network", "streams=0", "streams"},
		{"network", "streams=129", "streams"},
		{"network", "datagram=10", "datagram"},
		{"network", "datagram=70000", "datagram"},
		{"network", "round-trips=10", "round-trips"},
		{"network", "rate=-1", "rate"},
		{"network", "rate=1e16", "rate"},
		{"network", "omit=2h", "omit"},
		{"network", "measure=1ms", "measure"},
		{"network", "measure=soon", "measure"},
		{"attest", "parallel=0", "parallel"},
		{"attest", "delay=soon", "delay"},
		{"attest", "fetch=-1s", "fetch"},
		{"attest", "connections=0", "connections"},
		{"gateway", "resume=on", "keep-alive=off"},
		{"gateway", "gateway=command", "command"},
		{"gateway", "command=haproxy", "gateway=command"},
		{"gateway", "gateway=command;command=a'", "command"},
		{"gateway", "threads=-1", "threads"},
		{"gateway", "http=2;tls=off", "tls=on"},
		{"gateway", "http=2;pipeline=101", "streams"},
		{"gateway", "rate=often", "rate"},
		{"gateway", "rate=1e9", "1e+08"},
		{"gateway", "connections=1000000000", "at most 65536"},
		{"redis", "pipeline=1000000000", "at most 1024"},
		{"gateway-load", "", "load"},
		{"gateway-load", "load=a|b", "shell"},
		{"gateway-load", "load=ab;processes=0", "processes"},
		{"gateway-load", "load=ab;rate=none", "rate"},
		{"gateway-load", "load=mine", "answered"},
		{"gateway-load", "load=mine;answered=(a);failed=none;rate=(r)", "lost"},
		{"gateway-load", "load=ab;tail=99%", "tail"},
		{"gateway-load", "load=ab;time-scale=0", "time-scale"},
		{"gateway-load", "load=ab;gateway=command", "command"},
		{"gpu-gemm", "size=0", "size"},
		{"gpu-gemm", "size=100", "multiple of 32"},
		{"gpu-gemm", "size=1000000", "131072"},
		{"gpu-gemm", "repeats=-1", "repeats"},
		{"gpu-gemm", "repeats=10000000", "repeats"},
		{"gpu-gemm", "python=", "python"},
		{"gpu-copy", "size=0", "size"},
		{"gpu-copy", "size=x", "size"},
		{"gpu-copy", "repeats=-1", "repeats"},
		{"gpu-launch", "repeats=0", "repeats"},
		{"gpu-launch", "warm=-1", "warm"},
		{"zk-rsa", "threads=0", "threads"},
		{"zk-rsa", "proofs=many", "proofs"},
		{"zk-rsa", "circuit=sha256;bytes=0", "bytes"},
		{"zkvm", "n=0", "n="},
		{"zkvm", "n=100000000", "10000000"},
		{"zkvm", "guest=sha256;n=10001", "10000"},
		{"zkvm", "shard=1000000", "power of two"},
		{"zkvm", "shard=8192", "16384"},
		{"zkvm", "threads=all", "threads"},
		{"llm", "server=command", "command"},
		{"llm", "server=url", "url"},
		{"llm", "url=http://localhost/v1", "server=url"},
		{"llm", "command=vllm", "server=command"},
		{"llm", "server=command;command=a'", "command"},
		{"llm", "rate=often", "unlimited"},
		{"llm", "users=0", "users"},
		{"llm", "requests=20000", "10000"},
		{"llm", "output=1", "output"},
		{"llm", "ttft=soon", "ttft"},
		{"llm", "layers=0", "layers"},
		{"llm", "server=llama;input=2000;output=2000", "8192"},
		{"llm", "server=llama;batch=2000000", "batch"},
		{"mongodb", "server=ferretdb", "keys=1000"},
		{"nginx", "size=1GiB", "64 MiB"},
		{"nginx", "size=none", "size"},
		{"nginx", "threads=x", "threads"},
	} {
		t.Run(c.workload+" "+c.params, func(t *testing.T) {
			w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == c.workload })]
			p, err := bench.Complete("workload", w.Params, settings(t, "", strings.ReplaceAll(c.params, ";", "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Job(p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want it to name %s", err, c.want)
			}
			if d, disk := w.Estimate(p); d <= 0 || disk < 0 {
				t.Errorf("estimate is %v and %d bytes", d, disk)
			}
			for _, d := range append(w.Metrics(p), w.Primary(p)) {
				if d == nil {
					t.Error("a metric is nil")
				}
			}
		})
	}
}

// TestToolsAreDeclared: whatever the parameters, a job starts no program that the plan has not looked
// for, so a missing one is named before the first run. The essential packages of Debian are everywhere.
func TestToolsAreDeclared(t *testing.T) {
	essential := []string{"sh", "env", "id", "chmod", "chown", "cp", "mv", "rm", "setpriv"}
	checked := map[string]bool{}
	for _, w := range All {
		given := bench.Params{}
		if slices.ContainsFunc(w.Params, func(p bench.Param) bool { return p.Name == "programs" }) {
			given["programs"] = "/programs"
		}
		check := func(name, value string) {
			given := maps.Clone(given)
			if name != "" {
				given[name] = value
			}
			p, err := bench.Complete("workload", w.Params, given)
			if err != nil {
				t.Fatal(err)
			}
			job, err := w.Job(p)
			if err != nil {
				return // it lacks a parameter, or the values do not go together
			}
			for _, program := range append(job.Programs[:len(job.Programs):len(job.Programs)], job.Inside.Argv[0]) {
				if strings.ContainsAny(program, "/{") || slices.Contains(essential, program) {
					continue
				}
				checked[program] = true
				if !slices.ContainsFunc(w.Tools, func(x bench.Tool) bool { return x.Command == program && !x.Load && (x.With == nil || x.With(p)) }) {
					t.Errorf("%s with %s=%s starts %s, which is not one of its tools", w.Name, name, value, program)
				}
			}
		}
		check("", "")
		for _, p := range w.Params {
			for _, v := range p.Values {
				check(p.Name, v)
			}
		}
	}
	for _, program := range []string{"java", "nginx", "redis-server", "fio"} {
		t.Run(program, func(t *testing.T) {
			if !checked[program] {
				t.Errorf("no job starts %s", program)
			}
		})
	}
}

// TestNoWorker: where no tiny worker was built, the job says what to do.
func TestNoWorker(t *testing.T) {
	defer func(program []byte) { micro.Program = program }(micro.Program)
	micro.Program = nil
	for _, name := range []string{"null", "syscall", "wakeup", "memory", "startup", "boot", "first-touch", "exits"} {
		t.Run(name, func(t *testing.T) {
			w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == name })]
			p, err := bench.Complete("workload", w.Params, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Job(p); err == nil || !strings.Contains(err.Error(), "workloads/micro") {
				t.Errorf("%s: error is %v, want it to name workloads/micro", name, err)
			}
		})
	}
}
