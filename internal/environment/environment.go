// Package environment describes the surroundings of a benchmark and what disturbed it.
// Capture reads the machine, from inside an arm if the worker's capture was unpacked;
// Fingerprint and Diff say whether two arms are the same; a Watcher reads what else
// happened during one run.
//
// It reads only files and CPUID: no command runs and nothing goes over the network, so
// facts known only to a cloud's metadata service stay unknown. An unreadable field is
// empty with the reason, never a guess.
package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// Capture describes the machine behind h, which is the arm itself if h is an unpacked
// capture. Missing names every empty field, by its JSON path in the environment, with
// the reason. The caller fills in identity, launcher and subject of the arm, and may
// refine GPUs with the output of nvidia-smi.
func Capture(h *host.Host, detected []tee.Detection) result.Environment {
	s := &scene{Host: h, learned: readFacts(h)}
	s.Missing = map[string]string{}
	for _, part := range []struct {
		name    string
		capture func()
	}{{"tee", func() { s.tee(detected) }}, {"hardware.cpus", s.cpu}, {"hardware.memory_bytes", s.memory}, {"hardware.disks", s.disks},
		{"hardware.nics", s.nics}, {"hardware.gpus", s.gpus}, {"software", s.software}, {"cloud", s.cloud}} {
		if err := contain.Call("capturing "+part.name, func() error { part.capture(); return nil }); err != nil {
			s.miss(part.name, "%s", err)
		}
	}
	return s.Environment
}

// scene is an environment under construction.
type scene struct {
	*host.Host
	result.Environment
	learned map[string]string // by the worker's system calls
}

// miss records why a field is empty. The first reason is kept.
func (s *scene) miss(field, format string, args ...any) {
	if s.Missing[field] == "" {
		s.Missing[field] = fmt.Sprintf(format, args...)
	}
}

// text returns the first readable file, without surrounding white space. If there is
// none, the field is missing.
func (s *scene) text(field string, names ...string) string {
	var first error
	for _, n := range names {
		v, err := s.ReadString(n)
		if err == nil && v != "" {
			return v
		}
		if err == nil {
			err = fmt.Errorf("%s is empty", n)
		}
		// A denied permission is more informative than a missing file.
		if first == nil || errors.Is(first, fs.ErrNotExist) && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	s.miss(field, "%s", reason(first))
	return ""
}

// optional returns a file's text, or "" silently.
func (s *scene) optional(name string) string {
	v, _ := s.ReadString(name)
	return v
}

// reason phrases an error for the reader of a document.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) && errors.Is(err, fs.ErrNotExist) {
		return pe.Path + " does not exist"
	}
	return err.Error()
}

// chosen returns the bracketed word of a file like "always [madvise] never", or the
// whole text without one.
func chosen(v string) string {
	if word, ok := machine.Chosen(v); ok {
		return word
	}
	return v
}

// tee records the detected TEEs. Only a guest's TEE protects what runs here. A host's TEE protects its guests, and a
// process in an enclave does not see it, so for these the launcher decides.
func (s *scene) tee(detected []tee.Detection) {
	t := &s.TEE
	t.Type, t.Facts, t.Settings = "none", tee.Found(detected), map[string]string{}
	for _, d := range detected {
		switch {
		// SGX protects processes, NVIDIA's mode protects cards, and a host protects its
		// guests: that the machine has them does not describe this arm.
		case d.State == tee.Unknown && d.Kind.Name != "sgx" && d.Kind.Name != "nvidia-cc" && !strings.HasSuffix(d.Kind.Name, "-host") && !t.Active:
			t.Type = "unknown"
			s.miss("tee.type", "%s: %s", d.Kind.Name, d.Err)
		case d.State == tee.Here && d.Facts.Role == tee.Guest && d.Facts.Active:
			t.Type, t.Active, t.Debug, t.Evidence = d.Kind.Name, true, d.Facts.Debug, d.Facts.Evidence
			delete(s.Missing, "tee.type")
			for _, e := range d.Facts.Evidence {
				if e.Source == tee.DebugBit { // what is not known is not closed
					s.miss("tee.debug", "%s", e.Value)
				}
			}
			if d.Facts.Variant != "" {
				t.Settings["variant"] = d.Facts.Variant
			}
		}
	}
	if t.Type == "none" {
		s.undetected()
	}
	var epc uint64
	for _, n := range tee.EPC(s.Host) {
		epc += n
	}
	if epc > 0 {
		t.Settings["epc_bytes"] = strconv.FormatUint(epc, 10)
	}
	// Slots of 2 KiB (IO_TLB_SIZE of include/linux/swiotlb.h).
	if slots, err := s.ReadUint("/sys/kernel/debug/swiotlb/io_tlb_nslabs"); err == nil && slots < 1<<48 {
		t.Settings["swiotlb_bytes"] = strconv.FormatUint(slots*2048, 10)
	} else if err != nil && t.Active {
		s.miss("tee.settings.swiotlb_bytes", "%s", reason(err))
	}
	if t.Active && (t.Type == "tdx" || t.Settings["variant"] == "sev-snp") { // plain SEV has nothing to accept
		s.acceptance()
	}
}

// acceptance records when the guest's kernel accepts its memory: when it is first used (lazy), or all at boot
// (accept_memory= of Documentation/admin-guide/kernel-parameters.txt, since Linux 6.5).
func (s *scene) acceptance() {
	const setting = "memory_acceptance"
	info, err := s.ReadString("/proc/meminfo")
	if err != nil {
		s.miss("tee.settings."+setting, "%s", reason(err))
		return
	}
	if !strings.Contains("\n"+info, "\nUnaccepted:") {
		s.miss("tee.settings."+setting, "/proc/meminfo has no line Unaccepted: the kernel knows no lazy acceptance")
		return
	}
	line, err := s.ReadString("/proc/cmdline")
	if err != nil {
		s.miss("tee.settings."+setting, "%s", reason(err))
		return
	}
	how := "lazy"
	for _, word := range strings.Fields(line) { // the last one counts
		if value, ok := strings.CutPrefix(word, "accept_memory="); ok {
			how = value
		}
	}
	if how != "lazy" && how != "eager" {
		s.miss("tee.settings."+setting, "unknown: accept_memory=%s on the kernel's command line", how)
		return
	}
	s.TEE.Settings[setting] = how
}

// undetected looks for signs of protection that no detector can judge, so the type is not "none" when it is unknown.
func (s *scene) undetected() {
	why := ""
	if said := s.learned["cpuid"]; strings.Contains(said, "illegal") {
		why = "CPUID: " + said + ", as in an SGX enclave"
	}
	for _, sign := range []struct{ file, value, kind string }{
		{"/sys/devices/platform/arm-cca-dev", "", "an Arm CCA realm"}, // systemd's confidential-virt.c
	} {
		if ok, err := s.Exists(sign.file); err != nil || !ok || sign.value != "" && s.optional(sign.file) != sign.value {
			continue
		}
		why = sign.file + " is a sign of " + sign.kind + ", which is not detected"
	}
	if why != "" {
		s.TEE.Type = "unknown"
		s.miss("tee.type", "%s", why)
	}
}
