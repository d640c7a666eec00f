package machine

import (
	"slices"
	"strconv"
	"strings"
)

// Mount is one line of /proc/PID/mountinfo. Names are any bytes.
type Mount struct {
	ID, Parent   string // Parent: the mount that this one is on
	Device       string // number of the file system, "8:1"
	Root, Point  string
	Options      string // of the mount
	Type, Source string // Source may be empty
	Super        string // options of the file system
}

// ReadOnly reports whether nothing can be written below the mount, because it or its file system is read-only. After an
// error, ext4 may stop writing without becoming read-only (ext4_show_options in fs/ext4/super.c, since Linux 6.15).
func (m *Mount) ReadOnly() bool { return hasOption(m.Options, "ro") || m.SuperReadOnly() }

// SuperReadOnly reports whether the file system is read-only, however it is mounted.
func (m *Mount) SuperReadOnly() bool {
	return hasOption(m.Super, "ro") || m.Type == "ext4" && hasOption(m.Super, "emergency_ro")
}

// hasOption looks for an option without a value.
func hasOption(options, name string) bool { return slices.Contains(strings.Split(options, ","), name) }

// ParseMounts reads /proc/PID/mountinfo (proc_pid_mountinfo(5)). With the error, which lists the lines that are none, it
// returns the rest.
func ParseMounts(file string, b []byte) ([]Mount, error) {
	t := Text{File: file}
	var out []Mount
	for line := range t.Lines(b) {
		// ID PARENT DEVICE ROOT POINT OPTIONS TAGS... - TYPE SOURCE SUPER. One blank ends a field, because a field may be
		// empty.
		f := strings.Split(line, " ")
		at := -1
		if len(f) > 6 {
			at = slices.Index(f[6:], "-") + 6
		}
		if at < 6 || len(f) < at+4 || !strings.HasPrefix(f[4], "/") || f[at+1] == "" {
			t.Bad("%.60q is not a mount", line)
			continue
		}
		out = append(out, Mount{ID: f[0], Parent: f[1], Device: f[2], Root: unoctal(f[3]), Point: unoctal(f[4]), Options: f[5], Type: unoctal(f[at+1]), Source: unoctal(f[at+2]), Super: f[at+3]})
	}
	return out, t.Err()
}

// unoctal undoes the escapes of mountinfo: \040 for a space and the like.
func unoctal(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
			s = s[:i] + string([]byte{byte(v)}) + s[i+4:]
		}
	}
	return s
}
