package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// strain is what else the machine had to do: it explains a slow stage.
type strain struct {
	stolen   float64 // seconds that other virtual machines took from its CPUs ("steal" in proc_stat(5))
	pressure float64 // seconds in which some task waited for a CPU (Documentation/accounting/psi.rst)
	load     string  // the load averages
}

// readStrain reads the counters; what the kernel does not tell is 0.
func readStrain() (s strain) {
	const ticks = 100 // a second, whatever the kernel's own (USER_HZ, time(7))
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	if f := strings.Fields(line); len(f) > 8 {
		n, _ := strconv.ParseFloat(f[8], 64)
		s.stolen = n / ticks
	}
	psi, _ := os.ReadFile("/proc/pressure/cpu")
	line, _, _ = strings.Cut(string(psi), "\n")
	if _, total, ok := strings.Cut(line, "total="); ok {
		n, _ := strconv.ParseFloat(strings.TrimSpace(total), 64)
		s.pressure = n / 1e6
	}
	loads, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(loads)); len(f) > 2 {
		s.load = strings.Join(f[:3], " ")
	}
	return s
}

// since says what came between two readings.
func (s strain) since(before strain) string {
	return fmt.Sprintf("%.1f s stolen, %.0f s with tasks waiting for a CPU, load %s", s.stolen-before.stolen, s.pressure-before.pressure, s.load)
}
