package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	ultravisorCalls  = gauge("tee_secure_execution_calls", "Calls that the ultravisor offers to this kernel, from /sys/firmware/uv/query/facilities.")
	ultravisorGuests = gauge("tee_secure_execution_guests_max", "Maximum number of secure guests that the ultravisor runs at once, from /sys/firmware/uv/query/max_guests.")
	ultravisorCPUs   = gauge("tee_secure_execution_guest_cpus_max", "Maximum number of CPUs of a secure guest, from /sys/firmware/uv/query/max_cpus.")
	ultravisorMemory = gauge("tee_secure_execution_guest_memory_max_bytes", "End of the memory that a secure guest may have in bytes, from /sys/firmware/uv/query/max_address.")
	ultravisorSecret = gauge("tee_secure_execution_secrets_max", "Maximum number of secrets that the ultravisor keeps for a secure guest, from /sys/firmware/uv/query/max_secrets.")
)

const ultravisor = "/sys/firmware/uv/query/"

// secureExecution is what IBM Z's ultravisor reports about itself; its files are those of
// arch/s390/kernel/uv.c. A limit that reads 0 is not offered on this side, and is left out.
var secureExecution = probe.Source{
	Name:    "secure_execution",
	Doc:     "IBM Secure Execution (s390x): what the ultravisor offers to this host or guest",
	Metrics: []*metric.Desc{ultravisorCalls, ultravisorGuests, ultravisorCPUs, ultravisorMemory, ultravisorSecret},
	Kernels: "5.7 on s390x, secrets 6.7",
	Cost:    "five small files a reading",
	Blind:   "the number of secure guests and the cost of their pages, because the ultravisor counts nothing (the host's KVM statistics show the guests)",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if ok, err := h.Exists("/sys/firmware/uv"); err != nil || !ok {
			return nil, cmp.Or(err, probe.NotHere("the firmware has no ultravisor"))
		}
		return reading(func(_ context.Context, out emitter) error { return readUltravisor(h, out) }), nil
	},
}

func readUltravisor(h *host.Host, out emitter) error {
	var first error
	if text, err := h.ReadString(ultravisor + "facilities"); err != nil {
		first = err
	} else if n, err := countCalls(text); err != nil {
		first = err
	} else {
		out.send(ultravisorCalls, float64(n))
	}
	for _, f := range []struct {
		name string
		base int
		desc *metric.Desc
	}{{"max_guests", 10, ultravisorGuests}, {"max_cpus", 10, ultravisorCPUs}, {"max_address", 16, ultravisorMemory}, {"max_secrets", 10, ultravisorSecret}} {
		text, err := h.ReadString(ultravisor + f.name)
		if errors.Is(err, fs.ErrNotExist) && f.desc == ultravisorSecret { // since Linux 6.7
			continue
		}
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		v, err := strconv.ParseUint(text, f.base, 64)
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("parse %s: %w", ultravisor+f.name, err))
			continue
		}
		if v > 0 {
			out.send(f.desc, float64(v))
		}
	}
	return first
}

// countCalls counts the bits of the list of calls, four hexadecimal words.
func countCalls(text string) (int, error) {
	n := 0
	for word := range strings.FieldsSeq(text) {
		v, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			return 0, fmt.Errorf("parse %sfacilities: %w", ultravisor, err)
		}
		n += bits.OnesCount64(v)
	}
	return n, nil
}
