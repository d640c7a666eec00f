package kinds

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/app"
	"github.com/teescope/teescope/internal/host"
)

// redis speaks RESP (https://redis.io/docs/latest/develop/reference/protocol-spec).
var redis = app.App{
	Name:    "redis",
	Doc:     "Commands of Redis, Valkey and KeyDB, total_commands_processed of INFO; each question is one, and one more with a password",
	Address: "127.0.0.1:6379 or /run/redis/redis.sock",
	Check:   app.CheckSocket,
	Read: func(ctx context.Context, h *host.Host, t app.Target) (float64, error) {
		password, err := t.Password()
		if err != nil {
			return 0, err
		}
		c, err := app.Dial(ctx, h, t.Address)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		in := bufio.NewReader(c)
		if password != "" {
			words := []string{"AUTH", t.User, password}
			if t.User == "" {
				words = []string{"AUTH", password}
			}
			if _, err := ask(c, in, words...); err != nil {
				return 0, err
			}
		}
		info, err := ask(c, in, "INFO", "stats")
		if err != nil {
			return 0, err
		}
		return commandsOf(info)
	},
}

// ask sends a command and returns its answer.
func ask(w io.Writer, r *bufio.Reader, words ...string) ([]byte, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	return reply(r)
}

// longestInfo is a thousand times what INFO stats says.
const longestInfo = 1 << 20

// reply reads a simple or bulk string; an error reply is an error.
func reply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, unexpected("an answer", line, err)
	}
	kind, text := line[0], bytes.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+':
		return bytes.Clone(text), nil
	case '-':
		return nil, fmt.Errorf("it refuses: %.160q", text)
	case '$':
		n, err := strconv.Atoi(string(text))
		if err != nil || n < 0 || n > longestInfo {
			return nil, unexpected("a length", line, nil)
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return b, err
	}
	return nil, unexpected("an answer", line, nil)
}

// unexpected names what was said instead of what was wanted.
func unexpected(want string, got []byte, err error) error {
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !(errors.Is(err, io.EOF) && len(got) > 0) {
		return err
	}
	return fmt.Errorf("it says %.60q; want %s", got, want)
}

// commandsOf finds the counter in an answer to INFO.
func commandsOf(info []byte) (float64, error) {
	for line := range strings.Lines(string(info)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			return count(v)
		}
	}
	return 0, errors.New("its INFO has no total_commands_processed")
}

// count reads a whole number that a float64 holds exactly.
func count(s string) (float64, error) {
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil {
		return 0, fmt.Errorf("it counts %.60q; want a whole number", s)
	}
	return float64(n), nil
}
