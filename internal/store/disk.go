package store

// The data folder: its lock, its permissions, the names of its files, and the reserve that is given back when the disk
// is full.

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/store/repair"
)

// lockName is the file that the stock database also locks, so promtool and Prometheus
// respect this store. It holds the owner's process id while the store is open and is
// empty after a clean stop.
const lockName = "lock"

// ErrLocked means that another process has the store open.
var ErrLocked = errors.New("in use by another process")

// takeLock makes dir, checks that it is writable and locks it. unclean reports that the last owner did not close it.
func takeLock(dir string, log *slog.Logger) (lock *disk.File, unclean bool, err error) {
	if err := makeFolder(dir); err != nil {
		return nil, false, fmt.Errorf("make data directory: %w: choose one that this user may write", err)
	}
	name := filepath.Join(dir, lockName)
	for path, folder := range map[string]bool{name: false, filepath.Join(dir, repair.QuarantineName): true, filepath.Join(dir, queueName): true} {
		to, err := host.MoveAside(path, folder)
		if err != nil {
			return nil, false, err
		}
		if to != "" {
			log.Error("what was in the place of a file or folder of the store is set aside", "was", path, "is", to)
		}
	}
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return nil, false, fmt.Errorf("open data directory %s: %w: free some space there", dir, err)
		}
		return nil, false, fmt.Errorf("data directory %s is not writable: %w: change its owner or choose another", dir, err)
	}
	owner, _ := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(owner))
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, false, fmt.Errorf("lock %s: %w", name, err)
		}
		who := ""
		if pid != "" {
			who = ", process " + pid
		}
		return nil, false, fmt.Errorf("data directory %s: %w%s (lock file %s): stop it or choose another directory", dir, ErrLocked, who, name)
	}
	if err := writeLock(f, fmt.Sprintf("%d\n", os.Getpid())); err != nil {
		f.Close()
		return nil, false, fmt.Errorf("write %s: %w: free some space there", name, err)
	}
	closeFolder(dir, log)
	return f, pid != "", nil
}

// makeFolder makes a data folder that its owner alone may enter: what is measured, where results come from and what is sent is
// not for every user, who asks the page, where a password may be wanted.
func makeFolder(dir string) error {
	if fi, err := disk.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	if err := disk.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	return disk.MkdirAll(dir, 0o700)
}

// kept are the files and folders of a data folder, without what follows a dot; blocks are named by a ULID.
var kept = []string{lockName, formatName, "reserve", repair.LogName, repair.HeadName, repair.QuarantineName, queueName, "queue", "results", "calibration", "findings", "silences", "dashboards"}

// isOurs reports whether a folder has nothing but what teescope keeps in one: a home folder is not closed to others because its
// owner has a monitor write there.
func isOurs(dir string) bool {
	entries, err := disk.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		stem, _, _ := strings.Cut(e.Name(), ".")
		_, err := ulid.ParseStrict(stem)
		return err != nil && !slices.Contains(kept, stem)
	})
}

// closeFolder closes a data folder that everybody may read, as earlier versions made it. One whose mode its owner chose for a group
// stays, as does one that is not ours alone.
func closeFolder(dir string, log *slog.Logger) {
	fi, err := disk.Stat(dir)
	if err != nil || fi.Mode().Perm()&0o007 == 0 {
		return
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok && st.Uid == 0 && os.Geteuid() != 0 {
		return // a volume of a container: whoever mounts it decides
	}
	if !ok || int(st.Uid) != os.Geteuid() || !isOurs(dir) || os.Chmod(dir, 0o700) != nil {
		log.Warn("every user may read the data folder: chmod 700 it, or name another one", "folder", dir, "mode", fi.Mode().Perm().String())
		return
	}
	log.Warn("the data folder was open to every user; now only its owner may enter it (chmod 750 lets a group)", "folder", dir, "was", fi.Mode().Perm().String())
}

func writeLock(f *disk.File, text string) error {
	// A full disk may lack the block for a truncated and rewritten file, so the text is overwritten in place.
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}
