package probe

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// TestReasonsNameNoFile: the reason of a source, which everybody who reaches the page reads, names no file of a user. The log
// does, once.
func TestReasonsNameNoFile(t *testing.T) {
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })
	secret := &fs.PathError{Op: "open", Path: "/root/.x/api-key-4711", Err: fs.ErrPermission}
	source := &Source{Name: "x", Doc: "Reads a file.", Metrics: []*metric.Desc{level}, Open: func(*host.Host, []tee.Facts) (Reader, error) {
		return readFunc(func(func(metric.Sample)) error {
			return &Problem{Err: fmt.Errorf("follow: %w", secret), Remedy: "run as root"}
		}), nil
	}}
	e := Open(clock(), nil, []*Source{source}, nil)
	for range 3 {
		e.Collect(t.Context())
	}
	if s := e.Status()[0]; s.Reason != "follow: open a file of a user: permission denied" || s.Remedy != "run as root" || s.State != Degraded {
		t.Errorf("%s: %s; %s", s.State, s.Reason, s.Remedy)
	}
	if n := strings.Count(log.String(), secret.Path); n != 1 {
		t.Errorf("the log names the file %d times:\n%s", n, log.String())
	}
}
