package sources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// TestGramineFollows reads a log that grows, is cut in the middle of a line, and
// is rotated.
func TestGramineFollows(t *testing.T) {
	f := hosttest.Open(t, "testdata/gramine-none.txtar")
	r, err := gramine.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := r.(*gramineReader)
	if err := g.Follow([]string{"/logs/[a"}); err == nil {
		t.Error("a bad pattern is no error")
	}
	if err := g.Follow([]string{"/logs/*", "/logs/app.*"}); err != nil {
		t.Fatal(err)
	}
	entries := func() (v float64) {
		if err := r.Read(t.Context(), func(s metric.Sample) {
			if s.Desc == enclaveEntries {
				v += s.Value
			}
		}); err != nil && probe.Remedy(err) == "" {
			t.Fatal(err)
		}
		return v
	}
	block := func(n string) string {
		return "----- SGX stats for thread 1 -----\n  # of EENTERs:        " + n + "\n  # of EEXITs:         1\n"
	}
	text := ""
	for i, step := range []struct {
		more string
		cut  bool
		want float64
	}{
		{"", false, 0},
		{block("5"), false, 5},
		{"", false, 5},
		{strings.TrimSuffix(block("20"), "0\n  # of EEXITs:         1\n"), false, 5},
		{"0\n", false, 25},
		{block("3"), true, 28},
		{block("4"), false, 32},
	} {
		if step.cut {
			text = ""
		}
		text += step.more
		if err := f.Host.Install("/logs/app.log", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := entries(); got != step.want {
			t.Errorf("step %d: %v entries, want %v", i, got, step.want)
		}
	}
	if err := f.Host.RemoveAll("/logs"); err != nil {
		t.Fatal(err)
	}
	if got := entries(); got != 32 {
		t.Errorf("without the log: %v entries, want 32", got)
	}
}

// TestGramineNamesNoFile: what the page says of logs names the patterns of the configuration, and neither the files that match
// them nor what is in these. Only regular files are opened, and a search ends with its budget.
func TestGramineNamesNoFile(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "api-key-prod-4711.txt")
	if err := errors.Join(os.WriteFile(secret, []byte("----- SGX stats for thread 1 -----\n  # of EENTERs: hunter2\n"), 0o600), os.Symlink("/dev/zero", filepath.Join(dir, "zero-key")),
		syscall.Mkfifo(filepath.Join(dir, "fifo-key"), 0o600), os.Mkdir(filepath.Join(dir, "folder-key"), 0o755)); err != nil {
		t.Fatal(err)
	}
	many := t.TempDir()
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("private-%03d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		pattern, want string
		is            error
	}{
		{dir + "/api*", "a counter has no number", nil},
		{dir + "/zero*", "not a regular file", nil},
		{dir + "/fifo*", "not a regular file", nil},
		{dir + "/folder*", "not a regular file", nil},
		{many + "/p*", "300 files match " + many + "/p*: the first 256 are read", nil},
		{many + "/p*9", "no statistics of Gramine yet in the files that match", nil},
		{many + "/q*", "no file matches", nil},
		{"/" + strings.Repeat("*/", 30) + "*", "look for files that match", host.ErrStopped},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			r, err := gramine.Open(host.Local(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.(*gramineReader).Follow([]string{c.pattern}); err != nil {
				t.Fatal(err)
			}
			err = r.Read(t.Context(), func(metric.Sample) {})
			shown := host.PublicText(err)
			if !strings.Contains(shown, c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %q", c.pattern, shown)
			}
			for _, private := range []string{"4711", "key", "hunter2", "private"} {
				if strings.Contains(shown+probe.Remedy(err), private) {
					t.Errorf("%s: the page says %q", c.pattern, shown)
				}
			}
		})
	}
}

func FuzzGramine(f *testing.F) {
	f.Add([]byte("----- SGX stats for thread 1 -----\n  # of EENTERs:        11\n  # of EEXITs:         10\n  # of AEXs:           9\n  # of sync signals:   8\n  # of async signals:  7\n"), 20)
	f.Add([]byte("[P1] error: ----- SGX stats for thread 1 -----\r\n # of EENTERs: 18446744073709551615\n"), 3)
	f.Add([]byte("----- SGX stats for thread 1 -----\nx\n----- Total SGX stats for process 1 -----\n# of EENTERs: 5\n"), 60)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		var whole, parts gramineLog
		whole.feed(b)
		at = min(max(0, at), len(b))
		parts.feed(b[:at])
		parts.feed(b[at:])
		if whole.threads != parts.threads || whole.processes != parts.processes {
			t.Errorf("read at once %v and %v, in two parts %v and %v", whole.threads, whole.processes, parts.threads, parts.processes)
		}
		if !strings.Contains(string(b), "# of ") && whole.counted() != nil {
			t.Error("counters out of nothing")
		}
	})
}
