package bpf

// Reads one variable of the kernel, the number of free EPC pages, by running sgxword.bpf.c on request. Nothing is
// attached, so there is no cost between readings.

//go:generate ./compile.sh sgxWord sgxword.bpf.c

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

// Word is one variable of 8 bytes in the kernel's memory. Reading it runs a program that nothing
// else runs, so it costs nothing in between.
type Word struct {
	name    string
	program *ebpf.Program
	// recorded replaces the program on a fixture.
	recorded *uint64
}

// OpenSGXFree opens the driver's count of free EPC pages, which is a number of
// 8 bytes in every version: a long (Linux 5.13 to 5.15) or an atomic_long_t.
// The error wraps errors.ErrUnsupported where the kernel has no such variable.
func OpenSGXFree(h *host.Host) (*Word, error) { return openWord(h, "sgx_nr_free_pages") }

func openWord(h *host.Host, name string) (*Word, error) {
	w := &Word{name: name}
	if h.Maps != nil {
		return w, w.replay(h)
	}
	address, err := addressOf(h, name)
	if err != nil {
		return nil, err
	}
	spec, err := loadSgxWord()
	if err != nil {
		return nil, fmt.Errorf("read object sgxword: %w", err)
	}
	if err := spec.Variables["address"].Set(address); err != nil {
		return nil, err
	}
	var objects struct {
		Program *ebpf.Program `ebpf:"read_word"`
	}
	if err := spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{Cache: kernelOf(h).typeCache()}); err != nil {
		if locked, _ := h.ReadString("/sys/kernel/security/lockdown"); strings.Contains(locked, "[confidentiality]") {
			return nil, &probe.Problem{Err: fmt.Errorf("read %s from the kernel: %w", name, unix.EPERM),
				Remedy: "kernel lockdown is in confidentiality mode, which hides the kernel's memory; boot with lockdown=integrity or none"}
		}
		return nil, refused(h, "sgxword", err)
	}
	w.program = objects.Program
	// If it cannot be read now, it never can: fail at once.
	if _, err := w.Read(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// addressOf is the address of a variable of the kernel.
func addressOf(h *host.Host, name string) (uint64, error) {
	// Every kernel has this one, but one without CONFIG_KALLSYMS_ALL lists
	// functions only.
	const always = "jiffies_64"
	found, err := symbols(h, func(s string) bool { return s == name || s == always })
	if err != nil {
		return 0, err
	}
	listed := slices.ContainsFunc(found, func(s symbol) bool { return s.name == always })
	found = slices.DeleteFunc(found, func(s symbol) bool { return s.name != name })
	switch {
	case len(found) == 0 && !listed:
		return 0, &probe.Problem{Err: fmt.Errorf("look up %s: /proc/kallsyms lists functions only", name),
			Remedy: "boot a kernel built with CONFIG_KALLSYMS_ALL=y"}
	case len(found) == 0:
		return 0, probe.NotHere("the kernel has no variable %s", name)
	case len(found) > 1:
		return 0, fmt.Errorf("look up %s: the kernel has %d variables of that name", name, len(found))
	case found[0].address == 0:
		return 0, &probe.Problem{Err: fmt.Errorf("look up %s: /proc/kallsyms hides addresses", name),
			Remedy: "grant CAP_SYSLOG, and set the sysctl kernel.kptr_restrict to 0 or 1"}
	}
	return found[0].address, nil
}

func (w *Word) replay(h *host.Host) error {
	maps, err := h.Maps("sgxword")
	if err != nil {
		return err
	}
	b := maps[w.name]
	if len(b) < 8 {
		return fmt.Errorf("read %s: not recorded", w.name)
	}
	v := binary.NativeEndian.Uint64(b)
	w.recorded = &v
	return nil
}

// Read returns the variable's value now. It needs no capability on Linux 5.19 and
// later.
func (w *Word) Read() (uint64, error) {
	if w.recorded != nil {
		return *w.recorded, nil
	}
	var value uint64
	errno, err := w.program.Run(&ebpf.RunOptions{Context: &value, ContextOut: &value})
	if err != nil {
		return 0, fmt.Errorf("read %s from the kernel: %w", w.name, err)
	}
	if errno != 0 {
		return 0, fmt.Errorf("read %s from the kernel: the program says error %d", w.name, int32(errno))
	}
	return value, nil
}

// Close frees the program.
func (w *Word) Close() error {
	if w.program == nil {
		return nil
	}
	return w.program.Close()
}
