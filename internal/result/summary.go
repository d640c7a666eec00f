package result

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// summaryDigits are the significant digits of the counts in a summary. Metrics keep all of theirs.
	summaryDigits = 4
	// callsCounter has a series for each system call: most of a document. A summary adds up those that are below callsShare of a
	// process's calls in every run, in the series in which sources, too, put what is rare.
	callsCounter, callLabel, rareCalls = "tee_syscalls_total", "syscall", "other"
	callsShare                         = 0.01
)

// Summarize returns the text of a document for others: without what is large and decides nothing, and without what describes the machine
// and does not matter for the numbers (folders of its users, most of the kernel's command line). Left out are raw files, histograms, rare system
// calls (they are added up), and the conclusions that a reader makes anew from the runs (verdict.Conclude). The ratio of each pair follows from
// the metrics, which stay as they are; counts are rounded to four digits. The text is sealed with a digest of its own. An attestation
// is about the whole document, so a summary has none.
func Summarize(e *Experiment) ([]byte, error) {
	e = withoutSecrets(e)
	s := *e
	s.SchemaVersion, s.Summary, s.Attestation = SchemaVersion, true, nil
	s.Attribution = []Attribution{}
	s.Comparisons = slices.DeleteFunc(slices.Clone(e.Comparisons), func(c Comparison) bool { return !c.Primary })
	s.Cases, s.Environments = slices.Clone(e.Cases), slices.Clone(e.Environments)
	for i := range s.Cases {
		s.Cases[i].Params = withoutFolders(s.Cases[i].Params)
	}
	for i := range s.Environments {
		v := &s.Environments[i]
		v.Params, v.Subject = withoutFolders(v.Params), withoutFolders(v.Subject)
		v.Software.Cmdline = summarizeCmdline(v.Software.Cmdline)
	}
	frequent := frequentCalls(e.Runs)
	s.Runs = slices.Clone(e.Runs)
	for i := range s.Runs {
		r := &s.Runs[i]
		r.Raw = []RawFile{}
		r.Counters = roundCounters(foldCalls(r.Counters, frequent))
		r.HostCounters = roundCounters(slices.Clone(r.HostCounters))
		r.Metrics = slices.Clone(r.Metrics)
		for k := range r.Metrics {
			r.Metrics[k].Histogram = nil
		}
	}
	if err := seal(&s); err != nil {
		return nil, err
	}
	b, err := json.Marshal(&s)
	return append(b, '\n'), err
}

// systemFolders are those whose paths say nothing about a machine's users.
var systemFolders = []string{"/bin/", "/dev/", "/etc/", "/lib", "/opt/", "/proc/", "/sbin/", "/sys/", "/tmp", "/usr/", "/var/"}

// withoutFolders returns parameters in which each path outside the system's folders is its last element.
func withoutFolders(params map[string]string) map[string]string {
	if params == nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range params {
		words := strings.Split(v, " ")
		for i, w := range words {
			if strings.HasPrefix(w, "/") && !slices.ContainsFunc(systemFolders, func(f string) bool { return strings.HasPrefix(w, f) }) {
				words[i] = path.Base(w)
			}
		}
		out[k] = strings.Join(words, " ")
	}
	return out
}

// kernelParameters begin the words of a kernel's command line that can change what a workload costs
// (Documentation/admin-guide/kernel-parameters.txt).
var kernelParameters = []string{"amd_iommu", "clocksource", "cpufreq", "default_hugepagesz", "hugepage", "idle", "intel_idle", "intel_iommu", "intel_pstate", "iommu",
	"isolcpus", "kvm", "maxcpus", "mem", "mitigations", "nested", "nohz", "nosmt", "nospec", "numa", "nvme", "preempt", "processor", "psi", "rcu_nocbs",
	"spec", "swiotlb", "tdx", "transparent_hugepage", "tsc", "zswap"}

// summarizeCmdline keeps those words, and the number and a digest of the others, so two lines that differ still do.
func summarizeCmdline(line string) string {
	var kept, others []string
	for w := range strings.FieldsSeq(line) {
		if slices.ContainsFunc(kernelParameters, func(p string) bool { return strings.HasPrefix(w, p) }) {
			kept = append(kept, w)
		} else {
			others = append(others, w)
		}
	}
	if len(others) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(others, " ")))
		kept = append(kept, fmt.Sprintf("(%d others, %x)", len(others), sum[:4]))
	}
	return strings.Join(kept, " ")
}

// isCall reports whether a counter is of one system call and has a value.
func isCall(c *Counter) bool {
	return c.Name == callsCounter && c.Value != nil && c.Labels[callLabel] != ""
}

// withoutCall are the labels of a counter but for its system call, as one text: those of a process, usually.
func withoutCall(c *Counter) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		if k != callLabel {
			words = append(words, k+"="+c.Labels[k])
		}
	}
	return strings.Join(words, "\n")
}

// callOf names a system call of a process.
type callOf struct{ process, call string }

func callKey(c *Counter) callOf { return callOf{withoutCall(c), c.Labels[callLabel]} }

// frequentCalls are the system calls that are at least callsShare of all calls of their process in some run.
func frequentCalls(runs []Run) map[callOf]bool {
	out := map[callOf]bool{}
	for i := range runs {
		list, sum := runs[i].Counters, map[string]float64{}
		for k := range list {
			if c := &list[k]; isCall(c) {
				sum[withoutCall(c)] += *c.Value
			}
		}
		for k := range list {
			if c := &list[k]; isCall(c) && *c.Value > 0 && *c.Value >= callsShare*sum[withoutCall(c)] {
				out[callKey(c)] = true
			}
		}
	}
	return out
}

// foldCalls returns a run's counters with the calls that are not frequent added up by process, in place of the first of them.
func foldCalls(list []Counter, frequent map[callOf]bool) []Counter {
	if list == nil {
		return nil
	}
	out, rest := make([]Counter, 0, len(list)), map[string]int{}
	for i := range list {
		c := list[i]
		if !isCall(&c) || frequent[callKey(&c)] && c.Labels[callLabel] != rareCalls {
			out = append(out, c)
			continue
		}
		process := withoutCall(&c)
		if at, ok := rest[process]; ok {
			out[at].Value, out[at].PerOperation = plus(out[at].Value, c.Value), plus(out[at].PerOperation, c.PerOperation)
			continue
		}
		c.Labels = maps.Clone(c.Labels)
		c.Labels[callLabel] = rareCalls
		rest[process] = len(out)
		out = append(out, c)
	}
	return out
}

// plus adds two numbers; without one of them there is no sum.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	return &sum
}

// roundCounters rounds the values of a list, which is the caller's own.
func roundCounters(list []Counter) []Counter {
	for i := range list {
		list[i].Value, list[i].PerOperation = roundDigits(list[i].Value), roundDigits(list[i].PerOperation)
	}
	return list
}

// roundDigits rounds a number to summaryDigits significant digits.
func roundDigits(v *float64) *float64 {
	if v == nil {
		return nil
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(*v, 'g', summaryDigits, 64), 64)
	if err != nil {
		return v
	}
	return &r
}
