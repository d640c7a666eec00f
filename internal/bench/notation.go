package bench

import (
	"errors"
	"fmt"
	"strings"
)

// parseNotation reads NAME[:VALUE][,K=V]..., in which environments and clients are written. VALUE is under the
// key "", until named. The path of a file may have a colon.
func parseNotation(text string) (name string, given Params, err error) {
	words := strings.Split(text, ",")
	name, given = words[0], Params{}
	if !isTemplate(name) {
		if before, v, short := strings.Cut(name, ":"); short {
			name, given[""] = before, v
		}
	}
	for _, kv := range words[1:] {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return "", nil, fmt.Errorf("%q: want K=V", kv)
		}
		if _, twice := given[k]; twice {
			return "", nil, fmt.Errorf("%s is given twice", k)
		}
		given[k] = v
	}
	return name, given, nil
}

// named makes the value after the colon, if there is one, that of a parameter. It fails if there is no such parameter,
// or if that is given too.
func (p Params) named(param string) error {
	v, short := p[""]
	if !short {
		return nil
	}
	if param == "" {
		return fmt.Errorf("%q after the colon: want parameters as ,K=V", v)
	}
	if v == "" {
		return errors.New("want a value after the colon")
	}
	if _, twice := p[param]; twice {
		return fmt.Errorf("%s is given twice", param)
	}
	delete(p, "")
	p[param] = v
	return nil
}
