package rules

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// loss is one way in which a network loses something: a share of a whole, or a rate.
type loss struct {
	share, floor string   // thresholds; share is "" for a rate
	total        bool     // floor is of the whole, not of the part
	callers      bool     // who sends and receives matters
	part, whole  []string // counters to be summed
	severity     findings.Severity
	text, wholes string // for evidence
	title, cost  string
	remedy       string
}

func (l loss) sign() sign {
	part := rates(l.part)
	s := sign{
		value: part, least: l.floor,
		of: tcpOut, subject: machine,
		numbers: []number{
			{name: "rate", text: l.text, unit: "1/s", expr: part, over: whole, together: true},
			{name: "now", text: l.text, unit: "1/s", expr: part, over: last, together: true},
		},
		remedy: l.remedy + " " + whereLost,
	}
	if l.callers {
		s.complete = nameCallers
	}
	out := outcome{
		when:     []limit{{numbers: "rate now", threshold: l.floor}},
		severity: l.severity,
		titles:   []string{l.title},
		costs:    []string{cmp.Or(l.cost, "That is {rate} a second.")},
	}
	if l.share != "" {
		all := rates(l.whole)
		enough, floor := "rate", part
		if l.total {
			enough, floor = "all", all
		}
		s.value, s.least = part+" / "+all, l.share
		s.where = " and " + takenOver(floor, whole) + " >= $" + l.floor
		s.numbers = append(s.numbers,
			number{name: "share", text: l.text + ", as a share of the " + l.wholes, unit: "ratio", expr: part + " / " + all, over: whole, together: true},
			number{name: "share_now", text: l.text + ", as a share of the " + l.wholes, unit: "ratio", expr: part + " / " + all, over: last, together: true},
			number{name: "all", text: l.wholes, unit: "1/s", expr: all, over: whole, together: true},
			number{name: "flight", derived: func(of func(string) float64) float64 { return math.Round(1.22 / math.Sqrt(of("share"))) }})
		out.when = []limit{{numbers: "share share_now", threshold: l.share}, {numbers: enough, threshold: l.floor}}
	}
	s.cases = []outcome{out}
	return s
}

// rates returns the query for the sum of counters per second by machine. Of network devices it is the sum over those that count,
// or the rate of one device that has more: a tunnel or a bridge drops packets that no card ever saw.
func rates(counters []string) string {
	var out []string
	for _, c := range counters {
		sum := "sum by (job, instance) (" + counted(c, "$over") + ")"
		if strings.HasPrefix(c, "node_network_") {
			sum = fmt.Sprintf(`max by (job, instance) (%s or $rate(%s{$here,device!="lo"}))`, sum, c)
		}
		out = append(out, sum)
	}
	return "(" + strings.Join(out, " + ") + ")"
}

// counted returns the query for a counter per second, over a span; of one by device, for the devices that a sum counts.
func counted(counter, span string) string {
	rate := query.Rate(counter+"{$here}", span)
	switch {
	case strings.HasPrefix(counter, "node_network_"):
		return metric.CountedNetworks.FilterVector(rate, "$here")
	case strings.HasPrefix(counter, "node_disk_"):
		return metric.CountedDisks.FilterVector(rate, "$here")
	}
	return rate
}
