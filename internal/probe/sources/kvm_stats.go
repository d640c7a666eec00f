package sources

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/machine"
)

// kvmStats are the KVM statistics of a machine that are read; their names are the same
// in debugfs, in the binary statistics and over QMP (arch/*/kvm: kvm_vm_stats_desc and
// kvm_vcpu_stats_desc). No kernel has all.
var kvmStats = []string{
	"exits", "io_exits", "mmio_exits", "signal_exits", "irq_window_exits", "nmi_window_exits", "request_irq_exits", "halt_exits", "irq_exits",
	"notify_window_exits", "irq_injections", "nmi_injections", "hypercalls", "insn_emulation", "insn_emulation_fail", "fpu_reload", "host_state_reload",
	"tlb_flush", "remote_tlb_flush", "invlpg", "l1d_flush", "pf_taken", "pf_fixed", "pf_emulate", "pf_spurious", "halt_wakeup", "halt_successful_poll",
	"preemption_reported", "mmu_shadow_zapped", "nested_run", "hvc_exit_stat", "wfi_exit_stat", "wfe_exit_stat", "mmio_exit_user", "mmio_exit_kernel",
}

// kvmPages are those that count mapped memory, with the size of a page.
var kvmPages = map[string]uint64{"pages_4k": 4 << 10, "pages_2m": 2 << 20, "pages_1g": 1 << 30}

// statsLimit bounds the bytes read of one set of statistics.
const statsLimit = 1 << 20

// parseStats reads KVM's binary statistics (Documentation/virt/kvm/api.rst,
// KVM_GET_STATS_FD): a header, descriptors, and 64-bit values. It returns the id of the
// machine or virtual CPU and the single-value statistics; histograms are left out.
func parseStats(b []byte) (id string, stats map[string]uint64, err error) {
	const headerSize, descSize = 24, 16
	if len(b) < headerSize {
		return "", nil, fmt.Errorf("KVM statistics end after %d bytes, in the header", len(b))
	}
	u32 := func(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }
	nameSize, count := u32(b[4:]), u32(b[8:])
	idAt, descAt, dataAt := u32(b[12:]), u32(b[16:]), u32(b[20:])
	size := uint64(len(b))
	if nameSize == 0 || nameSize > 4096 || idAt+nameSize > size || descAt > size || dataAt > size || count > (size-descAt)/(descSize+nameSize) {
		return "", nil, fmt.Errorf("KVM statistics of %d bytes: the header says %d descriptors with names of %d bytes at %d and values at %d, beyond the end", size, count, nameSize, descAt, dataAt)
	}
	stats = make(map[string]uint64, count)
	for i := range count {
		d := b[descAt+i*(descSize+nameSize):][:descSize+nameSize]
		values, offset := binary.NativeEndian.Uint16(d[6:]), u32(d[8:])
		if values != 1 {
			continue
		}
		name := cString(d[descSize:])
		if dataAt+offset+8 > size {
			return "", nil, fmt.Errorf("KVM statistics of %d bytes: the value of %s is at %d, beyond the end", size, name, dataAt+offset)
		}
		stats[name] = binary.NativeEndian.Uint64(b[dataAt+offset:])
	}
	return cString(b[idAt : idAt+nameSize]), stats, nil
}

// statSums adds up statistics by name. One that is no count in one of the parts has no sum.
type statSums struct {
	sums    map[string]uint64
	unknown map[string]bool
	bad     machine.Faults
}

// add adds a value; ok says whether it is a count.
func (s *statSums) add(name string, n uint64, ok bool, said string) {
	if _, page := kvmPages[name]; !page && !slices.Contains(kvmStats, name) {
		return
	}
	if !ok || n >= 1<<63 {
		s.bad.Add(fmt.Errorf("statistic %s: %.40q is not a count, or has wrapped below 0", name, said))
		if s.unknown == nil {
			s.unknown = map[string]bool{}
		}
		s.unknown[name] = true
		return
	}
	if s.sums == nil {
		s.sums = map[string]uint64{}
	}
	s.sums[name] += n
}

// all returns the sums that are known. The error says which are not.
func (s *statSums) all() (map[string]uint64, error) {
	for name := range s.unknown {
		delete(s.sums, name)
	}
	return s.sums, s.bad.Err()
}

// cString is the text before the first zero byte.
func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// askQMP speaks QEMU's machine protocol: it waits for the greeting, negotiates, and
// requests the statistics of the machine and of its CPUs, which it adds up
// (query-stats, QEMU 7.1 and later; docs/interop/qmp-spec.rst). With the error, which says what cannot be read, it returns
// the rest.
func askQMP(c io.ReadWriter) (map[string]uint64, error) {
	in := json.NewDecoder(io.LimitReader(c, statsLimit))
	var greeting struct{ QMP *json.RawMessage }
	if err := in.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("read QMP greeting: %w", err)
	}
	if greeting.QMP == nil {
		return nil, errors.New("read QMP greeting: the program that answers does not speak QMP")
	}
	var sum statSums
	for _, command := range []string{
		`{"execute":"qmp_capabilities"}`,
		`{"execute":"query-stats","arguments":{"target":"vm","providers":[{"provider":"kvm"}]}}`,
		`{"execute":"query-stats","arguments":{"target":"vcpu","providers":[{"provider":"kvm"}]}}`,
	} {
		if _, err := io.WriteString(c, command+"\n"); err != nil {
			return nil, fmt.Errorf("send QMP command: %w", err)
		}
		answer, err := answerQMP(in)
		if err == nil {
			err = addQMP(&sum, answer)
		}
		if err != nil {
			return nil, fmt.Errorf("QMP %s: %w", command, err)
		}
	}
	return sum.all()
}

// answerQMP skips events, which can arrive at any time.
func answerQMP(in *json.Decoder) (json.RawMessage, error) {
	for {
		var m struct {
			Return json.RawMessage
			Error  *struct{ Class, Desc string }
			Event  string
		}
		if err := in.Decode(&m); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		switch {
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", m.Error.Class, m.Error.Desc)
		case m.Event == "":
			return m.Return, nil
		}
	}
}

// addQMP adds the statistics in an answer; the answer to qmp_capabilities has none.
func addQMP(sum *statSums, answer json.RawMessage) error {
	if string(answer) == "{}" {
		return nil
	}
	var objects []struct {
		Stats []struct {
			Name  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(answer, &objects); err != nil {
		return fmt.Errorf("parse statistics: %w", err)
	}
	for _, o := range objects {
		for _, s := range o.Stats {
			if v := string(s.Value); strings.HasPrefix(v, "[") || v == "true" || v == "false" {
				continue // histograms are lists
			}
			n, err := strconv.ParseUint(string(s.Value), 10, 64)
			sum.add(s.Name, n, err == nil, string(s.Value))
		}
	}
	return nil
}
