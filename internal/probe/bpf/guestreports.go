package bpf

// The user-space side of guestreports.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// and times the attestation evidence that a confidential VM requests.

//go:generate ./compile.sh guestReports guestreports.bpf.c

import "slices"

// Report is a way to make attestation evidence, an index of Reports.
type Report int

// Reports are the names of the ways, in the order of guestreports.bpf.c.
var Reports = [...]string{"tdreport", "quote", "report", "token"}

// The ways to make evidence: two of TDX, and one each of SEV-SNP and CCA.
const (
	TDReport Report = iota
	TDXQuote
	SEVReport
	CCAToken
)

var reportFunctions = [...]string{"tdx_mcall_get_report0", "tdx_report_new", "sev_report_new", "arm_cca_report_new"}

// GuestReports returns the programs that count attestation evidence made in these ways.
// All except TDReport are in modules, which must be loaded first.
func GuestReports(ways ...Report) *Program {
	names := [...]string{"tdx_report", "tdx_quote", "sev_report", "cca_token"}
	var hooks []hook
	for _, w := range ways {
		hooks = slices.Concat(hooks, spanHooks(names[w], reportFunctions[w], false))
	}
	return &Program{
		Name: "guestreports",
		spec: spec{
			load:  loadGuestReports,
			hooks: hooks,
		},
		layout: layout{
			row:   len(reportFunctions) * spanCells,
			read:  []string{"counts"},
			reset: []string{"begun"},
		},
	}
}

// GuestReportCounts reads the counters of GuestReports.
type GuestReportCounts struct{ *Counters }

// Report returns the counts of one way to make evidence.
func (c GuestReportCounts) Report(r Report) Span { return c.span(int(r), reportFunctions[r]) }
