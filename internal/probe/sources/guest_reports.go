package sources

import (
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	attestations = counter("tee_attestations_total",
		"Requests for attestation evidence to the guest's kernel since the monitor started: tdreport is evidence for this machine, quote, report and token are evidence for others (functions tdx_mcall_get_report0, tdx_report_new, sev_report_new, arm_cca_report_new).",
		"kind", "call")
	attestationFailures = counter("tee_attestation_failures_total",
		"Failed requests for attestation evidence since the monitor started (results of the same functions).", "kind", "call")
	attestationTime = &metric.Desc{Name: "tee_attestation_duration_seconds", Kind: metric.Histogram, Labels: []string{"kind", "call"},
		Help: "Duration of a request for attestation evidence in seconds, including failed ones; the kernel polls for a TDX quote once a second, so quotes take whole seconds."}
)

// guestReports times attestation at a point that every way to request it passes.
var guestReports = probe.Source{
	Name:    "guest_reports",
	Doc:     "Attestation evidence made for this confidential VM, and how long it took",
	Metrics: []*metric.Desc{attestations, attestationFailures, attestationTime},
	Needs:   functionNeeds[:2],
	Kernels: "Linux 6.7 and later (CCA: 6.13) with CONFIG_TSM_REPORTS, CONFIG_DEBUG_INFO_BTF_MODULES and CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, the driver's module loaded before; tdreport since 6.2",
	Cost:    "two runs of programs for each report: together under a microsecond, while a report takes milliseconds to seconds; 3.6 kB for each CPU; not measured on TEE hardware",
	Blind:   "evidence from a paravisor's virtual TPM, and SEV-SNP reports requested by ioctl on /dev/sev-guest",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		guest, err := confidentialGuest(facts)
		if err != nil {
			return nil, err
		}
		ways, err := reportWays(h, guest)
		if err != nil {
			return nil, err
		}
		return openProgram(bpf.GuestReports(ways...), func(c *counters, emit emitter) uint64 {
			for _, w := range ways {
				s := bpf.GuestReportCounts{Counters: c.Counters}.Report(w)
				l := c.label(guest.Kind, bpf.Reports[w])
				if s.Begun {
					emit.send(attestations, float64(s.Calls), l...)
				}
				if s.Ended {
					emit.send(attestationFailures, float64(s.Failed), l...)
					emit(metric.Sample{Desc: attestationTime, Labels: l, Hist: spanTime(&s)})
				}
			}
			return 0
		})(h, facts)
	},
}

// reportWays are a guest's ways to make evidence. Their functions are in modules:
// before one is loaded there is nothing to attach to, and nothing to count.
func reportWays(h *host.Host, guest tee.Facts) ([]bpf.Report, error) {
	driver, module, ways := "/dev/tdx_guest", "tdx_guest", []bpf.Report{bpf.TDReport, bpf.TDXQuote}
	switch {
	case guest.Kind == "cca":
		driver, module, ways = "/sys/module/arm_cca_guest", "arm_cca_guest", []bpf.Report{bpf.CCAToken}
	case guest.Kind == "sev" && guest.Variant != "sev-snp":
		return nil, probe.NotHere("%s guests are attested at launch only", guest.Variant)
	case guest.Kind == "sev":
		driver, module, ways = "/dev/sev-guest", "sev-guest", []bpf.Report{bpf.SEVReport}
	}
	ok, err := h.Exists(driver)
	if err == nil && !ok {
		err = &probe.Problem{Err: probe.NotHere("the guest's attestation driver is not loaded (%s is missing)", driver),
			Remedy: "modprobe " + module + ", then restart teescope"}
	}
	return ways, err
}

// spanTime is the time of a function's calls.
func spanTime(s *bpf.Span) *metric.Hist {
	return &metric.Hist{Bounds: bpf.LatencyBounds, Counts: s.Time.Buckets(), Sum: s.Time.Sum()}
}
