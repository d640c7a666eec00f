package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Event is a kind of event, or of time: a metric with the labels that identify the kind. Its owner (process and
// machine) is not part of it. Events are comparable, so they can be keys of maps.
type Event struct {
	Metric string
	labels [maxLabels]label // sorted by name; unused ones are zero and come last
}

type label struct{ name, value string }

// maxLabels is more than any metric of ours has.
const maxLabels = 8

// whose are the labels that identify owners, not kinds of events.
var whose = []string{"process", "instance", "job", "__name__"}

// EventOf returns the kind of a series. Labels without a value are left out, as in
// PromQL; so are those beyond the first eight by name.
func EventOf(name string, labels map[string]string) Event {
	e := Event{Metric: name}
	var list []label
	for k, v := range labels {
		if v != "" && !slices.Contains(whose, k) {
			list = append(list, label{k, v})
		}
	}
	slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.name, b.name) })
	copy(e.labels[:], list)
	return e
}

// event is EventOf with labels as pairs of name and value.
func event(name string, pairs ...string) Event {
	labels := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return EventOf(name, labels)
}

// Label returns the value of a label, "" where there is none.
func (e Event) Label(name string) string {
	for _, l := range e.labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// Labels returns the labels as a map, nil where there are none.
func (e Event) Labels() map[string]string {
	var out map[string]string
	for _, l := range e.labels {
		if l.name == "" {
			break
		}
		if out == nil {
			out = map[string]string{}
		}
		out[l.name] = l.value
	}
	return out
}

// Total returns the event of the metric as a whole.
func (e Event) Total() Event { return Event{Metric: e.Metric} }

// String writes the event as PromQL does: name{label="value"}. It is for people and
// never parsed.
func (e Event) String() string {
	var list []string
	for _, l := range e.labels {
		if l.name != "" {
			list = append(list, fmt.Sprintf("%s=%q", l.name, l.value))
		}
	}
	if list == nil {
		return e.Metric
	}
	return e.Metric + "{" + strings.Join(list, ",") + "}"
}

// The metrics that become rows, or divide them.
const (
	CPUSamples     = "tee_sampled_cpu_seconds_total"
	WaitSamples    = "tee_sampled_wait_seconds_total"
	LockWaits      = "tee_sampled_lock_wait_seconds_total"
	FileWaits      = "tee_sampled_file_wait_seconds_total"
	CallCount      = "tee_syscalls_total"
	FaultCount     = "tee_page_faults_total"
	CPUAccount     = "tee_process_cpu_seconds_total"
	SwitchCount    = "tee_context_switches_total"
	HandshakeCount = "tee_tls_handshakes_total"
	RequestCount   = "tee_requests_total"
)

// UnitCost is the calibrated cost of an event, by event and bound.
const UnitCost = "tee_unit_cost_seconds"

// The metrics of a TEE's activity: for the process, and for its whole machine.
const (
	EnclaveFaults      = "tee_sgx_process_enclave_faults_total"
	EnclavePages       = "tee_sgx_process_epc_pages_total"
	EnclaveEntries     = "tee_sgx_enclave_entries_total"
	EnclaveExits       = "tee_sgx_enclave_exits_total"
	EnclaveAsyncExits  = "tee_sgx_enclave_async_exits_total"
	ProcessBounceTime  = "tee_swiotlb_process_seconds_total"
	ProcessBounceCalls = "tee_swiotlb_process_operations_total"

	EnclaveFaultTime = "tee_sgx_enclave_fault_duration_seconds"
	LoadedBack       = "tee_sgx_epc_pages_loaded_back_total"
	ReclaimTime      = "tee_sgx_epc_reclaim_duration_seconds"
	ReclaimerCPU     = "tee_sgx_reclaimer_cpu_seconds_total"
	VMExitTime       = "tee_vm_exit_duration_seconds"
	GuestExceptions  = "tee_guest_exceptions_total"
	BouncedBytes     = "tee_swiotlb_bounced_bytes_total"
	BounceTime       = "tee_swiotlb_seconds_total"
	BounceCalls      = "tee_swiotlb_operations_total"
	BounceFailures   = "tee_swiotlb_mapping_failures_total"
	VMExits          = "tee_vm_exits_total"
	VMGuestCalls     = "tee_vm_vmgexits_total"
	VMTDCalls        = "tee_vm_tdvmcalls_total"
	Conversions      = "tee_private_memory_conversions_total"
	ConversionTime   = "tee_private_memory_conversion_duration_seconds"
	Acceptances      = "tee_memory_acceptances_total"
	AcceptTime       = "tee_memory_acceptance_duration_seconds"
	AcceptedBytes    = "tee_memory_accepted_bytes_total"
	Interrupts       = "node_interrupts_total"
	StagedBytes      = "tee_gpu_bounce_bytes_per_second"
	BusyCPU          = "node_cpu_seconds_total"
)

// Sources maps each of them to the source that counts it in the kernel. Under the budget a source may count only part
// of the time; its counts are then estimates.
var Sources = map[string]string{
	EnclaveFaults: "sgx", EnclavePages: "sgx", EnclaveFaultTime: "sgx", ReclaimTime: "sgx",
	ProcessBounceTime: "swiotlb_bounces", ProcessBounceCalls: "swiotlb_bounces",
	BouncedBytes: "swiotlb_bounces", BounceTime: "swiotlb_bounces", BounceCalls: "swiotlb_bounces", BounceFailures: "swiotlb_bounces",
	VMExitTime: "kvm", VMExits: "kvm", VMGuestCalls: "kvm", VMTDCalls: "kvm", GuestExceptions: "guest_exits",
	Conversions: "conversions", ConversionTime: "conversions", Acceptances: "conversions", AcceptTime: "conversions", AcceptedBytes: "unaccepted",
}

// ofTEE are the name prefixes of a TEE's metrics.
var ofTEE = []string{"tee_sgx_", "tee_vm_", "tee_guest_", "tee_swiotlb_", "tee_private_memory_", "tee_memory_accept"}

// tee reports whether an event is a TEE's activity.
func (e Event) tee() bool {
	return slices.ContainsFunc(ofTEE, func(prefix string) bool { return strings.HasPrefix(e.Metric, prefix) })
}

// Timed are the counters of events whose time is in a histogram, of which a run keeps the sum and the count.
var Timed = map[string]string{EnclaveFaults: EnclaveFaultTime, Conversions: ConversionTime, Acceptances: AcceptTime}

// Regions are the regions that the sampling clock distinguishes and that are not system calls, by the value of its
// label call.
var Regions = map[string]string{"tls_handshake": "TLS handshakes (OpenSSL)", "guest": "running virtual machines"}

// inRegion reports whether sampled CPU time counts for a region: the region's
// system calls are part of it.
func inRegion(e Event) bool {
	call := e.Label("call")
	return e.Label("mode") == "user" && call != "" || e.Label("mode") == "kernel" && Regions[call] != ""
}
