package observe

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/internal/web"
)

// OpenHost returns the machine whose tree is at root: "/", or where a container
// has mounted its host.
func OpenHost(root string) (*host.Host, error) {
	if root == "/" {
		return host.Local(), nil
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("host root %s: %w", root, err)
	}
	h := host.At(abs)
	if _, err := h.Stat("/proc/stat"); err != nil {
		return nil, fmt.Errorf("host root %s holds no /proc/stat (%w); mount the host's tree there, with its /proc and /sys", root, err)
	}
	return h, nil
}

// patience limits looking at the machine before the sources are opened, which have
// their own limit. It takes milliseconds unless a file blocks.
var patience = host.Patience(5 * time.Second)

// InspectMachine detects the TEEs and describes the machine. If a file blocks, the error names
// it; the blocked goroutine is abandoned.
func InspectMachine(h *host.Host) ([]tee.Detection, web.Platform, error) {
	var found []tee.Detection
	var p web.Platform
	done := make(chan struct{})
	go func() {
		defer close(done)
		found = tee.Detect(h, kinds.All)
		_ = contain.Call("describing the machine", func() error { p = describe(h, found); return nil }) // what is unknown is shown as such
	}()
	select {
	case <-done:
		return found, p, nil
	case <-time.After(patience):
		select {
		case <-done: // both were ready after the machine stood still
			return found, p, nil
		default:
		}
		return nil, web.Platform{}, fmt.Errorf("look at the machine: still waiting after %v for %s; a driver blocks, or a file system whose server is gone",
			patience, cmp.Or(strings.Join(h.Blocked(patience/2), ", "), "something other than a file"))
	}
}

// describe collects facts of the machine. An unreadable one stays empty, which the page
// shows as unknown.
func describe(h *host.Host, found []tee.Detection) web.Platform {
	text := func(name string) string { s, _ := h.ReadString(name); return s }
	lockdown, _ := machine.Chosen(text("/sys/kernel/security/lockdown"))
	hostname, err := machine.Hostname(h)
	if err != nil { // series, links and the page need a name: that of this container
		hostname = text("/proc/sys/kernel/hostname")
	}
	p := web.Platform{
		Hostname:   hostname,
		Kernel:     strings.TrimSpace(text("/proc/sys/kernel/ostype") + " " + text("/proc/sys/kernel/osrelease")),
		Arch:       runtime.GOARCH,
		OS:         machine.OS(h),
		Lockdown:   lockdown,
		Privileged: os.Geteuid() == 0,
		Version:    build.Version(),
	}
	info, _ := machine.ReadCPUInfo(h)
	p.CPUModel, _ = info.Value("model name")
	p.CPUs = info.Processors()
	meminfo, _ := machine.Meminfo(h)
	p.MemoryBytes = meminfo["MemTotal"]
	for _, d := range found {
		t := web.TEE{Kind: d.Kind.Name, Doc: d.Kind.Doc, State: string(d.State)}
		if d.State == tee.Here {
			t.Facts = &d.Facts
		} else if d.Err != nil {
			t.Reason = strings.TrimSuffix(d.Err.Error(), ": "+errors.ErrUnsupported.Error())
		}
		p.TEEs = append(p.TEEs, t)
	}
	return p
}

// Badge is the TEE of a machine in a few words.
func Badge(found []tee.Detection) string {
	var here, unknown, looked []string
	for _, d := range found {
		looked = append(looked, d.Kind.Name)
		switch d.State {
		case tee.Here:
			s := d.Facts.Kind
			if d.Facts.Variant != "" {
				s += " (" + d.Facts.Variant + ")"
			}
			s += " " + string(d.Facts.Role) + ", detected"
			if !d.Facts.Active {
				s += ", not active"
			}
			if d.Facts.Debug {
				s += ", DEBUG: not protected"
			}
			here = append(here, s)
		case tee.Unknown:
			unknown = append(unknown, d.Kind.Name)
		}
	}
	out := strings.Join(here, "; ")
	if out == "" {
		out = "none here (looked for " + strings.Join(looked, ", ") + ")"
	}
	if len(unknown) > 0 {
		out += "; could not tell: " + strings.Join(unknown, ", ")
	}
	return out
}
