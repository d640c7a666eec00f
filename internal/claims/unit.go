package claims

import (
	"fmt"
	"slices"
	"strings"
)

// dims are the exponents of time, bytes and money. Counted things (requests, threads,
// tokens) have none, so a rate times a time is a count of them under any name; the name
// is kept as the noun.
type dims struct{ time, bytes, money int8 }

type unit struct {
	name  string
	noun  string // what is counted, if anything
	scale float64
	dims
}

var one = unit{scale: 1}

var (
	multiples = map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
	fractions = map[string]float64{"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
	bases     = map[string]unit{
		"s": {scale: 1, dims: dims{time: 1}},
		"B": {scale: 1, dims: dims{bytes: 1}}, "bit": {scale: 1. / 8, dims: dims{bytes: 1}},
		"bps": {scale: 1. / 8, dims: dims{bytes: 1, time: -1}},
		"Hz":  {scale: 1, noun: "cycle", dims: dims{time: -1}}, "IOPS": {scale: 1, noun: "io", dims: dims{time: -1}},
		"QPS": {scale: 1, noun: "req", dims: dims{time: -1}}, "IPS": {scale: 1, noun: "instr", dims: dims{time: -1}},
		"FLOPS": {scale: 1, noun: "flop", dims: dims{time: -1}},
	}
	alone = map[string]unit{
		"%": {scale: 0.01}, "x": {scale: 1}, "1": {scale: 1},
		"min": {scale: 60, dims: dims{time: 1}}, "h": {scale: 3600, dims: dims{time: 1}}, "d": {scale: 86400, dims: dims{time: 1}},
		"$": {scale: 1, noun: "$", dims: dims{money: 1}}, "€": {scale: 1, noun: "€", dims: dims{money: 1}},
	}
	nouns = []string{"req", "op", "io", "msg", "token", "proof", "cycle", "instr", "flop", "page", "key", "packet", "frame",
		"connection", "thread", "core", "client", "process", "node", "run", "sample", "mean", "call", "fault", "exit", "switch", "error", "point"}
)

// parseUnit reads ms, MiB/s, kreq/s, %, x, $/h; more holds declared nouns.
func parseUnit(s string, more map[string]bool) (unit, error) {
	top, bottom, div := strings.Cut(s, "/")
	u, err := parseAtom(top, more)
	if err != nil {
		return unit{}, err
	}
	if div {
		d, err := parseAtom(bottom, more)
		if err != nil {
			return unit{}, err
		}
		u = unit{noun: u.noun, scale: u.scale / d.scale, dims: dims{u.time - d.time, u.bytes - d.bytes, u.money - d.money}}
	}
	u.name = s
	return u, nil
}

func parseAtom(s string, more map[string]bool) (unit, error) {
	counted := func(s string) bool { return more[s] || slices.Contains(nouns, s) }
	if u, ok := alone[s]; ok {
		return u, nil
	}
	if u, ok := bases[s]; ok {
		return u, nil
	}
	if counted(s) {
		return unit{scale: 1, noun: s}, nil
	}
	for p, f := range fractions {
		if s == p+"s" {
			return unit{scale: f, dims: dims{time: 1}}, nil
		}
	}
	for _, n := range []int{2, 1} {
		if len(s) <= n {
			continue
		}
		f, ok := multiples[s[:n]]
		if !ok {
			continue
		}
		if u, ok := bases[s[n:]]; ok {
			u.scale *= f
			return u, nil
		}
		if counted(s[n:]) {
			return unit{scale: f, noun: s[n:]}, nil
		}
	}
	return unit{}, fmt.Errorf("unknown unit %q: want a unit like ms, MiB/s, kreq/s, %%, x or $/h; a thing counted is declared with `# counts: %s`", s, s)
}

func (d dims) String() string {
	switch d {
	case dims{}:
		return "a plain number"
	case dims{time: 1}:
		return "a time"
	case dims{time: -1}:
		return "a rate"
	case dims{bytes: 1}:
		return "an amount of data"
	case dims{bytes: 1, time: -1}:
		return "data per time"
	case dims{money: 1}:
		return "money"
	case dims{money: 1, time: -1}:
		return "money per time"
	}
	return fmt.Sprintf("time^%d·bytes^%d·money^%d", d.time, d.bytes, d.money)
}
