package bench

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// toolchain says what a program was built with: Go's build information, or the
// compiler's note in the .comment section of an ELF file; "" if there is neither.
func toolchain(program []byte) string {
	if b, err := buildinfo.Read(bytes.NewReader(program)); err == nil {
		for _, s := range b.Settings {
			if s.Key == "vcs.time" {
				return b.GoVersion + ", commit of " + s.Value
			}
		}
		return b.GoVersion
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return ""
	}
	s := f.Section(".comment")
	if s == nil {
		return ""
	}
	text, err := s.Data()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 }), "; "))
}

// workers say for each program of a job how and when it was built.
func workers(h *host.Host, j Job) map[string]string {
	out := map[string]string{}
	for _, f := range j.Files {
		if !f.Exec {
			continue
		}
		b, err := f.Content(h)
		if err != nil {
			continue
		}
		says := []string{"date not known"}
		if f.Data != nil {
			says[0] = "part of this program"
		} else if fi, err := h.Stat(f.From); err == nil {
			says[0] = "file of " + fi.ModTime().UTC().Format(time.DateTime)
		}
		if t := toolchain(b); t != "" {
			says = append([]string{t}, says...)
		}
		out[f.Name] = strings.Join(says, "; ")
	}
	return out
}

// armCommand is a tool's command in an arm.
func (s *session) armCommand(t Tool, label string) string {
	for i := range s.Arms {
		if s.Arms[i].Label == label {
			return t.command(s.params(&s.Cases[0], &s.Arms[i]))
		}
	}
	return t.Command
}

// askInside adds what only programs inside an environment can report: the versions of the
// workload's tools, and the mode of NVIDIA cards. A program that does not answer is
// left out, and so is a tool that not all arms need: its version would be one more
// difference between them.
func (s *session) askInside(ctx context.Context, env Environment, rec *result.Environment) {
	for _, t := range s.Workload.Tools {
		if t.Load || slices.ContainsFunc(s.Arms, func(a Arm) bool { return !t.neededFor(s.params(&s.Cases[0], &a)) }) {
			continue
		}
		command := s.armCommand(t, rec.ID)
		out, _ := env.Run(ctx, Job{Inside: host.Cmd{Argv: []string{command, "--version"}}})
		if v := firstWords(out.Inside.Stdout); v != "" {
			if rec.Software.Versions == nil {
				rec.Software.Versions = map[string]string{}
			}
			rec.Software.Versions[t.Command] = v
		}
	}
	if len(rec.Hardware.GPUs) == 0 {
		return
	}
	smi, err := env.Run(ctx, Job{Inside: host.Cmd{Argv: []string{"nvidia-smi", "-q", "-x"}}})
	if err != nil {
		return
	}
	mode, _ := env.Run(ctx, Job{Inside: host.Cmd{Argv: []string{"nvidia-smi", "conf-compute", "-f"}}})
	if gpus, err := environment.GPUs(smi.Inside.Stdout, mode.Inside.Stdout); err == nil && len(gpus) > 0 {
		rec.Hardware.GPUs = gpus
	}
}

// firstWords is the first nonempty line.
func firstWords(b []byte) string {
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			return line[:min(len(line), 80)]
		}
	}
	return ""
}
