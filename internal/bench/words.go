package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/host"
)

// mostWord is the most bytes of an argument, or of a variable with its name, that the kernel passes to a program:
// MAX_ARG_STRLEN of include/uapi/linux/binfmts.h, 32 pages of 4 KiB, without the zero byte at the end.
const mostWord = 32<<12 - 1

// recordable says why a word cannot be passed on to a program and recorded in a result; nil if it can.
func recordable(word string) error {
	switch {
	case strings.Contains(word, "\x00"):
		return errors.New("the argument contains a zero byte, and the kernel would cut it there (execve(2))")
	case !utf8.ValidString(word):
		return errors.New(`the text is not UTF-8, so neither a result nor a container's configuration can store it; use a script that makes the bytes, as printf '\377' does`)
	}
	return nil
}

// passable says why the job's commands cannot reach every environment word by word; nil if they can. It is checked before
// anything starts, so no launcher has to.
func (j *Job) passable() error {
	commands := []host.Cmd{j.Inside}
	if j.Outside != nil {
		commands = append(commands, *j.Outside)
	}
	for _, c := range commands {
		if len(c.Argv) == 0 {
			return errors.New("run: empty command")
		}
		if c.Argv[0] == "" || strings.HasPrefix(c.Argv[0], "-") {
			return fmt.Errorf("run %q: the program's name is empty or looks like an option: give its path, ./NAME", c.Argv[0])
		}
		words := slices.Concat(c.Argv, []string{c.Dir})
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			words = append(words, name+"="+c.Env[name])
		}
		for _, word := range words {
			err := recordable(word)
			if len(word) > mostWord {
				err = fmt.Errorf("the argument has %d bytes, but the kernel passes at most %d: put it into a file", len(word), mostWord)
			}
			if err != nil {
				return fmt.Errorf("pass %.60q to %s: %w", word, c.Argv[0], err)
			}
		}
	}
	return nil
}
