package sources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// unhooked names what could not be hooked: in words, by its file, or both. A file that another user's process maps may have
// any path, which only the log shows.
type unhooked struct{ words, file string }

// text names it, with the file if all is set or the path is public.
func (u unhooked) text(all bool) string {
	switch {
	case u.file == "" || !all && !host.IsPublic(u.file):
		return cmp.Or(u.words, "a file of a user")
	case u.words == "":
		return u.file
	}
	return u.words + ", " + u.file
}

// reasons are why something is not hooked.
type reasons map[unhooked]string

// problem names the first of several kinds of reasons, and how many more there are; nil if there are none.
func problem(doing string, kinds ...reasons) error {
	write := func(all bool) string {
		var lines []string
		for _, kind := range kinds {
			for _, what := range slices.SortedFunc(maps.Keys(kind), func(a, b unhooked) int { return cmp.Compare(a.text(true), b.text(true)) }) {
				lines = append(lines, what.text(all)+": "+kind[what])
			}
		}
		text := doing + ": " + strings.Join(lines[:min(3, len(lines))], "; ")
		if n := len(lines) - 3; n > 0 {
			text += fmt.Sprintf("; and %d more", n)
		}
		return text
	}
	for _, kind := range kinds {
		if len(kind) > 0 {
			return &host.Private{Text: write(true), Shown: write(false)}
		}
	}
	return nil
}
