package rules

import (
	"context"
	"fmt"
	"maps"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var damagedData = &findings.Rule{
	Name:  "damaged_data",
	Title: "Stored data is damaged",
	Role:  findings.RoleMonitor,
	Doc:   "A part of the monitor's data folder was damaged. If the part could not be opened, it was moved to the folder quarantine, with a note of the reason. If only some chunks of a block are damaged, the block stays, and answers leave these chunks out. The monitor continues with the rest. If the clock went back, samples from the future were moved to the quarantine too. The finding stays until the part is deleted from the quarantine; for damaged chunks, until the monitor restarts. No threshold: one damaged part is a finding.",
	Needs: []string{"teescope_store_damaged_parts"},
	Remedy: "Check the disk (`dmesg`, `smartctl -a DEVICE`) and the memory (`edac-util`): otherwise the damage comes back. Read the note next to the damaged files, in the folder `quarantine` of the data folder (--data). " +
		"Then stop the monitor and restore the files from a backup, or delete them and the note from `quarantine`.",
	Reference: "https://prometheus.io/docs/prometheus/latest/storage/#operational-aspects",
	Run:       findDamagedData,
}

func findDamagedData(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, "teescope_store_damaged", p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		l := maps.Clone(pt.Labels)
		delete(l, "__name__")
		e := evidence{pass: p}
		lost := e.add(ctx, "1 if samples were lost with this part", "", query.Selector("teescope_store_damaged", l))
		all := e.add(ctx, "damaged parts of this store", "", query.Selector("teescope_store_damaged_parts", map[string]string{"job": l["job"], "instance": l["instance"]}))
		if e.err != nil {
			return e.err
		}
		f := findings.Finding{
			Machine: query.MachineOf(l), Subject: l["kind"] + " " + l["part"], Severity: findings.Warning, Evidence: e.list,
			Title: fmt.Sprintf("The stored %s %s was damaged and moved to the quarantine.", l["kind"], l["part"]),
			Cost:  fmt.Sprintf("Lost: %s.", l["lost"]),
		}
		if l["kind"] == "samples from the future" {
			f.Title = fmt.Sprintf("The clock went back: %s were set aside (%s).", l["kind"], l["part"])
			f.Cost = fmt.Sprintf("Left out: %s. Recording continues.", l["lost"])
			f.Remedy = "Check that the machine's time is synchronised before the monitor starts (`timedatectl`, `chronyc tracking`). Read the note in the folder quarantine of --data: " +
				"if the clock was wrong before it went back, delete the part and its note; if it was wrong after, stop the monitor and move the folders in the part to --data."
		}
		if l["state"] == "skipped" {
			f.Title = fmt.Sprintf("The stored %s %s is damaged in places.", l["kind"], l["part"])
			f.Cost = fmt.Sprintf("Answers leave out %s.", l["lost"])
		}
		if lost == 0 {
			f.Severity = findings.Info
			f.Cost = fmt.Sprintf("It is one of %s damaged parts; no samples are lost with it, because other parts have them.", metric.Value(all, ""))
		}
		p.Report(f)
	}
	return nil
}
