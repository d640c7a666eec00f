package launchers

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// agent is the harness's end of the conversation with `micro agent`, which runs jobs
// where there is no other way in; agent.c describes the frames.
type agent struct {
	in  *bufio.Reader
	out io.Writer
	// window is how many bytes of a request may be under way; 0 is any number.
	window           int
	machine, release string // uname(2)
}

const (
	agentVersion = 1
	// maxFrame limits the accepted length of a frame: the agent sends at most 64 KiB at
	// once.
	maxFrame = 1 << 20
	// maxLines bounds the lines kept of a talkative program; Stdout has all of them.
	maxLines = 100_000
)

// meetAgent reads the agent's first word.
func meetAgent(rw io.ReadWriter) (*agent, error) {
	a := &agent{in: bufio.NewReaderSize(rw, 1<<16), out: rw}
	tag, b, err := a.receive()
	if err != nil {
		return nil, err
	}
	version := 0
	if n, _ := fmt.Sscanf(string(b), "%d %d %s %s", &version, &a.window, &a.machine, &a.release); tag != 'H' || n != 4 || version != agentVersion {
		return nil, fmt.Errorf("the worker's agent said %q; want version %d", b, agentVersion)
	}
	return a, nil
}

func (a *agent) receive() (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: read from the worker's agent: %w", errLost, err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("read from the worker's agent: a frame of %d bytes is too large", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(a.in, b); err != nil {
		return 0, nil, fmt.Errorf("%w: read from the worker's agent: %w", errLost, err)
	}
	return head[0], b, nil
}

// request sends a request and waits until the agent has accepted it.
func (a *agent) request(tag byte, fields []byte) error {
	b := frame(nil, tag, fields)
	const head = 5
	first := len(b)
	if a.window > 0 {
		first = min(first, head+a.window)
	}
	if _, err := a.out.Write(b[:first]); err != nil {
		return fmt.Errorf("%w: write to the worker's agent: %w", errLost, err)
	}
	for b = b[first:]; ; {
		tag, text, err := a.receive()
		switch {
		case err != nil:
			return err
		case tag == 'K':
			return nil
		case tag == 'F':
			return errors.New(string(text))
		case tag != 'A':
			return fmt.Errorf("read from the worker's agent: unexpected frame %q", tag)
		}
		part := min(len(b), a.window)
		if _, err := a.out.Write(b[:part]); err != nil {
			return fmt.Errorf("%w: write to the worker's agent: %w", errLost, err)
		}
		b = b[part:]
	}
}

func frame(b []byte, tag byte, value []byte) []byte {
	b = append(b, tag)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// field is a frame within a request, ended by a zero byte for C's sake.
func field[T string | []byte](b []byte, tag byte, value T) []byte {
	return append(frame(b, tag, []byte(value)), 0)
}

func (a *agent) put(name string, mode fs.FileMode, content []byte) error {
	b := field(nil, 'n', name)
	b = field(b, 'm', fmt.Sprintf("%o", mode.Perm()))
	if err := a.request('P', field(b, 'c', content)); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// run runs a command to its end. Times count from began on the clock now. A status
// other than 0 is an error next to the output, as for a command of this machine; an
// unreachable agent is errLost.
func (a *agent) run(c host.Cmd, began time.Time, now func() time.Time) (host.Output, error) {
	out := host.Output{Began: began}
	var b []byte
	for _, arg := range c.Argv {
		b = field(b, 'a', arg)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		b = field(b, 'e', k+"="+c.Env[k])
	}
	if c.Dir != "" {
		b = field(b, 'd', c.Dir)
	}
	b = field(b, 'i', c.Stdin)
	if c.Ready != "" {
		b = field(field(b, 'r', c.Ready), 'q', c.Ask)
	}
	if err := a.request('X', b); err != nil {
		return out, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	from := 0
	line := func(at time.Duration, text []byte) {
		if len(out.Lines) < maxLines {
			out.Lines = append(out.Lines, host.Line{At: at, Text: string(text)})
		}
	}
	for {
		tag, b, err := a.receive()
		at := now().Sub(began)
		out.Wall = at
		switch {
		case err != nil:
			out.Code = -1
			return out, fmt.Errorf("run %s: %w", c.Argv[0], err)
		case tag == 'o':
			out.Stdout = append(out.Stdout, b...)
			for {
				i := bytes.IndexByte(out.Stdout[from:], '\n')
				if i < 0 {
					break
				}
				line(at, out.Stdout[from:from+i])
				from += i + 1
			}
		case tag == 'e':
			out.Stderr = append(out.Stderr, b...)
		case tag == 'Z':
			if from < len(out.Stdout) {
				line(at, out.Stdout[from:])
			}
			return out, ended(&out, c.Argv[0], b)
		default:
			return out, fmt.Errorf("run %s: unexpected frame %q", c.Argv[0], tag)
		}
	}
}

// ended reads how a program ended.
func ended(out *host.Output, program string, b []byte) error {
	var signal int
	var user, system, rss int64
	if n, err := fmt.Sscan(string(b), &out.Code, &signal, &user, &system, &rss); n != 5 {
		return fmt.Errorf("run %s: parse its exit status %q: %w", program, b, err)
	}
	out.User, out.System = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
	out.MaxRSS = rss << 10
	switch {
	case signal != 0:
		return fmt.Errorf("run %s: ended by signal %d", program, signal)
	case out.Code != 0:
		return fmt.Errorf("run %s: exit status %d", program, out.Code)
	}
	return nil
}

// errLost says that the environment has gone, not the job.
var errLost = errors.New("the connection to the environment was lost")

// quit asks the agent to end, which it does without an answer.
func (a *agent) quit() error {
	_, err := a.out.Write(frame(nil, 'Q', nil))
	return err
}

// placed says what lies at a name in the work folder behind an agent.
type placed map[string]string

// placedFile is a file that is not there yet.
type placedFile struct {
	name, id string
	mode     fs.FileMode
	data     []byte
}

// fresh reads those of a job's files that are not placed.
func (p placed) fresh(h *host.Host, files []bench.File) ([]placedFile, error) {
	var out []placedFile
	for _, f := range files {
		data, err := content(h, f)
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("%o %x", mode(f), sha256.Sum256(data))
		if p[f.Name] != id {
			out = append(out, placedFile{f.Name, id, mode(f), data})
		}
	}
	return out, nil
}
