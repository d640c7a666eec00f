package bpf

// The user-space side of runqueue.bpf.c: what to load, where to attach it, and how to read its counters. It times how
// long runnable threads waited for a CPU.

//go:generate ./compile.sh runqueue runqueue.bpf.c

// RunQueue times how long threads that could run waited for a CPU.
var RunQueue = &Program{
	Name: "run_queue",
	spec: spec{
		load: loadRunqueue,
		hooks: []hook{
			{name: "sched:sched_switch", variants: []variant{{"sched_switch_btf", typed}}},
			{name: "sched:sched_wakeup", variants: []variant{{"sched_wakeup_btf", typed}}},
			{name: "sched:sched_wakeup_new", variants: []variant{{"sched_wakeup_new_btf", typed}}},
		},
		sized: map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:  histCells + 5,
		read: []string{"counts", "names"},
		tell: []string{"cache", "control", "wanted"},
	},
	filter: filter{
		slots:  slotCells{}, // the table only chooses whose waits are timed
		source: sourceRunQueue,
	},
}

// QueueTimes reads the times of RunQueue.
type QueueTimes struct{ *Counters }

// Waits is how long threads that could run waited for a CPU.
func (c QueueTimes) Waits() *Latency {
	var l Latency
	c.counts().addTo(&l, 0)
	return &l
}
