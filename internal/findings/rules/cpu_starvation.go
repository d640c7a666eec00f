package rules

import (
	"context"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
)

var cpuStarvation = &findings.Rule{
	Name:  "cpu_starvation",
	Title: "CPU starvation",
	Topic: cpuSaturated,
	Role:  findings.RoleEffect,
	Doc: "The threads of a process wait for a CPU at least 60 % of their active time (on a CPU, or waiting for a lock, a disk or a CPU), and on average at least half a thread waits. " +
		"Over either window and over its newest half minute, by samples of all threads. At 60 % the process takes two and a half times as long as on a free machine. " +
		"The rule pressure is about the machine as a whole, cpu_throttling about quotas.",
	Needs: []string{sampledWait, sampledCPU},
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of waiting for a CPU in the active time of a process", Unit: "ratio", Default: 0.60},
		{Name: "waiting", Doc: "threads that wait for a CPU, on average", Unit: "", Default: 0.5},
	},
	Remedy:    causes.CPUStarvation.Remedy,
	Reference: "https://docs.kernel.org/scheduler/sched-design-CFS.html",
	Run:       findCPUStarvation,
}

func findCPUStarvation(ctx context.Context, p *findings.Pass) error {
	return findWaiting(ctx, p, "cpu", "waiting for a CPU", "a CPU", func(e *waiting, f *findings.Finding) bool {
		e.add(ctx, "its CPU time, by samples"+e.mean, "cores", sumRate(ofProcess(sampledCPU, e.labels), window(p)))
		f.Confidence = findings.High
		return true
	})
}
