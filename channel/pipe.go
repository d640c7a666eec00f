package channel

import (
	"io"
	"sync"
)

// Pipe is a connection within the process that holds up to size bytes in each
// direction. Each end has one reader and one writer at a time.
func Pipe(size int) (a, b io.ReadWriteCloser) {
	to, from := newRing(size), newRing(size)
	return &end{from, to}, &end{to, from}
}

// end is one end of a pipe.
type end struct{ in, out *ring }

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

// Close ends both directions. Written bytes can still be read.
func (e *end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// ring is one direction. Bytes are copied outside the lock: those between done and
// put belong to the reader, the others to the writer.
type ring struct {
	mu        sync.Mutex
	data      sync.Cond // there is something to read, or it is closed
	space     sync.Cond // there is room to write, or it is closed
	buf       []byte
	done, put uint64 // bytes that were read and written
	closed    bool
}

func newRing(size int) *ring {
	r := &ring{buf: make([]byte, size)}
	r.data.L, r.space.L = &r.mu, &r.mu
	return r
}

func (r *ring) read(p []byte) (int, error) {
	r.mu.Lock()
	for r.put == r.done && !r.closed && len(p) > 0 {
		r.data.Wait()
	}
	at, n := int(r.done%uint64(len(r.buf))), min(int(r.put-r.done), len(p))
	r.mu.Unlock()
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	first := copy(p[:n], r.buf[at:])
	copy(p[first:n], r.buf)
	r.mu.Lock()
	r.done += uint64(n)
	r.mu.Unlock()
	r.space.Signal()
	return n, nil
}

// stride is how many bytes are written before the reader is woken.
const stride = 64 << 10

func (r *ring) write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		r.mu.Lock()
		for r.put-r.done == uint64(len(r.buf)) && !r.closed {
			r.space.Wait()
		}
		if r.closed {
			r.mu.Unlock()
			return written, io.ErrClosedPipe
		}
		at, n := int(r.put%uint64(len(r.buf))), min(len(r.buf)-int(r.put-r.done), len(p)-written, stride)
		r.mu.Unlock()
		from := p[written : written+n]
		copy(r.buf, from[copy(r.buf[at:], from):])
		r.mu.Lock()
		r.put += uint64(n)
		r.mu.Unlock()
		r.data.Signal()
		written += n
	}
	return written, nil
}

func (r *ring) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.data.Broadcast()
	r.space.Broadcast()
}
