//go:build linux

package counting

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/result"
)

// hostMetrics are counted for the whole machine too: those of figure 11 of the TEEMon paper
// (Middleware 2020), CPU time, and exits of virtual machines.
var hostMetrics = []string{"tee_page_faults_total", "tee_context_switches_total", processCPU, "tee_llc_misses_total", "tee_sgx_epc_pages_evicted_total", "tee_vm_exits_total"}

// helpers are patterns of the names of processes that work for others: the kernel's threads
// that write out enclave pages (ksgxswapd in the out-of-tree driver) and other memory, those
// of virtual networks, and virtual machine monitors.
var helpers = []string{"ksgxd", "ksgxswapd", "kswapd*", "vhost*", "qemu-system-*", "qemu-kvm", "cloud-hyperviso*", "firecracker"}

// helperOf is the pattern of a helper's name; "" for other processes. The monitor of the workload's
// own virtual machine is one too: if the workload is counted inside, its cost out here is nowhere else.
func helperOf(process string) string {
	i := slices.IndexFunc(helpers, func(p string) bool { ok, _ := path.Match(p, process); return ok })
	if i < 0 {
		return ""
	}
	return helpers[i]
}

// hostWide are the counters of the whole machine and of helpers that had any. What could not
// be counted has a reason instead of a value; what this machine lacks is left out.
func (c *Counters) hostWide(span *runSpan, now reading) []result.Counter {
	keys := slices.Sorted(maps.Keys(now.series))
	var out []result.Counter
	for _, name := range hostMetrics {
		d, reason := c.describe(name)
		if d == nil {
			continue
		}
		total, of := metric.Sample{Desc: d}, map[string]metric.Sample{}
		seen := span.counted(d, now)
		for _, key := range keys {
			s := now.series[key]
			if s.Desc != d {
				continue
			}
			seen = true
			s.Value -= span.from.series[key].Value
			total.Value, total.Trust = total.Value+s.Value, max(total.Trust, s.Trust)
			if i := slices.Index(d.Labels, "process"); i >= 0 {
				if h := helperOf(s.Labels[i]); h != "" {
					of[h] = metric.Sample{Desc: d, Value: of[h].Value + s.Value, Trust: max(of[h].Trust, s.Trust)}
				}
			}
		}
		if !seen {
			out = append(out, result.Counter{Name: name, Labels: map[string]string{}, Scope: "machine", Trust: result.None, Note: cmp.Or(reason, "the source of this counter gave neither a value nor a reason")})
			continue
		}
		out = append(out, c.hostCounter(total, "", now, reason))
		for _, h := range slices.Sorted(maps.Keys(of)) {
			if of[h].Value != 0 {
				out = append(out, c.hostCounter(of[h], h, now, reason))
			}
		}
	}
	return out
}

func (c *Counters) hostCounter(s metric.Sample, helper string, now reading, doubt string) result.Counter {
	k := c.counter(s, s.Value, true, now, "")
	k.Scope = "machine"
	if _, known := now.coverage[s.Desc]; !known && doubt != "" {
		k.Note = doubt
	}
	if helper != "" {
		k.Labels["helper"] = helper
	}
	return k
}

// describe returns a metric and what its source says against its counts; nil where this
// machine lacks what every source of it reads.
func (c *Counters) describe(name string) (d *metric.Desc, reason string) {
	for _, st := range c.engine.Status() {
		i := slices.IndexFunc(st.Source.Metrics, func(d *metric.Desc) bool { return d.Name == name })
		if i < 0 || st.State == probe.Absent {
			continue
		}
		d = st.Source.Metrics[i]
		if st.State != probe.Available {
			reason = "source " + st.Source.Name + " is " + string(st.State) + ": " + st.Reason
		}
	}
	return d, reason
}
