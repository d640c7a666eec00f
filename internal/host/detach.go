package host

import (
	"fmt"
	"os"
	"os/exec"
)

// Detach starts a command that outlives this program, in a session of its own and without
// input. What it prints goes to the file log.
func (h *Host) Detach(c Cmd, log string) error {
	out, err := os.Create(h.Path(log))
	if err != nil {
		return h.errAt(err)
	}
	defer out.Close()
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, out, out
	cmd.SysProcAttr = ownSession
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return cmd.Process.Release()
}
