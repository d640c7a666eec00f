package bench

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// mostScripts is how many interpreters are followed: Linux allows a script as interpreter, too, and env(1) names another.
const mostScripts = 4

// linkage tells whether a job's programs on this machine are static or dynamic. If it has both
// kinds, there is no one answer.
func linkage(h *host.Host, j Job) (string, error) {
	var form string
	for i, program := range slices.Concat(j.Inside.Argv[:1], j.Programs) {
		if i > 0 && strings.Contains(program, "/") {
			continue // a pattern of folders and libraries
		}
		data, err := j.program(h, program)
		if err != nil {
			return "", err
		}
		f, err := linked(h, j, program, data, mostScripts)
		switch {
		case err != nil:
			return "", err
		case form != "" && f != form:
			return "", fmt.Errorf("%s is %s, and %s is %s", path.Base(j.Inside.Argv[0]), form, program, f)
		}
		form = f
	}
	return form, nil
}

// program is the content of a program that a job starts: one of its files, or one of this machine.
func (j Job) program(h *host.Host, name string) ([]byte, error) {
	if own, ok := strings.CutPrefix(name, "{work}/"); ok {
		for _, f := range j.Files {
			if path.Clean(f.Name) == path.Clean(own) {
				return f.Content(h)
			}
		}
	}
	if !strings.Contains(name, "/") {
		found, err := h.LookPath(name)
		if err != nil {
			return nil, err
		}
		name = found
	}
	return h.ReadFile(name)
}

// linked is the form of a program, or of a script's interpreter.
func linked(h *host.Host, j Job, name string, data []byte, scripts int) (string, error) {
	if line, ok := bytes.CutPrefix(data, []byte("#!")); ok && scripts > 0 {
		first, _, _ := bytes.Cut(line, []byte("\n"))
		words := strings.Fields(string(first))
		if len(words) > 1 && path.Base(words[0]) == "env" {
			words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
		}
		if len(words) == 0 {
			return "", fmt.Errorf("the first line of %s names no interpreter", name)
		}
		next, err := j.program(h, words[0])
		if err != nil {
			return "", fmt.Errorf("the interpreter of %s: %w", name, err)
		}
		return linked(h, j, words[0], next, scripts-1)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("%s is neither a script nor an ELF program: %w", name, err)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return micro.Dynamic, nil
	}
	return micro.Static, nil
}
