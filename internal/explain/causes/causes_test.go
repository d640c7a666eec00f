package causes

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
)

// speaks returns the name of the first cause that an event indicates.
func speaks(e explain.Event, c explain.Circumstances) string {
	for _, x := range All {
		if x.Matches != nil && x.Matches(e, c) {
			return x.Name
		}
	}
	return ""
}

// event returns the event of a metric with one label.
func event(metric, label, value string) explain.Event {
	return explain.EventOf(metric, map[string]string{label: value})
}

// call returns the event of a system call.
func call(name string) explain.Event { return event(explain.CallCount, "syscall", name) }

// cases say which cause an event indicates, "" for none.
var cases = []struct {
	event explain.Event
	when  explain.Circumstances
	want  string
}{
	{call("clock_gettime"), explain.Circumstances{}, "vdso_bypass"},
	{call("clock_gettime"), explain.Circumstances{Rare: true}, ""},
	{call("futex"), explain.Circumstances{Contended: true}, "lock_contention"},
	{call("futex"), explain.Circumstances{Contended: true, Rare: true}, "lock_contention"},
	{call("futex"), explain.Circumstances{}, "context_switch_storm"},
	{call("futex"), explain.Circumstances{Rare: true}, ""},
	{call("madvise"), explain.Circumstances{}, "page_fault_storm"},
	{call("fdatasync"), explain.Circumstances{Rare: true}, "logging"},
	{call("getppid"), explain.Circumstances{}, "syscall_storm"},
	{call("sched_yield"), explain.Circumstances{}, "syscall_storm"},
	{call("getppid"), explain.Circumstances{Rare: true}, ""},
	{call("read"), explain.Circumstances{}, ""},
	{call("read"), explain.Circumstances{Entering: true}, "syscall_storm"},
	{call("epoll_wait"), explain.Circumstances{}, ""},
	{call("other"), explain.Circumstances{}, ""},
	{explain.EventOf(explain.CallCount, nil), explain.Circumstances{Entering: true}, ""},
	{event(explain.SwitchCount, "kind", "voluntary"), explain.Circumstances{}, "context_switch_storm"},
	{event(explain.SwitchCount, "kind", "voluntary"), explain.Circumstances{Contended: true}, "lock_contention"},
	{event(explain.SwitchCount, "kind", "involuntary"), explain.Circumstances{Contended: true}, "context_switch_storm"},
	{explain.EventOf(explain.SwitchCount, nil), explain.Circumstances{}, ""},
	{event(explain.FaultCount, "cause", "write"), explain.Circumstances{}, "page_fault_storm"},
	{explain.EventOf(explain.FaultCount, nil), explain.Circumstances{}, ""},
	{event(explain.WaitSamples, "state", "lock"), explain.Circumstances{}, "lock_contention"},
	{event(explain.WaitSamples, "state", "sleep"), explain.Circumstances{}, ""},
	{event(explain.WaitSamples, "state", "cpu"), explain.Circumstances{}, "cpu_starvation"},
	{event(explain.WaitSamples, "state", "disk"), explain.Circumstances{}, "io_saturation"},
	{explain.EventOf(explain.WaitSamples, map[string]string{"state": "disk", "call": "fsync"}), explain.Circumstances{}, "logging"},
	{explain.EventOf(explain.EnclaveFaults, nil), explain.Circumstances{Paging: true}, "epc_paging"},
	{explain.EventOf(explain.EnclaveFaults, nil), explain.Circumstances{}, ""},
	{explain.EventOf(explain.LoadedBack, nil), explain.Circumstances{}, "epc_paging"},
	{event(explain.Conversions, "direction", "to_shared"), explain.Circumstances{}, "memory_conversions"},
	{event(explain.EnclaveEntries, "runtime", "gramine"), explain.Circumstances{}, "enclave_transitions"},
	{event(explain.EnclaveExits, "runtime", "gramine"), explain.Circumstances{Rare: true}, "enclave_transitions"},
	{event(explain.BounceTime, "operation", "map"), explain.Circumstances{}, "bounced_io"},
	{explain.EventOf(explain.BouncedBytes, nil), explain.Circumstances{}, "bounced_io"},
	{event(explain.GuestExceptions, "reason", "cpuid"), explain.Circumstances{}, "guest_exit_storm"},
	{event(explain.CPUSamples, "call", "tls_handshake"), explain.Circumstances{}, "tls_handshakes"},
	{event(explain.CPUSamples, "mode", "user"), explain.Circumstances{}, ""},
}

func TestMatches(t *testing.T) {
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s/%s %+v", cmp.Or(c.want, "none"), c.event, c.when), func(t *testing.T) {
			if got := speaks(c.event, c.when); got != c.want {
				t.Errorf("it speaks for %q, want %q", got, c.want)
			}
		})
	}
}

// TestCausesHaveCases: each cause that events indicate has a case in TestMatches.
func TestCausesHaveCases(t *testing.T) {
	for _, c := range All {
		t.Run(c.Name, func(t *testing.T) {
			for i := range cases {
				if c.Matches == nil || cases[i].want == c.Name {
					return
				}
			}
			t.Errorf("cause %s: no case of TestMatches has an event that indicates it", c.Name)
		})
	}
}

// TestWords checks the form of words that sentences are made of.
func TestWords(t *testing.T) {
	names := map[string]bool{}
	for _, c := range All {
		if c.Name == "" || names[c.Name] {
			t.Errorf("%q: a name is one cause's", c.Name)
		}
		names[c.Name] = true
		if !strings.HasSuffix(c.Remedy, ".") {
			t.Errorf("%s: the remedy %q is no sentence", c.Name, c.Remedy)
		}
		if (c.What == "") != (c.Fix == "") || strings.HasSuffix(c.What, ".") || strings.HasSuffix(c.Fix, ".") {
			t.Errorf("%s: %q and %q are parts of one sentence", c.Name, c.What, c.Fix)
		}
		if (c.Doing == "") != (c.Matches == nil) || strings.HasSuffix(c.Doing, ".") {
			t.Errorf("%s: %q ends a sentence about events that speak for it", c.Name, c.Doing)
		}
	}
}

// TestExitRemedies: each kind of reason has a remedy, and each remedy a reason.
func TestExitRemedies(t *testing.T) {
	used := map[string]bool{}
	for reason, kind := range exitKinds {
		if used[kind] = true; !strings.HasSuffix(ExitRemedy(reason), ".") {
			t.Errorf("%s: the remedy %q is no sentence", reason, ExitRemedy(reason))
		}
	}
	for kind := range exitRemedies {
		if !used[kind] {
			t.Errorf("no reason is of the kind %s", kind)
		}
	}
	if ExitRemedy("unheard of") != "" {
		t.Error("an unknown reason has a remedy")
	}
}
