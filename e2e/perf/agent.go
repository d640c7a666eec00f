package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// scrapeEvery is the time between two scrapes of an agent, as by a Prometheus.
const scrapeEvery = 5 * time.Second

// agent measures an agent that is scraped: on this machine without changes, and while control groups and processes
// with new names come and go.
func (o options) agent() error {
	a, err := o.start("metrics: ", "agent", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = a.stop() }()
	if err := a.scraped(2*scrapeEvery, nil); err != nil { // the first rounds open files
		return err
	}
	before, err := cpuSeconds(a.Process.Pid)
	if err != nil {
		return err
	}
	if err := a.scraped(o.idle, nil); err != nil {
		return err
	}
	after, err := cpuSeconds(a.Process.Pid)
	if err != nil {
		return err
	}
	o.row("agent, CPU at a 5 s scrape", fmt.Sprintf("%.2f %% of one core", 100*(after-before)/o.idle.Seconds()), fmt.Sprintf("user and system time of the process over %v", o.idle))
	rss, err := resident(a.Process.Pid)
	if err != nil {
		return err
	}
	o.row("agent, resident memory", rss, fmt.Sprintf("after %v", o.idle+2*scrapeEvery))
	return o.churned(a)
}

// churned creates and removes control groups and processes next to an agent. Whatever
// grows with their number has grown by the end of the first third.
func (o options) churned(a *running) error {
	dir, err := os.MkdirTemp("", "perf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &churn{dir: dir}
	if c.cgroups, err = cgroupRoots(); err != nil {
		return err
	}
	defer c.clear(0)
	var sizes [2]string
	for i, d := range []time.Duration{o.churn / 3, o.churn - o.churn/3} {
		if err := a.scraped(d, c.runRound); err != nil {
			return err
		}
		if sizes[i], err = resident(a.Process.Pid); err != nil {
			return err
		}
	}
	o.row("agent, memory in churn", sizes[0]+"; at the end "+sizes[1],
		fmt.Sprintf("after a third and after all of %v, in which %d processes with names of their own and %d control groups came and went", o.churn, c.processes, c.groups))
	return nil
}

// scraped reads an agent for a while. It calls meanwhile repeatedly during that time.
func (m *running) scraped(d time.Duration, meanwhile func() error) error {
	next := time.Now()
	for end := next.Add(d); time.Now().Before(end); {
		if !time.Now().Before(next) {
			if _, err := get(m.url); err != nil {
				return err
			}
			next = next.Add(scrapeEvery)
		}
		if meanwhile == nil {
			time.Sleep(100 * time.Millisecond)
		} else if err := meanwhile(); err != nil {
			return err
		}
	}
	return nil
}

// churn makes processes and control groups, and removes them after a while.
type churn struct {
	dir               string
	cgroups           []string // hierarchies
	made              []string // existing groups, the oldest first
	processes, groups int
}

// cgroupRoots are the hierarchies in which groups can be created.
func cgroupRoots() (roots []string, err error) {
	for _, d := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"} {
		if _, err := os.Stat(filepath.Join(d, "cgroup.procs")); err == nil {
			roots = append(roots, d)
		}
	}
	if roots == nil {
		return nil, errors.New("find a control group hierarchy: none at /sys/fs/cgroup")
	}
	return roots, nil
}

// runRound creates a group in each hierarchy and ten processes with new names in them, and
// removes the groups of twenty turns ago.
func (c *churn) runRound() error {
	c.groups++
	for _, root := range c.cgroups {
		g := filepath.Join(root, fmt.Sprintf("churn-%d-%d", os.Getpid(), c.groups))
		if err := os.Mkdir(g, 0o755); err != nil {
			return err
		}
		c.made = append(c.made, g)
	}
	for range 10 {
		c.processes++
		name := filepath.Join(c.dir, "churn"+strconv.Itoa(c.processes))
		if err := os.Symlink("/bin/sh", name); err != nil {
			return err
		}
		// It moves itself into the newest groups, so it is counted there.
		script := ""
		for _, g := range c.made[len(c.made)-len(c.cgroups):] {
			script += "echo $$ > " + g + "/cgroup.procs; "
		}
		if out, err := exec.Command(name, "-c", script+":").CombinedOutput(); err != nil {
			return fmt.Errorf("run a process in a new control group: %w: %s", err, out)
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	c.clear(20 * len(c.cgroups))
	time.Sleep(200 * time.Millisecond)
	return nil
}

// clear removes all groups except the newest. A busy one is retried the next time.
func (c *churn) clear(keep int) {
	for len(c.made) > keep && os.Remove(c.made[0]) == nil {
		c.made = c.made[1:]
	}
}
