package machine

import (
	"strconv"
	"strings"
)

// CPUModes are the columns of a CPU in /proc/stat, in order (proc_stat(5)). Time of guests is part of user and nice.
var CPUModes = [...]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}

// TicksPerSecond is USER_HZ, the unit of CPU times in /proc: 100 on every architecture that matters (proc(5)).
const TicksPerSecond = 100

// CPUTimes is the line of a CPU in /proc/stat, in ticks. A mode that is not Known has a bad cell, or the kernel
// does not have it.
type CPUTimes struct {
	CPU   int
	Ticks [len(CPUModes)]uint64
	Known [len(CPUModes)]bool
	// Whole: no cell is bad.
	Whole bool
}

// ParseStat reads /proc/stat: the line of each CPU, and the first number of each other line by its name; either function
// may be nil. The error lists what is wrong with what was asked for.
func ParseStat(b []byte, cpu func(CPUTimes), number func(name string, n uint64)) error {
	t := Text{File: "/proc/stat"}
	seen := map[int]bool{}
	columns := 0 // of the first line, the sum over the CPUs
	for line := range t.Lines(b) {
		f := strings.Fields(line)
		id, of := strings.CutPrefix(f[0], "cpu")
		switch {
		case !of:
			if number == nil {
				continue
			}
			if len(f) < 2 {
				t.Bad("%.40q has no number", f[0])
			} else if n, ok := t.Count(f[0], f[1]); ok {
				number(f[0], n)
			}
		case cpu == nil:
		case id == "":
			columns = len(f)
		default:
			n, err := strconv.ParseUint(id, 10, 16)
			c := CPUTimes{CPU: int(n), Whole: true}
			switch {
			case err != nil:
				t.Bad("%.40q is not a CPU", f[0])
				continue
			case seen[c.CPU]:
				t.Bad("%s a second time", f[0])
				continue
			case len(f) < 5 || len(f) < columns: // cut off: the last number may be
				t.Bad("%s has %d numbers, want %d", f[0], len(f)-1, max(4, columns-1))
				continue
			}
			seen[c.CPU] = true
			for i, cell := range f[1:min(len(f), 1+len(CPUModes))] {
				c.Ticks[i], c.Known[i] = t.Count(f[0]+" "+CPUModes[i], cell)
				c.Whole = c.Whole && c.Known[i]
			}
			cpu(c)
		}
	}
	return t.Err()
}

// ParseProcess returns numbers of /proc/PID/stat by their place there, which is 14 for utime, 15 for stime and 22 for
// starttime, all in ticks (proc_pid_stat(5)).
func ParseProcess(file, text string, places ...int) ([]uint64, error) {
	t := Text{File: file, line: 1}
	// The second field, the command in parentheses, may hold anything.
	_, rest, ok := strings.Cut(text[max(0, strings.LastIndexByte(text, ')')):], ") ")
	f := strings.Split(rest, " ")
	out := make([]uint64, len(places))
	if !ok || len(f[0]) != 1 || f[0][0]|0x20 < 'a' || f[0][0]|0x20 > 'z' { // the state is a letter
		t.Bad("want a command in parentheses and a state")
		return out, t.Err()
	}
	for i, place := range places {
		if at := place - 3; at+1 >= len(f) { // the last number may be cut off
			t.Bad("%d fields after the command, want more than %d", len(f), place-2)
		} else {
			out[i], _ = t.Count("field "+strconv.Itoa(place), f[at])
		}
	}
	return out, t.Err()
}

// ProcessSeconds returns the CPU time of a process in seconds, from its /proc/PID/stat.
func ProcessSeconds(file, text string) (float64, error) {
	n, err := ParseProcess(file, text, 14, 15)
	return (float64(n[0]) + float64(n[1])) / TicksPerSecond, err
}
