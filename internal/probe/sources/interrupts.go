package sources

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	softirqs = counter("node_softirqs_total", "Soft interrupts on all CPUs by vector, from /proc/softirqs.", "vector")
	irqs     = counter("node_interrupts_total",
		"Interrupts on all CPUs: architecture interrupts by their short name; device interrupts by device, with type device and summed over its queues; from /proc/interrupts.", "type", "info", "devices")
)

// interruptCounts is node_exporter's interrupts and softirqs without the label cpu,
// which would multiply the lines to thousands of series.
var interruptCounts = probe.Source{
	Name:    "interrupts",
	Doc:     "Interrupts by kind and device, and soft interrupts by vector, under node_exporter's names",
	Metrics: []*metric.Desc{softirqs, irqs},
	Kernels: "any",
	Cost:    "two files with a column for each CPU and a line for each interrupt: 0.5 ms a reading with 2 CPUs and 36 lines. With 128 CPUs and 400 lines teescope's parsing alone takes 1.6 ms (BenchmarkInterrupts)",
	Blind:   "the time spent in interrupts (node_cpu_seconds_total has it as irq and softirq; irq is 0 on kernels without CONFIG_IRQ_TIME_ACCOUNTING); the CPU that handled an interrupt. Counts of a CPU that goes offline are kept, except for those since the last reading",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		hard := irqTable{host: h, file: "/proc/interrupts", desc: irqs, label: irqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
		soft := irqTable{host: h, file: "/proc/softirqs", desc: softirqs, label: softirqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
		return reading(func(_ context.Context, out emitter) error {
			var bad machine.Faults
			restHard, err := hard.read(out)
			bad.Add(err)
			restSoft, err := soft.read(out)
			bad.Add(err)
			out.send(probe.Folded, float64(restHard+restSoft))
			return bad.Err()
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
	torn       bool // one of its lines is bad: the sum is not known
}

func (t *irqTable) read(out emitter) (rest uint64, err error) {
	b, err := t.host.ReadFile(t.file)
	if err != nil {
		return 0, err
	}
	for _, s := range t.sums {
		s.next, s.seen, s.torn = 0, false, false
	}
	cpus, whole, err := parseIRQs(t.file, b, func(name, text string, n uint64, ok bool) {
		s := t.sum(t.label(name, text))
		s.next += n
		s.seen, s.torn = true, s.torn || !ok
	})
	if cpus == 0 {
		return 0, err
	}
	same := cpus == t.cpus
	t.cpus = cpus
	for _, key := range t.order {
		s := t.sums[key]
		if s.torn || !s.seen && !whole { // its line may be one of those that cannot be read
			continue
		}
		s.add(same)
		if !s.seen {
			continue
		}
		out.send(t.desc, float64(s.total), s.labels...)
		if s.rest {
			rest += s.total
		}
	}
	return rest, err
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
// CPUs in the header, 0 without one. Lines with one count for all CPUs and no text are included; a cell that is
// not a number starts the line's text. ok is false where the counts cannot be read; whole, where some line cannot even
// say whose they are.
func parseIRQs(file string, b []byte, line func(name, text string, n uint64, ok bool)) (cpus int, whole bool, err error) {
	t := machine.Text{File: file}
	header, _, _ := strings.Cut(string(b), "\n")
	if cpus = len(strings.Fields(header)); cpus == 0 || !strings.Contains(header, "CPU") {
		return 0, false, fmt.Errorf("parse %s: want a header that names CPUs, not %.40q", file, header)
	}
	whole = true
	first := true
	for raw := range t.Lines(b) {
		if first {
			first = false
			continue
		}
		name, cells, ok := strings.Cut(raw, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			t.Bad("want NAME: COUNTS, not %.40q", raw)
			whole = false
			continue
		}
		var sum uint64
		counts := 0
		for counts < cpus {
			cells = strings.TrimLeft(cells, " ")
			digits := 0
			var n uint64
			for digits < len(cells) && digits < maxIRQDigits && '0' <= cells[digits] && cells[digits] <= '9' {
				n = n*10 + uint64(cells[digits]-'0')
				digits++
			}
			if digits == 0 || digits < len(cells) && cells[digits] != ' ' {
				break
			}
			sum += n
			cells = cells[digits:]
			counts++
		}
		text := strings.TrimSpace(cells)
		if ok = counts == cpus || counts == 1 && text == ""; !ok {
			t.Bad("%.40q has counts of %d CPUs, want %d", name, counts, cpus)
		}
		line(name, text, sum, ok)
	}
	return cpus, whole, t.Err()
}

// maxIRQDigits are those of a count, which has 32 bits.
const maxIRQDigits = 10

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
func bounded(s string) string { return s[:min(len(s), 64)] }
