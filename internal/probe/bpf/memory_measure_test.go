//go:build measure

package bpf

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/teescope/teescope/internal/measured"
)

// TestResidentByCPUs: opening programs adds to the resident memory, without the heap, what the table of the documents says.
func TestResidentByCPUs(t *testing.T) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	programs := []*Program{Syscalls, Faults, Block}
	want := 0
	for _, p := range programs {
		want += mapped(t, p, cpus)
	}
	var ratios []float64
	for round := range runs {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			for _, p := range programs { // what only the first opening of a program touches
				if err := openProgram(t, p, Limits{}).Close(); err != nil {
					t.Fatal(err)
				}
			}
			before := residentFiles(t)
			for _, p := range programs {
				openProgram(t, p, Limits{})
			}
			ratios = append(ratios, (residentFiles(t)-before)/float64(want))
		})
	}
	measured.AtMost(t, "opening programs adds at most 1.05 times the memory of the table by CPUs to what is resident of files and maps", "ratio", 1.05, ratios)
}

var resident = regexp.MustCompile(`(?m)^Rss(?:File|Shmem):\s+(\d+) kB$`)

// residentFiles returns the bytes of files and shared memory that this process has mapped and that are resident.
func residentFiles(t *testing.T) (n float64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range resident.FindAllSubmatch(status, -1) {
		kb, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		n += kb * 1024
	}
	return n
}
