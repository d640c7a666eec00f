package rules

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/metric"
)

const (
	tcpOut   = "node_netstat_Tcp_OutSegs"
	tcpAgain = "node_netstat_Tcp_RetransSegs"
)

var networkLoss = &analysis.Rule{
	Name:  "network_loss",
	Title: "Network loss",
	Doc: "At least 1 % of the TCP segments of a machine that sends 100 a second or more are sent again; or its network devices drop at least 1 % of the " +
		"packets and 10 a second; or a listening socket turns at least one connection a second away because its queue is full; or, as information, at least half " +
		"of the connections and 50 a second end in a reset. Over either window and over its newest half minute. At a loss of 1 % a TCP connection keeps some 12 " +
		"segments in flight however fast the network is (Mathis and others, 1997). Counters are those of the monitor's network namespace.",
	Needs: []string{tcpAgain, tcpOut},
	Thresholds: []analysis.Threshold{
		{Name: "retransmits", Doc: "share of the TCP segments sent again", Unit: "ratio", Default: 0.01},
		{Name: "segments", Doc: "TCP segments sent, below which that share says little", Unit: "1/s", Default: 100},
		{Name: "drops", Doc: "share of the packets that network devices drop", Unit: "ratio", Default: 0.01},
		{Name: "dropped", Doc: "packets dropped, below which that share says little", Unit: "1/s", Default: 10},
		{Name: "refused", Doc: "connections turned away by full queues", Unit: "1/s", Default: 1},
		{Name: "resets", Doc: "share of the connections that end in a reset", Unit: "ratio", Default: 0.5},
		{Name: "reset", Doc: "connections reset, below which that share says little", Unit: "1/s", Default: 50},
	},
	Remedy: "Look where with `nstat -az`, `ip -s -s link`, `ethtool -S DEVICE` and `dropwatch -l kas`.",
	Reference: "https://docs.kernel.org/networking/snmp_counter.html and Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance " +
		"Algorithm (CCR 1997), https://doi.org/10.1145/263932.264023",
	Run: findNetworkLoss,
}

// sign is one way in which a network loses something: a share of a whole, or with no
// whole a rate alone, which is the floor.
type sign struct {
	share, floor string   // thresholds; share is "" for a rate alone
	part, whole  []string // counters, whose sum it is
	severity     analysis.Severity
	text, wholes string // for evidence
	title        string // with verbs for the machine and the number
	remedy       string
}

// signs are in the order of their weight.
var signs = []sign{
	{
		share: "retransmits", floor: "segments",
		part:     []string{tcpAgain},
		whole:    []string{tcpOut},
		severity: analysis.Warning, text: "TCP segments sent again", wholes: "TCP segments sent",
		title: "The %s sends %s of its TCP segments again.",
		remedy: "Segments get lost, or are believed lost, on the way or at either end: see whether drops of this machine's devices or queues go with it, ask for the path's " +
			"quality (`mtr -T`), and mind policers of cloud networks and small receive rings of virtual ones.",
	},
	{
		share: "drops", floor: "dropped",
		part:     []string{"node_network_receive_drop_total", "node_network_transmit_drop_total"},
		whole:    []string{"node_network_receive_packets_total", "node_network_transmit_packets_total"},
		severity: analysis.Warning, text: "packets dropped by network devices", wholes: "packets of network devices",
		title: "The network devices of the %s drop %s of the packets.",
		remedy: "Packets arrive faster than they are taken, or nobody wants them: larger rings (`ethtool -G`), more queues (`ethtool -L`), a larger " +
			"net.core.netdev_max_backlog, the CPU less busy with soft interrupts. In a confidential VM a full bounce buffer drops packets as well.",
	},
	{
		floor:    "refused",
		part:     []string{"node_netstat_TcpExt_ListenDrops"},
		severity: analysis.Warning, text: "connections turned away by full queues",
		title:  "The %s turns %s connections a second away, as a queue of a listening socket is full.",
		remedy: "A server does not accept connections as fast as they come: a longer backlog (listen(2), net.core.somaxconn, net.ipv4.tcp_max_syn_backlog), more workers that accept, connections that are kept open.",
	},
	{
		share: "resets", floor: "reset",
		part:     []string{"node_netstat_Tcp_EstabResets"},
		whole:    []string{"node_netstat_Tcp_ActiveOpens", "node_netstat_Tcp_PassiveOpens"},
		severity: analysis.Info, text: "TCP connections that ended in a reset", wholes: "TCP connections opened",
		title: "Of the TCP connections of the %s, %s end in a reset.",
		remedy: "Somebody closes connections with data unread or with SO_LINGER set to 0, as load generators and health checks do on purpose, or a middle box or a time-out cuts them. " +
			"tee_tcp_resets_sent_total and tee_tcp_resets_received_total say on which side and when.",
	},
}

// rates is the query for the sum of counters a second by machine, of the one whose
// labels are given or of all; the loopback device is no network.
func rates(counters []string, labels map[string]string, w string) string {
	var out []string
	for _, c := range counters {
		selector := onMachine(c, labels)
		if strings.HasPrefix(c, "node_network_") {
			selector = with(selector, `device!="lo"`)
		}
		out = append(out, fmt.Sprintf("sum by (job, instance) (rate(%s[%s]))", selector, w))
	}
	return "(" + strings.Join(out, " + ") + ")"
}

// candidates is the query for the machines that show the sign at the lowest thresholds.
func (s sign) candidates(p *analysis.Pass) string {
	lost := func(w string) string { return rates(s.part, nil, w) }
	if s.share == "" {
		return held(p, lost, p.Least(s.floor))
	}
	floor := lost(window(p))
	if s.floor == "segments" {
		floor = rates(s.whole, nil, window(p))
	}
	return fmt.Sprintf("%s and %s >= %g", held(p, func(w string) string { return lost(w) + " / " + rates(s.whole, nil, w) }, p.Least(s.share)), floor, p.Least(s.floor))
}

// findNetworkLoss makes one finding of all that a machine shows; the first sign is
// the one in its title.
func findNetworkLoss(ctx context.Context, p *analysis.Pass) error {
	found := map[string]*analysis.Finding{}
	for _, s := range signs {
		points, err := p.Query(ctx, s.candidates(p), p.To)
		if err != nil {
			return err
		}
		for _, pt := range points {
			subject, err := named(ctx, p, "machine", tcpOut, pt.Labels["instance"])
			if err != nil {
				return err
			}
			f, err := s.judge(ctx, p, subject, pt)
			if err != nil {
				return err
			}
			if first := found[subject]; first != nil && f != nil {
				first.Evidence = append(first.Evidence, f.Evidence...)
			} else if f != nil {
				found[subject] = f
			}
		}
	}
	for _, f := range found {
		p.Report(*f)
	}
	return nil
}

// judge compares a machine with its own thresholds; nil where it is below.
func (s sign) judge(ctx context.Context, p *analysis.Pass, subject string, pt metric.Point) (*analysis.Finding, error) {
	e := evidence{pass: p}
	lost := func(w string) string { return rates(s.part, pt.Labels, w) }
	rate := e.add(ctx, s.text+", mean of the last "+window(p), "1/s", lost(window(p)))
	now := e.add(ctx, s.text+", mean of the last "+newest(p), "1/s", lost(newest(p)))
	number, enough := count(rate), min(rate, now)
	f := &analysis.Finding{Subject: subject, Severity: s.severity, Remedy: s.remedy + " " + p.Rule.Remedy}
	if s.share != "" {
		whole := func(w string) string { return rates(s.whole, pt.Labels, w) }
		share := e.add(ctx, "their share in the "+s.wholes+", mean of the last "+window(p), "ratio", lost(window(p))+" / "+whole(window(p)))
		shareNow := e.add(ctx, "their share in the "+s.wholes+", mean of the last "+newest(p), "ratio", lost(newest(p))+" / "+whole(newest(p)))
		all := e.add(ctx, s.wholes+", mean of the last "+window(p), "1/s", whole(window(p)))
		if !(min(share, shareNow) >= p.Limit(s.share, subject)) {
			return nil, e.err
		}
		number, enough = percent(share), rate
		if s.floor == "segments" {
			enough = all
			f.Cost = fmt.Sprintf("If so many are lost, a TCP connection keeps about %s segments in flight, however fast the network is (1.22 / sqrt(loss), Mathis 1997).",
				count(math.Round(1.22/math.Sqrt(share))))
		}
	}
	if e.err != nil || !(enough >= p.Limit(s.floor, subject)) {
		return nil, e.err
	}
	if f.Cost == "" {
		f.Cost = fmt.Sprintf("That is %s a second.", count(rate))
	}
	f.Title = fmt.Sprintf(s.title, subject, number)
	f.Evidence = e.list
	return f, nil
}
