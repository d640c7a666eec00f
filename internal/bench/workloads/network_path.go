package workloads

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/bench"
)

// linkEnd is the worker's line about its end of the network between two machines.
type linkEnd struct {
	Interface string            `json:"interface"`
	Driver    string            `json:"driver"`
	MTU       int               `json:"mtu"`
	PathMTU   int               `json:"path_mtu"`
	Mbit      int               `json:"mbit"`
	Offloads  map[string]string `json:"offloads"`
	Problem   string            `json:"problem"`
}

const linkLine = "link "

// networkPath is both ends of a job whose near side runs outside.
func networkPath(o bench.Outcome) map[string]string {
	if o.Params["peer"] != "outside" {
		return nil
	}
	out := map[string]string{}
	for end, b := range map[string][]byte{"near": o.Outside.Stdout, "far": o.Inside.Stdout} {
		for line := range bytes.Lines(b) {
			text, ok := bytes.CutPrefix(line, []byte(linkLine))
			var l linkEnd
			if !ok || json.Unmarshal(text, &l) != nil {
				continue
			}
			put := func(name, value string) {
				if value != "" && value != "0" {
					out[end+"."+name] = value
				}
			}
			put("interface", l.Interface)
			put("driver", l.Driver)
			put("mtu", strconv.Itoa(l.MTU))
			put("path_mtu", strconv.Itoa(l.PathMTU))
			put("mbit", strconv.Itoa(l.Mbit))
			for name, value := range l.Offloads {
				put("offload."+name, value)
			}
			put("problem", l.Problem)
			break
		}
	}
	return out
}

// withoutLink is an output without that line.
func withoutLink(b []byte) []byte {
	if first, rest, ok := strings.Cut(string(b), "\n"); ok && strings.HasPrefix(first, linkLine) {
		return []byte(rest)
	}
	return b
}
