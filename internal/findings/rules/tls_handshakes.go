package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var tlsHandshakes = &findings.Rule{
	Name:  "tls_handshakes",
	Title: "TLS handshakes",
	Doc: "A process makes at least 10 TLS handshakes a second and spends at least 20 % of its active time (on a CPU, or waiting for a lock, a disk or a CPU) in handshakes, by samples of what runs inside libssl's " +
		"handshake, over each window and over its newest half minute. A connection that stays open needs only one handshake. Below 20 % the handshakes are probably those of new visitors; above, connections are probably not reused, or sessions not resumed. Programs with their own TLS library " +
		"(Go, Rust's rustls, BoringSSL inside a binary) are not covered.",
	Needs: []string{"tee_tls_handshakes_total", sampledCPU},
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of handshakes in the active time of a process", Unit: "ratio", Default: 0.20},
		{Name: "rate", Doc: "handshakes of a process", Unit: "1/s", Default: 10},
	},
	Remedy:    causes.TLSHandshakes.Remedy,
	Reference: "https://nginx.org/en/docs/http/ngx_http_ssl_module.html and RFC 8446, section 2.2 (resumption), https://www.rfc-editor.org/rfc/rfc8446#section-2.2",
	Run:       findTLSHandshakes,
}

func findTLSHandshakes(ctx context.Context, p *findings.Pass) error {
	const handshakes = "tee_tls_handshakes_total"
	points, err := holding(ctx, p, func(w string) string {
		return "sum by (job, instance, process) (" + query.Scope{Over: w}.Rate(handshakes, `process!="other"`) + ")"
	}, p.Least("rate"), "")
	if err != nil {
		return err
	}
	for _, pt := range points {
		process := pt.Labels["process"]
		subject, err := named(ctx, p, process, handshakes, pt.Labels["instance"])
		if err != nil {
			return err
		}
		made := query.SumRate(ofProcess(handshakes, pt.Labels), window(p))
		inside := func(w string) string {
			return query.SumRate(ofProcess(sampledCPU, pt.Labels, `call="tls_handshake"`), w)
		}
		all := func(w string) string { return active(pt.Labels, w) }
		e, mean := evidence{pass: p}, ", mean of the last "+window(p)
		share, around := e.sampled(ctx, fmt.Sprintf("share of handshakes in the active time of %s%s", process, mean),
			inside, all, "cpu|wait", pt.Labels)
		now := e.add(ctx, "share of handshakes, mean of the last "+newest(p), "ratio", inside(newest(p))+" / "+all(newest(p)))
		rate := e.add(ctx, "its handshakes"+mean, "1/s", made)
		took := e.add(ctx, "its CPU time in handshakes, by samples"+mean, "cores", inside(window(p)))
		e.add(ctx, "CPU time of one handshake"+mean, "seconds", inside(window(p))+" / "+made)
		opened := query.SumRate(ofProcess("tee_syscalls_total", pt.Labels, `syscall=~"accept|accept4|connect"`), window(p))
		each := e.add(ctx, "handshakes for each connection that it accepts or opens"+mean, "ratio", made+" / "+opened)
		e.add(ctx, "its read, write, send and receive calls per handshake"+mean, "ratio",
			query.SumRate(ofProcess("tee_syscalls_total", pt.Labels, `syscall=~"`+usefulCalls+`"`), window(p))+" / "+made)
		if e.err != nil {
			return e.err
		}
		if !(min(share, now) >= p.Limit("share", subject)) || rate < p.Limit("rate", subject) {
			continue
		}
		f := findings.Finding{
			Machine:    query.MachineOf(pt.Labels),
			Subject:    subject,
			Life:       lifeOf(pt.Labels),
			Title:      fmt.Sprintf("%s spends %s of its active time on TLS handshakes: %s a second.", subject, metric.Percent(share), metric.Count(rate)),
			Severity:   findings.Warning,
			Confidence: findings.Medium,
			Evidence:   e.list,
			Share:      around,
			ShareOf:    findings.ActiveTime,
			Cost:       fmt.Sprintf("The handshakes use %s: %s of CPU time for each handshake.", metric.Value(took, "cores"), metric.Value(took/rate, "seconds")),
		}
		if each >= 0.9 {
			f.Remedy = p.Rule.Remedy + " Nearly every connection makes its own handshake."
		}
		p.Report(f)
	}
	return nil
}
