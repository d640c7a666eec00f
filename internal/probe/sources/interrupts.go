package sources

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	softirqs = counter("node_softirqs_total", "Soft interrupts on all CPUs by vector, from /proc/softirqs.", "vector")
	irqs     = counter("node_interrupts_total",
		"Interrupts on all CPUs: architecture interrupts by their short name; device interrupts as type device, by device, with a device's queues summed; from /proc/interrupts.", "type", "info", "devices")
)

// interruptCounts is node_exporter's interrupts and softirqs without the label cpu,
// which would multiply the lines to thousands of series.
var interruptCounts = probe.Source{
	Name:    "interrupts",
	Doc:     "Interrupts by kind and device, and soft interrupts by vector, under node_exporter's names",
	Metrics: []*metric.Desc{softirqs, irqs},
	Kernels: "any",
	Cost:    "two files whose size is CPUs times lines: 0.5 ms a reading with 2 CPUs and 36 lines; with 128 CPUs and 400 lines teescope's part alone is 1.6 ms (BenchmarkInterrupts)",
	Blind:   "the time spent: node_cpu_seconds_total has it as irq and softirq, with irq at 0 on kernels without CONFIG_IRQ_TIME_ACCOUNTING; which CPU handled an interrupt. Counts of a CPU that goes offline are kept; those of the reading in which it goes or comes are lost",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		hard := irqTable{host: h, file: "/proc/interrupts", desc: irqs, label: irqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
		soft := irqTable{host: h, file: "/proc/softirqs", desc: softirqs, label: softirqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
		return reading(func(_ context.Context, out emitter) error {
			restHard, err1 := hard.read(out)
			restSoft, err2 := soft.read(out)
			out.send(probe.Folded, float64(restHard+restSoft))
			return cmp.Or(err1, err2)
		}), nil
	},
}

// irqTable is a file with a line for each interrupt and a column for each CPU.
type irqTable struct {
	host *host.Host
	file string
	desc *metric.Desc
	// label makes label values from a line's name and text.
	label func(name, text string) []string

	cpus  int
	order []string
	sums  map[string]*irqSum // by label values, joined
	kinds map[bool]int       // series of devices and of all others
}

// maxIRQs bounds the series of devices, and those of all others; later ones are counted
// as other.
const maxIRQs = 64

// irqSum is the events of a series: over all readings, and in the last one.
type irqSum struct {
	labels     []string
	rest       bool // of what did not fit
	total      uint64
	last, next uint64
	seen       bool
}

func (t *irqTable) read(out emitter) (rest uint64, err error) {
	b, err := t.host.ReadFile(t.file)
	if err != nil {
		return 0, err
	}
	for _, s := range t.sums {
		s.next, s.seen = 0, false
	}
	cpus, err := parseIRQs(b, func(name, text string, n uint64) {
		s := t.sum(t.label(name, text))
		s.next += n
		s.seen = true
	})
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", t.file, err)
	}
	same := cpus == t.cpus
	t.cpus = cpus
	for _, key := range t.order {
		s := t.sums[key]
		s.add(same)
		if !s.seen {
			continue
		}
		out.send(t.desc, float64(s.total), s.labels...)
		if s.rest {
			rest += s.total
		}
	}
	return rest, nil
}

// sum finds the series with these label values, or the series other if there are too
// many.
func (t *irqTable) sum(labels []string) *irqSum {
	key := strings.Join(labels, "\x00")
	if s := t.sums[key]; s != nil {
		return s
	}
	device := labels[0] == irqDevice
	s := &irqSum{labels: labels, rest: t.kinds[device] >= maxIRQs-1}
	if s.rest {
		s.labels = make([]string, len(labels))
		if s.labels[0] = folded; device {
			s.labels[0], s.labels[len(labels)-1] = irqDevice, folded
		}
		key = strings.Join(s.labels, "\x00")
		if rest := t.sums[key]; rest != nil {
			return rest
		}
	}
	t.kinds[device]++
	t.sums[key], t.order = s, append(t.order, key)
	return s
}

// add adds the reading. Each CPU's count has 32 bits, so a decrease by more than half
// of that is a wrap. If CPUs were added or removed, or a device was removed, the
// difference does not show what happened since.
func (s *irqSum) add(sameCPUs bool) {
	switch d := s.next - s.last; {
	case s.total == 0 && s.last == 0:
		s.total = s.next
	case !s.seen || !sameCPUs:
	case s.next >= s.last:
		s.total += d
	case s.last-s.next > 1<<31:
		s.total += d & (1<<32 - 1)
	}
	s.last = s.next
}

// parseIRQs calls line for each line with the sum over CPUs, and returns the number of
// CPUs in the header. Lines with one count for all CPUs are included; a cell that is
// not a number starts the line's text.
func parseIRQs(b []byte, line func(name, text string, n uint64)) (cpus int, err error) {
	header, rest, _ := bytes.Cut(b, []byte("\n"))
	if cpus = len(bytes.Fields(header)); cpus == 0 || !bytes.Contains(header, []byte("CPU")) {
		return 0, fmt.Errorf("want a header that names CPUs, not %.40q", header)
	}
	for raw := range bytes.Lines(rest) {
		name, cells, ok := bytes.Cut(raw, []byte(":"))
		if !ok {
			if len(bytes.TrimSpace(raw)) == 0 {
				continue
			}
			return 0, fmt.Errorf("want NAME: COUNTS, not %.40q", raw)
		}
		var sum uint64
		for range cpus {
			cells = bytes.TrimLeft(cells, " ")
			digits := 0
			var n uint64
			for digits < len(cells) && digits < 19 && '0' <= cells[digits] && cells[digits] <= '9' {
				n = n*10 + uint64(cells[digits]-'0')
				digits++
			}
			if digits == 0 || digits < len(cells) && cells[digits] != ' ' && cells[digits] != '\n' {
				break
			}
			sum += n
			cells = cells[digits:]
		}
		line(string(bytes.TrimSpace(name)), strings.TrimSpace(string(cells)), sum)
	}
	return cpus, nil
}

// softirqLabels are node_exporter's names of the vectors.
func softirqLabels(name, _ string) []string {
	if name == "IRQ_POLL" {
		return []string{"block_iopoll"} // the vector's name before Linux 4.5
	}
	return []string{bounded(strings.ToLower(name))}
}

// irqDevice is the type of all numbered interrupts.
const irqDevice = "device"

// irqLabels distinguishes the architecture's interrupts, whose text explains them, from
// devices', whose text ends in two spaces and the devices (kernel/irq/proc.c).
func irqLabels(name, text string) []string {
	if strings.Trim(name, "0123456789") != "" {
		return []string{bounded(name), bounded(text), ""}
	}
	devices := text
	if i := strings.LastIndex(text, "  "); i >= 0 {
		devices = strings.TrimSpace(text[i:])
	}
	if irqTrigger.MatchString(devices) {
		devices = "unclaimed" // no driver, so the text ends earlier
	}
	return []string{irqDevice, "", bounded(withoutQueue(devices))}
}

var (
	irqTrigger = regexp.MustCompile(`^(\d+-)?([Ee]dge|[Ll]evel|fasteoi)$`)
	irqQueue   = regexp.MustCompile(`^(.*?)([-._]|\dq|comp)\d+$`)
)

// withoutQueue removes a queue's number from a device's name ("nvme0q12",
// "eth0-TxRx-3", "virtio1-input.0", "mlx5_comp7@pci:0000:17:00.0").
func withoutQueue(device string) string {
	short, _, _ := strings.Cut(device, "@")
	if m := irqQueue.FindStringSubmatch(short); m != nil {
		return m[1] + strings.TrimRight(m[2], "-._")
	}
	return device
}

// bounded truncates the kernel's text to a label's maximum.
func bounded(s string) string {
	return metric.Label(s[:min(len(s), 64)])
}
