package bench

import (
	"errors"
	"fmt"
	"strings"
)

// Lists are the members that a plan can use.
type Lists struct {
	Workloads []*Workload
	Launchers []*Launcher
	// File makes a launcher from a command template's file; nil if files cannot be
	// read.
	File func(path string) (*Launcher, error)
}

// ErrUnknown is wrapped if a name is in no list.
var ErrUnknown = errors.New("unknown; `teescope bench list` shows the known ones")

// Workload finds a workload by name.
func (l Lists) Workload(name string) (*Workload, error) {
	for _, w := range l.Workloads {
		if w.Name == name {
			return w, nil
		}
	}
	return nil, fmt.Errorf("workload %q: %w", name, ErrUnknown)
}

// isTemplate distinguishes the path of a command template from a launcher's name.
func isTemplate(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func (l Lists) launcher(name string) (*Launcher, error) {
	if isTemplate(name) && l.File != nil {
		return l.File(name)
	}
	for _, x := range l.Launchers {
		if x.Name == name {
			return x, nil
		}
	}
	if hint := usual[name]; hint != "" {
		return nil, fmt.Errorf("launcher %q does not exist; type %s (`teescope bench list` shows all)", name, hint)
	}
	return nil, fmt.Errorf("launcher %q: %w", name, ErrUnknown)
}

// usual are names that users try and that stand for several launchers, with what to type.
var usual = map[string]string{
	"sgx":        "gramine-sgx, occlum-run, scone or ego",
	"cvm":        "tdx or snp, or ssh:[USER@]HOST for a rented one",
	"kubernetes": "pod", "k8s": "pod",
	"kata": "pod,runtimeClass=kata",
}

// find finds a launcher by its name or one of its other usual names, which comes with parameters.
func (l Lists) find(name string) (*Launcher, Params, error) {
	for _, x := range l.Launchers {
		if preset, ok := x.Aliases[name]; ok {
			return x, preset, nil
		}
	}
	x, err := l.launcher(name)
	return x, nil, err
}
