package observe

import "testing"

// TestNotRoot: root is not told to become root.
func TestNotRoot(t *testing.T) {
	const refused = "root is refused, too: by the limits of a container, by a security module (SELinux, AppArmor), or by a process that nobody may trace"
	for in, want := range map[string]string{
		"":            "",
		"mount it":    "mount it",
		"run as root": refused,
		"run as root; a replaced library is hooked after the process that uses the old library restarts": refused + "; a replaced library is hooked after the process that uses the old library restarts",
		"run as root, or grant CAP_BPF and CAP_PERFMON":                                                  "grant CAP_BPF and CAP_PERFMON",
		"run as root or with CAP_DAC_READ_SEARCH; since Linux 5.10":                                      "grant CAP_DAC_READ_SEARCH; since Linux 5.10",
		"run as root with debugfs mounted, or name its socket":                                           "have debugfs mounted, or name its socket",
	} {
		t.Run(in, func(t *testing.T) {
			if got := notRoot(in); got != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		})
	}
}
