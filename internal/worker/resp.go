package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Bounds of a command of the RESP protocol: these servers need no more.
const (
	mostWords = 16
	mostWord  = 64 << 10
)

// skipCommand reads and discards one command, an array of bulk strings (RESP2,
// https://redis.io/docs/latest/develop/reference/protocol-spec/).
func skipCommand(r *bufio.Reader) error {
	words, err := respLength(r, '*', mostWords)
	for ; words > 0 && err == nil; words-- {
		var size int
		if size, err = respLength(r, '$', mostWord); err == nil {
			_, err = r.Discard(size + len("\r\n"))
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // inside a command
		}
	}
	return err
}

// respLength reads a line with a sign and a number of at most most.
func respLength(r *bufio.Reader, sign byte, most int) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	if len(line) < len("*1\r\n") || line[0] != sign || line[len(line)-2] != '\r' {
		return 0, fmt.Errorf("line %.20q: want %c and a length", line, sign)
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("line %.20q: want a length of at most %d", line, most)
	}
	return n, nil
}

// serveEach serves every connection until ctx ends, which is not an error and ends them.
func serveEach(ctx context.Context, l net.Listener, serve func(net.Conn)) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accept a connection: %w", err)
		}
		serving.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // in the past
			defer end()
			defer c.Close()
			serve(c)
		})
	}
}

const pong = "+PONG\r\n"

// answerAll answers commands, each after its work, until the other end closes or the work fails.
// An invalid command ends the connection, like a client that leaves.
func answerAll(c net.Conn, work func() error) {
	r, w := bufio.NewReader(c), bufio.NewWriter(c)
	for {
		if skipCommand(r) != nil || work() != nil {
			return
		}
		if _, err := w.WriteString(pong); err != nil {
			return
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return
			}
		}
	}
}
