package workloads

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var (
	startupSeconds = &metric.Desc{Name: "startup_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time from starting the process or enclave to its first answer, in seconds on the harness's clock: the sum of load, ready and first answer."}
	loadSeconds = &metric.Desc{Name: "load_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time from starting the process or enclave until the program's main function runs, in seconds on the harness's clock."}
	readySeconds = &metric.Desc{Name: "ready_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time from the start of the program's main function until the program has touched its memory and is ready, in seconds on the harness's clock."}
	firstAnswerSeconds = &metric.Desc{Name: "first_answer_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time from readiness to the answer to the first question, in seconds on the harness's clock."}
)

// startupQuestion is the question to the worker.
const startupQuestion = "how long until the first useful byte?"

// startup times the start of a program from outside, by the arrival of its lines. load_seconds
// includes the launcher's work (a container, a sandbox, an enclave), which is what arms differ
// in.
var startup = bench.Workload{
	Name:    "startup",
	Doc:     "Time from the start of a process or enclave to its first useful byte, split into load, ready and first answer.",
	Version: 1,
	Params: []bench.Param{
		{Name: "touch", Default: "16MiB", Doc: "Amount of memory that the program touches before the program reports that it is ready."},
		formParam,
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{startupSeconds, loadSeconds, readySeconds, firstAnswerSeconds}
	},
	Primary: func(bench.Params) *metric.Desc { return startupSeconds },
	Estimate: func(p bench.Params) (time.Duration, int64) {
		bytes, _ := p.Bytes("touch")
		return 10*time.Millisecond + time.Duration(bytes/4096)*time.Microsecond, 0
	},
	Job: func(p bench.Params) (bench.Job, error) {
		bytes, err := p.Bytes("touch")
		if err != nil {
			return bench.Job{}, err
		}
		job, err := formJob(p["form"], "startup", fmt.Sprint(bytes))
		job.Inside.Ready, job.Inside.Ask = "ready", []byte(startupQuestion+"\n")
		return job, err
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		at, err := startupTimes(o.Inside)
		if err != nil {
			return nil, err
		}
		return []metric.Sample{
			{Desc: startupSeconds, Value: at[2].Seconds()},
			{Desc: loadSeconds, Value: at[0].Seconds()},
			{Desc: readySeconds, Value: (at[1] - at[0]).Seconds()},
			{Desc: firstAnswerSeconds, Value: (at[2] - at[1]).Seconds()},
		}, nil
	},
	Check: func(o bench.Outcome) (string, error) {
		got, err := startupAnswer(o.Inside)
		if err != nil {
			return "", err
		}
		return digest("startup", o.Params["touch"], got), nil
	},
}

// startupAnswer is the right answer to the question.
func startupAnswer(o host.Output) (string, error) {
	if _, err := startupTimes(o); err != nil {
		return "", err
	}
	got := strings.TrimSuffix(o.Lines[2].Text, "\n")
	if want := fmt.Sprintf("answer %08x", crc32.ChecksumIEEE([]byte(startupQuestion))); got != want {
		return "", fmt.Errorf("the worker printed %.40q, want %q", got, want)
	}
	return got, nil
}

// startupTimes are the arrival times of the three lines.
func startupTimes(o host.Output) ([3]time.Duration, error) {
	var at [3]time.Duration
	last := time.Duration(0)
	for i, want := range []string{"loaded", "ready", "answer "} {
		if i >= len(o.Lines) || !strings.HasPrefix(o.Lines[i].Text, want) {
			return at, fmt.Errorf("the worker did not print %q", strings.TrimSpace(want))
		}
		if at[i] = o.Lines[i].At; at[i] < last || at[i] <= 0 {
			return at, fmt.Errorf("the line %q arrived before the line that precedes it, or without a time", strings.TrimSpace(want))
		}
		last = at[i]
	}
	return at, nil
}
