package observe

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/teescope/teescope/internal/probe"
)

// Privileges is the flag --privileges: the capabilities to keep once the sources are open.
type Privileges string

// The modes.
const (
	// Least keeps what the open sources need for every reading, what those that wait
	// cannot do without, and CAP_BPF and CAP_PERFMON, which switching a source on at run
	// time needs.
	Least Privileges = "least"
	// none drops everything. Loaded programs keep running and can be attached and
	// detached, but no source can be opened.
	none Privileges = "none"
	// keep drops nothing.
	keep Privileges = "keep"
)

func (p *Privileges) String() string { return string(*p) }

// Type names the value in the help text.
func (p *Privileges) Type() string { return "mode" }

// Set parses the flag.
func (p *Privileges) Set(v string) error {
	if !slices.Contains([]Privileges{Least, none, keep}, Privileges(v)) {
		return fmt.Errorf("%q: want least, none or keep", v)
	}
	*p = Privileges(v)
	return nil
}

// drop gives up the capabilities that p does not keep, in all threads and for all
// children, and sets PR_SET_NO_NEW_PRIVS (capabilities(7)). data is the folder to write
// to, "" for none. It returns a line with the remaining and the dropped capabilities.
func (p Privileges) drop(sources []probe.Status, data string) (string, error) {
	if p == keep {
		return "", nil
	}
	if usesCgo() {
		return "", errCgo
	}
	have := cap.GetProc()
	if p != Least && foreign(data) {
		return "", fmt.Errorf("drop all capabilities: the data folder %s belongs to another user, so it could not be written; "+
			"change its owner to uid %d, or use --privileges least", data, os.Geteuid())
	}
	stay, lost := p.capabilitiesToKeep(have, sources, data)
	if err := dropAllBut(have, stay); err != nil {
		return "", err
	}
	line := "privileges: no capabilities"
	if len(stay) > 0 {
		names := make([]string, len(stay))
		for i, v := range stay {
			names[i] = v.String()
		}
		slices.Sort(names)
		line = "privileges: " + strings.Join(names, ", ")
	}
	if p == none {
		line += "; no more sources can be switched on"
		if len(lost) > 0 {
			line += "; no longer read: " + strings.Join(lost, "; ")
		}
	}
	return line, nil
}

// capabilitiesToKeep returns the capabilities to keep of those that the process has, and what open sources can no longer read without the
// others.
func (p Privileges) capabilitiesToKeep(have *cap.Set, sources []probe.Status, data string) (stay []cap.Value, lost []string) {
	held := func(name string) (cap.Value, bool) {
		v, err := cap.FromName(name)
		if err != nil {
			return 0, false // unknown to this kernel, so nobody has it
		}
		on, err := have.GetFlag(cap.Permitted, v)
		return v, err == nil && on
	}
	stays := func(name string) {
		if v, ok := held(name); ok && !slices.Contains(stay, v) {
			stay = append(stay, v)
		}
	}
	without := map[string]bool{}
	for _, s := range sources {
		open := s.State == probe.Available || s.State == probe.Degraded
		for _, n := range s.Source.Needs {
			switch {
			case p == Least && open && !n.Open, p == Least && s.Auto && !n.Optional:
				stays(n.Capability)
			case open && !n.Open:
				if _, ok := held(n.Capability); ok {
					without[fmt.Sprintf("%s: %s (%s)", s.Source.Name, n.For, n.Capability)] = true
				}
			}
		}
	}
	if p == Least {
		stays("cap_bpf")
		stays("cap_perfmon")
		if foreign(data) {
			stays("cap_dac_override")
		}
	}
	return stay, slices.Sorted(maps.Keys(without))
}

// dropAllBut gives up all capabilities of the process but those that stay, for good.
func dropAllBut(have *cap.Set, stay []cap.Value) error {
	next := cap.NewSet()
	for _, f := range []cap.Flag{cap.Permitted, cap.Effective} {
		if err := next.SetFlag(f, true, stay...); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	if err := cap.ResetAmbient(); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	if on, err := have.GetFlag(cap.Effective, cap.SETPCAP); err == nil && on {
		for v := cap.Value(0); v < cap.MaxBits(); v++ {
			if slices.Contains(stay, v) {
				continue
			}
			if err := cap.DropBound(v); err != nil {
				return fmt.Errorf("drop %s from the bounding set: %w", v, err)
			}
		}
	}
	const noNewPrivs = 38 // PR_SET_NO_NEW_PRIVS of linux/prctl.h
	if _, err := cap.Prctlw(noNewPrivs, 1); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := next.SetProc(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

var errCgo = errors.New("drop capabilities: teescope was built with cgo, in which libcap crashes; build it with CGO_ENABLED=0 (as `make build` does)")

// usesCgo reports whether this program was built with cgo.
func usesCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// foreign reports whether a folder belongs to another user.
func foreign(dir string) bool {
	if dir == "" {
		return false
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}
