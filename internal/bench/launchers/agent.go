package launchers

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// agent is the harness's end of the connection to `micro agent`, which runs jobs where there is
// no other way in; agent.c describes the frames. Programs run side by side.
type agent struct {
	out io.Writer
	// window is the most bytes of a request that may be in flight; 0: no limit.
	window           int
	machine, release string // uname(2)
	// began and greeted are times of its machine's clock: when it began as a guest's first program (otherwise 0), and when
	// it sent its greeting.
	began, greeted time.Duration

	asking  sync.Mutex  // held while a request is in flight
	replies chan answer // to it; closed when the connection is lost
	running locked.Value[programs]
}

// answer is a reply to a request.
type answer struct {
	tag  byte
	text []byte
}

// programs are those that run behind an agent.
type programs struct {
	by   map[byte]*remote // nil: the connection is lost
	last byte             // key
	lost error
}

const (
	agentVersion = 4
	// maxFrame limits the accepted length of a frame: the agent sends at most 64 KiB at
	// once.
	maxFrame = 1 << 20
)

// meetAgent reads the agent's greeting, and keeps reading until the connection ends.
func meetAgent(rw io.ReadWriter) (*agent, error) {
	a := &agent{out: rw, replies: make(chan answer, 1), running: locked.New(programs{by: map[byte]*remote{}})}
	in := bufio.NewReaderSize(rw, 1<<16)
	tag, b, err := receive(in)
	if err != nil {
		return nil, err
	}
	version := 0
	if n, _ := fmt.Sscanf(string(b), "%d %d %s %s %d %d", &version, &a.window, &a.machine, &a.release, &a.began, &a.greeted); tag != 'H' || n != 6 || version != agentVersion {
		return nil, fmt.Errorf("the worker's agent answered %q, want version %d", b, agentVersion)
	}
	go a.listen(in)
	return a, nil
}

func receive(in io.Reader) (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: read from the worker's agent: %w", errLost, err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: read from the worker's agent: a frame of %d bytes is too large", errLost, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		return 0, nil, fmt.Errorf("%w: read from the worker's agent: %w", errLost, err)
	}
	return head[0], b, nil
}

// listen distributes the agent's frames. At the end of the connection every program is lost.
func (a *agent) listen(in io.Reader) {
	var err error
	for err == nil {
		var tag byte
		var b []byte
		if tag, b, err = receive(in); err == nil {
			err = a.receive(tag, b)
		}
	}
	all := a.running.Lock()
	for _, r := range all.by {
		r.recordEnd(-1, fmt.Errorf("run %s: %w", r.name, err))
	}
	all.by, all.lost = nil, err
	a.running.Unlock()
	close(a.replies)
}

func (a *agent) receive(tag byte, b []byte) error {
	switch tag {
	case 'A', 'K', 'F':
		select {
		case a.replies <- answer{tag, b}:
			return nil
		default:
			return fmt.Errorf("%w: read from the worker's agent: frame %q answers no request", errLost, tag)
		}
	case 'o', 'e', 'Z':
	default:
		return fmt.Errorf("%w: read from the worker's agent: unexpected frame %q", errLost, tag)
	}
	all := a.running.Lock()
	defer a.running.Unlock()
	if len(b) == 0 || all.by[b[0]] == nil {
		return fmt.Errorf("%w: read from the worker's agent: frame %q belongs to no program", errLost, tag)
	}
	r := all.by[b[0]]
	if tag == 'Z' {
		delete(all.by, b[0])
		r.readEnd(b[1:])
		return nil
	}
	r.takeOutput(tag, b[1:])
	return nil
}

// request sends a request and waits until the agent has accepted it.
func (a *agent) request(tag byte, fields []byte) error {
	a.asking.Lock()
	defer a.asking.Unlock()
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
		said, ok := <-a.replies
		switch {
		case !ok:
			held := a.running.Lock()
			defer a.running.Unlock()
			return held.lost
		case said.tag == 'K':
			return nil
		case said.tag == 'F':
			return errors.New(string(said.text))
		case len(b) == 0:
			return fmt.Errorf("%w: read from the worker's agent: the agent asks for more input than there is", errLost)
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

// field appends a frame within a request, followed by the zero byte that ends a string in C.
func field[T string | []byte](b []byte, tag byte, value T) []byte {
	return append(frame(b, tag, []byte(value)), 0)
}

func (a *agent) sendFile(name string, mode fs.FileMode, content []byte) error {
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
	r, err := a.start(c, began, now)
	if err != nil {
		return host.Output{Began: began, Code: -1}, err
	}
	return r.Wait()
}

// start starts a command, as run does.
func (a *agent) start(c host.Cmd, began time.Time, now func() time.Time) (*remote, error) {
	r := &remote{agent: a, name: c.Argv[0], since: func() time.Duration { return now().Sub(began) }, done: make(chan struct{}), out: host.Output{Began: began}}
	r.Transcript = host.NewTranscript(c.Most, r.since)
	all := a.running.Lock()
	if all.by == nil {
		defer a.running.Unlock()
		return nil, fmt.Errorf("run %s: %w", r.name, all.lost)
	}
	for all.last++; all.by[all.last] != nil; all.last++ { // the agent bounds their number
	}
	r.key = all.last
	all.by[r.key] = r
	a.running.Unlock()

	b := field(nil, 'k', []byte{r.key})
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
		all := a.running.Lock()
		delete(all.by, r.key)
		a.running.Unlock()
		return nil, fmt.Errorf("run %s: %w", r.name, err)
	}
	return r, nil
}

// remote is a program that runs behind an agent.
type remote struct {
	*host.Transcript
	agent *agent
	key   byte
	name  string
	since func() time.Duration
	done  chan struct{}
	// What it left behind; of the agent's listener until done is closed.
	out host.Output
	err error
}

// takeOutput takes a part of the program's output.
func (r *remote) takeOutput(tag byte, b []byte) {
	if tag == 'e' {
		_, _ = r.Stderr(b)
		return
	}
	_, _ = r.Stdout(b)
}

// recordEnd records the end of the program, or of the connection to it.
func (r *remote) recordEnd(code int, err error) {
	r.out.Code, r.err = code, err
	r.FillOutput(&r.out, r.since())
	close(r.done)
}

// readEnd reads how the program ended.
func (r *remote) readEnd(b []byte) {
	var code, signal int
	var user, system, rss int64
	if n, err := fmt.Sscan(string(b), &code, &signal, &user, &system, &rss); n != 5 {
		r.recordEnd(-1, fmt.Errorf("run %s: parse its exit status %q: %w", r.name, b, err))
		return
	}
	r.out.User, r.out.System = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
	r.out.MaxRSS = rss << 10
	switch {
	case signal != 0:
		r.recordEnd(code, fmt.Errorf("run %s: ended by signal %d", r.name, signal))
	case code != 0:
		r.recordEnd(code, fmt.Errorf("run %s: exit status %d", r.name, code))
	default:
		r.recordEnd(code, nil)
	}
}

// Done is closed when the program has ended, or is lost.
func (r *remote) Done() <-chan struct{} { return r.done }

// Wait waits for the end and returns what the program left behind.
func (r *remote) Wait() (host.Output, error) {
	<-r.done
	return r.out, r.err
}

// Stop ends the program's process group, and waits for the end.
func (r *remote) Stop() {
	select {
	case <-r.done:
		return
	default:
	}
	grace := field(nil, 't', strconv.FormatInt(jobGrace.Milliseconds(), 10))
	if r.agent.request('S', field(grace, 'k', []byte{r.key})) == nil { // else it is lost
		<-r.done
	}
}

// errLost says that the environment has gone, not the job.
var errLost = errors.New("the connection to the environment was lost")

// quit asks the agent to end; the agent does not answer.
func (a *agent) quit() error {
	if !a.asking.TryLock() {
		return errors.New("the worker's agent does not answer a request")
	}
	defer a.asking.Unlock()
	_, err := a.out.Write(frame(nil, 'Q', nil))
	return err
}

// placed maps the name of a file in the agent's work folder to its mode and digest.
type placed map[string]string

// placedFile is a file that the agent does not have yet.
type placedFile struct {
	name, id string
	mode     fs.FileMode
	data     []byte
}

// fresh returns those of a job's files that are not placed yet.
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
