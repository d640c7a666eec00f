package host

import (
	"errors"
	"fmt"
	"os"
	"path"
)

// MostSocketPath is how many bytes the path of a Unix socket has at most: sun_path has 108 with the NUL that ends it (unix(7)).
const MostSocketPath = 107

// CheckSocketPath refuses a path that is too long for a Unix socket, with the limit.
func CheckSocketPath(name string) error {
	if len(name) > MostSocketPath {
		return fmt.Errorf("%s has %d bytes, and the path of a Unix socket has at most %d", name, len(name), MostSocketPath)
	}
	return nil
}

// shortPlaces are where a folder has a short path: the first that this user may write to is used. The user's own folder of
// the session is first, then those for temporary files (file-hierarchy(7)).
func shortPlaces() []string {
	places := []string{"/tmp", "/run", "/var/tmp", "/dev/shm"}
	if own, ok := sessionFolder(); ok {
		places = append([]string{own}, places...)
	}
	return places
}

// sessionFolder returns the folder of this user's session, if there is one that is only this user's.
func sessionFolder() (string, bool) {
	own := os.Getenv("XDG_RUNTIME_DIR") // after su it may be another user's, who could replace what is made there
	uid, mode, ok := ownedBy(own)
	return own, path.IsAbs(own) && ok && mode.IsDir() && uid == os.Geteuid() && mode.Perm()&0o022 == 0
}

// ShortFolder returns a folder for files whose paths have a limit, such as sockets: folder itself, or if a path below it
// would be too long a new folder of the same name elsewhere, which only this user can enter. longest is the longest name of
// a file below it, and most the bytes that its path may have. Only small files belong there: the place may be in memory. The
// caller removes it.
func (h *Host) ShortFolder(folder, longest string, most int) (string, error) {
	fits := func(folder string) bool { return len(folder)+len("/")+len(longest) <= most }
	if fits(folder) {
		return folder, nil
	}
	var whys []error
	for _, place := range shortPlaces() {
		short := path.Join(place, path.Base(folder))
		if !fits(short) {
			whys = append(whys, fmt.Errorf("%s would be too long too", path.Join(short, longest)))
			continue
		}
		// Mkdir does not follow a link that someone else has put there: what exists is an error.
		err := os.Mkdir(h.Path(short), 0o700)
		if err == nil {
			return short, nil
		}
		whys = append(whys, h.errAt(err))
	}
	return "", fmt.Errorf("the path %s has %d bytes, at most %d are possible there, and no shorter folder can be made (set TMPDIR to a folder with a short path): %w",
		path.Join(folder, longest), len(path.Join(folder, longest)), most, errors.Join(whys...))
}

// MkdirShort makes a new folder as MkdirTemp does, but where paths below it have at most most bytes, as ShortFolder does.
func (h *Host) MkdirShort(prefix, longest string, most int) (string, error) {
	folder, err := h.MkdirTemp(prefix)
	if err != nil {
		return "", err
	}
	short, err := h.ShortFolder(folder, longest, most)
	if err != nil || short != folder {
		err = errors.Join(err, h.RemoveAll(folder))
	}
	return short, err
}
