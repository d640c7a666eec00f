package observe

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

// Settle gives back what only the start needed: garbage such as the kernel's types, and pages that were
// read for it of the program's file and of files in folder, the store's ("" for none). A page that is needed after all is
// mapped again from the page cache.
func Settle(folder string) {
	debug.FreeOSMemory()
	b, err := host.Local().ReadFile("/proc/self/maps")
	if err != nil {
		return // it then stays as it is
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	if folder != "" {
		if folder, err = filepath.Abs(folder); err == nil {
			folder, err = filepath.EvalSymlinks(folder)
		}
		if err != nil {
			return
		}
		folder += "/"
	}
	for _, m := range probe.ParseMappings(b) {
		if !m.Write && (m.Path == self || folder != "" && strings.HasPrefix(m.Path, folder)) { // nothing is lost that the file does not hold
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.End-m.Start), unix.MADV_DONTNEED)
		}
	}
}
