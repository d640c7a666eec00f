package host

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/locked"
)

// Bounds on what is kept of a program's output. A document of the tools in use has some hundred KiB.
const (
	MostKept = 4 << 20 // bytes of each stream where the command does not say: half of it the beginning, half the end
	mostLine = 1 << 20 // bytes of a line's text in Output.Lines
	maxLines = 100_000
)

// Kept takes a stream of any length and keeps its beginning and its end: each byte is copied once, and memory stays
// within Most bytes (0: MostKept).
type Kept struct {
	Most       int
	begin, end []byte
	next       int   // where end is overwritten next, once it is full
	total      int64 // bytes taken
}

func (k *Kept) Write(b []byte) (int, error) {
	half := cmp.Or(k.Most, MostKept) / 2
	n := len(b)
	k.total += int64(n)
	room := min(half-len(k.begin), len(b))
	k.begin, b = append(k.begin, b[:room]...), b[room:]
	b = b[max(0, len(b)-half):]
	room = min(half-len(k.end), len(b))
	k.end, b = append(k.end, b[:room]...), b[room:]
	for len(b) > 0 {
		copied := copy(k.end[k.next:], b)
		k.next, b = (k.next+copied)%half, b[copied:]
	}
	return n, nil
}

// Cut is how many bytes were left out between the beginning and the end.
func (k *Kept) Cut() int64 { return k.total - int64(len(k.begin)+len(k.end)) }

// Bytes are the bytes kept. A line that says so is where bytes were left out, so the rest does not read as a whole.
func (k *Kept) Bytes() []byte {
	out := k.begin
	if n := k.Cut(); n > 0 {
		out = fmt.Appendf(bytes.Clone(out), "\n[%d bytes are left out here]\n", n)
	}
	if len(k.end) == 0 {
		return out
	}
	return append(append(out[:len(out):len(out)], k.end[k.next:]...), k.end[:k.next]...)
}

// Cut is what was not kept of a program's output.
type Cut struct {
	Stdout, Stderr int64 // bytes
	Lines          int   // those that Output.Lines lacks, or has the beginning of
}

// String says it in words; "" where all was kept.
func (c Cut) String() string {
	var out []string
	for _, s := range []struct {
		name string
		n    int64
	}{{"standard output", c.Stdout}, {"standard error", c.Stderr}} {
		if s.n > 0 {
			out = append(out, fmt.Sprintf("%d bytes in the middle of %s", s.n, s.name))
		}
	}
	if c.Lines > 0 && out == nil {
		out = append(out, fmt.Sprintf("the arrival of %d lines", c.Lines))
	}
	return strings.Join(out, " and ")
}

// splitter cuts a stream into lines: each byte is looked at once, and of a line at most mostLine bytes are kept.
type splitter struct {
	tell func(line []byte, whole bool) // line is valid during the call
	find func(b []byte, c byte) int    // nil: bytes.IndexByte; a test counts
	part []byte                        // begin of the line in progress
	long bool                          // it is longer than part
}

func (s *splitter) write(b []byte) {
	find := s.find
	if find == nil {
		find = bytes.IndexByte
	}
	for len(b) > 0 {
		i := find(b, '\n')
		if i < 0 {
			s.add(b)
			return
		}
		if line := b[:i]; len(s.part) == 0 && !s.long && i <= mostLine {
			s.tell(line, true)
		} else {
			s.add(line)
			s.endLine()
		}
		b = b[i+1:]
	}
}

func (s *splitter) add(b []byte) {
	room := min(mostLine-len(s.part), len(b))
	s.part, s.long = append(s.part, b[:room]...), s.long || room < len(b)
}

func (s *splitter) endLine() {
	s.tell(s.part, !s.long)
	s.part, s.long = s.part[:0], false
}

// rest tells the last line if it has no end.
func (s *splitter) rest() {
	if len(s.part) > 0 {
		s.endLine()
	}
}

// Transcript collects what a program says, within bounds. Its methods may be called from several goroutines, except
// that each stream has one writer.
type Transcript struct {
	now    func() time.Duration // since the program's begin
	stderr Kept
	lines  locked.Value[transcript]
}

// transcript is what was said on standard output until now.
type transcript struct {
	stdout Kept
	lines  []Line
	text   int // bytes of lines
	cut    int // lines without their whole text
	split  splitter
	at     time.Duration // of the bytes being split
	awaits []awaited
}

// awaited is a line that someone waits for.
type awaited struct {
	line string
	said func()
}

// NewTranscript returns an empty one, which keeps at most most bytes of a stream (0: MostKept). now is the time since the
// program's begin.
func NewTranscript(most int, now func() time.Duration) *Transcript {
	t := &Transcript{now: now, stderr: Kept{Most: most}}
	s := t.lines.Lock()
	s.stdout.Most, s.split.tell = most, s.line
	t.lines.Unlock()
	return t
}

// Stdout takes bytes of standard output.
func (t *Transcript) Stdout(b []byte) (int, error) {
	at := t.now()
	s := t.lines.Lock()
	defer t.lines.Unlock()
	s.at = at
	s.split.write(b)
	return s.stdout.Write(b)
}

// Stderr takes bytes of standard error.
func (t *Transcript) Stderr(b []byte) (int, error) { return t.stderr.Write(b) }

// line takes a line of standard output.
func (s *transcript) line(b []byte, whole bool) {
	if len(s.lines) == maxLines || s.text+len(b) > MostKept {
		s.cut++
	} else {
		s.lines, s.text = append(s.lines, Line{s.at, string(b)}), s.text+len(b)
		if !whole {
			s.cut++
		}
	}
	for i := 0; i < len(s.awaits); {
		if a := s.awaits[i]; whole && string(b) == a.line {
			s.awaits = append(s.awaits[:i], s.awaits[i+1:]...)
			a.said()
			continue
		}
		i++
	}
}

// notifyOnLine calls f once the program has printed a line, or at once where it has.
func (t *Transcript) notifyOnLine(line string, f func()) {
	s := t.lines.Lock()
	defer t.lines.Unlock()
	for _, l := range s.lines {
		if l.Text == line {
			f()
			return
		}
	}
	s.awaits = append(s.awaits, awaited{line, f})
}

// LinePrinted is closed once the program has printed a line.
func (t *Transcript) LinePrinted(line string) <-chan struct{} {
	said := make(chan struct{})
	t.notifyOnLine(line, func() { close(said) })
	return said
}

// Lines are the lines so far.
func (t *Transcript) Lines() []Line {
	held := t.lines.Lock()
	defer t.lines.Unlock()
	return append([]Line(nil), held.lines...)
}

// FillOutput puts everything into the output of a program that has ended after a time.
func (t *Transcript) FillOutput(o *Output, wall time.Duration) {
	s := t.lines.Lock()
	defer t.lines.Unlock()
	s.at = wall
	s.split.rest()
	o.Wall, o.Lines = wall, s.lines
	o.Stdout, o.Stderr = s.stdout.Bytes(), t.stderr.Bytes()
	o.Cut = Cut{Stdout: s.stdout.Cut(), Stderr: t.stderr.Cut(), Lines: s.cut}
}

// writer makes a function an io.Writer for the pipes of package os/exec.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// ReadFrom is used by io.Copy. A large pipe lets a program that writes much go on while this process is not scheduled;
// without one (fs.pipe-max-size, or the user's share is used up) it only waits more often.
func (w writer) ReadFrom(r io.Reader) (n int64, err error) {
	const pipe, part = 1 << 20, 256 << 10
	if f, ok := r.(syscall.Conn); ok {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { enlargePipe(fd, pipe) })
		}
	}
	b := make([]byte, part)
	for {
		m, err := r.Read(b)
		if m > 0 {
			n += int64(m)
			if _, err := w(b[:m]); err != nil {
				return n, err
			}
		}
		if err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}
