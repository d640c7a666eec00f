//go:build linux

package cli

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/monitor"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/web"
)

// thing is something to do about a machine, with the command to type.
type thing struct {
	What    string `json:"what"`
	Command string `json:"command"`
}

// mostThings is how many things doctor names: more are not read.
const mostThings = 3

// thingsToDo are what would help most, from the rows that doctor prints, the most useful first: to become root, what the
// sources that costs rest on lack, a monitor, and then what the other sources lack. server is the URL of which none
// answers for the reason failed, "" where one does or none was asked.
func (d diagnosis) thingsToDo(server string, failed error) []thing {
	out := []thing{}
	var refused []string
	lacking := map[bool][]thing{} // by whether costs rest on the source
	for _, s := range d.Sources {
		switch {
		case s.State != string(probe.Unavailable) && s.State != string(probe.Degraded):
		case !d.Platform.Privileged:
			refused = append(refused, s.Name)
		case s.Blind || s.Remedy == "": // nothing brings these values
		default:
			important := monitor.ShowsProcesses(s.Name)
			lacking[important] = append(lacking[important], remedyOf(s))
		}
	}
	sudo := ""
	if !d.Platform.Privileged {
		sudo = "sudo "
	}
	if len(refused) > 0 {
		out = append(out, thing{fmt.Sprintf("You are not root: %d sources are limited or unavailable (%s). See what root adds.", len(refused), firstFew(refused)), "sudo teescope doctor"})
	}
	out = append(out, lacking[true]...)
	switch {
	case server == "":
	case !client.NothingListens(failed):
		out = append(out, thing{fmt.Sprintf("Doctor could not ask the monitor about its sources: %s.", strings.TrimSuffix(contain.OneLine(failed), ".")), "teescope doctor --server " + server})
	default:
		out = append(out, thing{fmt.Sprintf("No monitor answers at %s, so no samples are stored and nobody is notified. Start one; `%steescope top` shows the current state without one.", server, sudo), sudo + "teescope monitor"})
	}
	out = append(out, lacking[false]...)
	return out[:min(mostThings, len(out))]
}

// firstFew names the first three of a list, and how many more there are.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// remedyOf is what a source lacks, with the command that its advice begins with, or the one that checks it.
func remedyOf(s web.Source) thing {
	remedy := strings.ReplaceAll(s.Remedy, "\n", "; ")
	command, more, _ := strings.Cut(remedy, ", ")
	switch first, _, _ := strings.Cut(command, " "); first {
	case "modprobe", "mount", "chmod":
		what := fmt.Sprintf("The source %s is %s: run the command", s.Name, s.State)
		if more != "" {
			what += ", " + more
		}
		return thing{what + ".", strings.TrimSuffix(command, " as root")}
	}
	return thing{fmt.Sprintf("The source %s is %s: %s. Then run doctor again.", s.Name, s.State, strings.TrimSuffix(remedy, ".")), "teescope doctor"}
}

// thingsText writes the things to do.
func (d diagnosis) thingsText() string {
	var t text
	t.Line("")
	switch n := len(d.ThingsToDo); n {
	case 0:
		t.Line("Nothing to do: every source that this machine supports works.")
	case 1:
		t.Line("One thing to do:")
	default:
		t.Line("%s things to do, the most useful first:", []string{2: "Two", 3: "Three"}[n])
	}
	for i, x := range d.ThingsToDo {
		t.Wrap("", fmt.Sprintf("%d. %s", i+1, x.What))
		t.Line("     %s", x.Command)
	}
	return t.String()
}
