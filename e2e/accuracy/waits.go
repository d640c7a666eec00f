package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed waits/waits.c
var waitsSource []byte

// waits counts a program's calls of epoll_wait in the program itself. A counter of the kernel would send every system call
// through the same slow path that the monitor's windows do, so windows would slow the program less than they do without it.
type waits struct{ library, file string }

// newWaits builds the library in dir.
func newWaits(ctx context.Context, dir string) (waits, error) {
	w := waits{filepath.Join(dir, "waits.so"), filepath.Join(dir, "waits")}
	source := filepath.Join(dir, "waits.c")
	if err := os.WriteFile(source, waitsSource, 0o600); err != nil {
		return w, err
	}
	if out, err := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", w.library, source).CombinedOutput(); err != nil {
		return w, fmt.Errorf("build the library that counts epoll_wait (it needs a C compiler, package gcc): %w\n%s", err, out)
	}
	return w, nil
}

// count has a command that has not started yet count its calls, from 0.
func (w waits) count(c *exec.Cmd) error {
	c.Env = append(os.Environ(), "LD_PRELOAD="+w.library, "WAITS="+w.file)
	return os.WriteFile(w.file, make([]byte, 8), 0o600)
}

// read returns the calls since the command started.
func (w waits) read() (float64, error) {
	b, err := os.ReadFile(w.file)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%s has %d bytes, want 8", w.file, len(b))
	}
	return float64(binary.NativeEndian.Uint64(b)), nil
}
