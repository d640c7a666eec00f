package sources

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// valuesOf reads a source once, by metric name and label values.
func valuesOf(t *testing.T, r probe.Reader) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	if err := r.Read(t.Context(), func(x metric.Sample) { out[strings.Join(append([]string{x.Desc.Name}, x.Labels...), " ")] = x.Value }); err != nil {
		t.Fatal(err)
	}
	return out
}

// rewrite changes a file of a fixture while its source is open.
func rewrite(t *testing.T, f *hosttest.Fixture, name, text string) {
	t.Helper()
	if err := os.WriteFile(f.Host.Path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSwiotlbUnderLockdown(t *testing.T) {
	f := hosttest.Open(t, "testdata/swiotlb.txtar")
	r, err := swiotlb.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	mark := swiotlbDir + "/io_tlb_used_hiwater"
	f.Host.Faults = map[string]error{mark: syscall.EPERM}
	if err := r.Read(t.Context(), func(metric.Sample) {}); err == nil || !strings.Contains(probe.Remedy(err), "root") {
		t.Errorf("a mark that may not be read is no error without lockdown: %v (%s)", err, probe.Remedy(err))
	}
	if err := f.Host.Install("/sys/kernel/security/lockdown", []byte("none [integrity] confidentiality\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := valuesOf(t, r)
	if _, ok := got[swiotlbMax.Name]; ok || got[swiotlbSeen.Name] != 1234*swiotlbSlot {
		t.Errorf("under lockdown: %v", got)
	}
	for _, c := range []struct {
		used string
		most float64
	}{{"2000", 2000}, {"7", 2000}, {"2001", 2001}} {
		t.Run(c.used, func(t *testing.T) {
			rewrite(t, f, swiotlbDir+"/io_tlb_used", c.used)
			if got := valuesOf(t, r)[swiotlbSeen.Name]; got != c.most*swiotlbSlot {
				t.Errorf("with %s slots in use the most seen is %v bytes, want %v slots", c.used, got, c.most)
			}
		})
	}
	f.Host.Faults[swiotlbDir+"/io_tlb_used"] = syscall.EPERM
	if err := r.Read(t.Context(), func(metric.Sample) {}); err == nil || !strings.Contains(probe.Remedy(err), "lockdown") {
		t.Errorf("lockdown is not named where it hides use: %v (%s)", err, probe.Remedy(err))
	}
}

// Accepted memory is counted, memory added later is not.
func TestAcceptedMemory(t *testing.T) {
	f := hosttest.Open(t, "testdata/unaccepted.txtar")
	r, err := unaccepted.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kB             string
		left, accepted float64
	}{{"262144", 262144, 0}, {"131072", 131072, 131072}, {"200000", 200000, 131072}, {"0", 0, 331072}} {
		t.Run(c.kB, func(t *testing.T) {
			rewrite(t, f, "/proc/meminfo", "MemTotal: 16384000 kB\nUnaccepted: "+c.kB+" kB\n")
			got := valuesOf(t, r)
			if got[unacceptedBytes.Name] != c.left*1024 || got[acceptedBytes.Name] != c.accepted*1024 {
				t.Errorf("with %s kB left: %v", c.kB, got)
			}
		})
	}
}

func TestClocksourceChanges(t *testing.T) {
	f := hosttest.Open(t, "testdata/clocksource.txtar")
	r, err := clocksource.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		changes float64
	}{{"tsc", 0}, {"acpi_pm", 1}, {"acpi_pm", 1}, {"kvm-clock", 2}} {
		t.Run(c.name, func(t *testing.T) {
			rewrite(t, f, clocksourceDir+"/current_clocksource", c.name+"\n")
			if got := valuesOf(t, r); got[clocksourceChanges.Name] != c.changes || got[clocksourceInfo.Name+" "+c.name] != 1 {
				t.Errorf("with %s: %v", c.name, got)
			}
		})
	}
	rewrite(t, f, clocksourceDir+"/available_clocksource", "a b c d e f g h i j k l m n o p q r s\n")
	n := 0
	err = r.Read(t.Context(), func(x metric.Sample) {
		if x.Desc == clocksourceAvailable {
			n++
		}
	})
	if err == nil || n != clocksourceMax {
		t.Errorf("%d clock sources, error %v", n, err)
	}
}

func TestExitNames(t *testing.T) {
	for n, want := range map[int]string{10: "cpuid", 48: "ept_violation", 66: "exit_66", 95: "exit_other"} {
		if got := exitReason(n); got != want {
			t.Errorf("exit reason %d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0x10002: "get_quote", 0x10009: "function_10009", 0x1000f: "function_other"} {
		if got := subFunction(n); got != want {
			t.Errorf("sub-function %#x is %q, want %q", n, got, want)
		}
	}
}

func FuzzParseInflight(f *testing.F) {
	f.Add("       3       12\n")
	f.Add("3")
	f.Add("3 -1")
	f.Add("1 2 3")
	f.Fuzz(func(t *testing.T, s string) {
		if r, w, err := parseInflight("inflight", s); err == nil && len(strings.Fields(s)) != 2 {
			t.Errorf("%q is %v and %v", s, r, w)
		}
	})
}
