package servers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Redis speaks RESP (https://redis.io/docs/latest/develop/reference/protocol-spec).
var Redis = App{
	Name:    "redis",
	Doc:     "Commands of Redis, Valkey and KeyDB, total_commands_processed of INFO; each question is one, and one more with a password",
	Address: "127.0.0.1:6379 or /run/redis/redis.sock",
	Check:   CheckSocket,
	Read: requests(askRedis, func(info map[string]string) (float64, error) {
		v, ok := info["total_commands_processed"]
		if !ok {
			return 0, errors.New("its INFO has no total_commands_processed")
		}
		return count(v)
	}),
	Ask: askRedis,
	Gauges: []string{"used_memory", "used_memory_rss", "used_memory_peak", "connected_clients", "maxclients", "instantaneous_ops_per_sec", "mem_fragmentation_ratio",
		"instantaneous_input_kbps", "instantaneous_output_kbps", "blocked_clients", "total_system_memory", "maxmemory", "used_memory_dataset", "used_memory_overhead", "io_threads_active"},
	Version: "redis_version",
}

// redisTimes are the server's CPU times in INFO.
var redisTimes = []string{"used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children", "used_cpu_sys_main_thread", "used_cpu_user_main_thread"}

func askRedis(ctx context.Context, q Question) (map[string]string, error) {
	c, err := q.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	if q.Password != "" {
		words := []string{"AUTH", q.User, q.Password}
		if q.User == "" {
			words = []string{"AUTH", q.Password}
		}
		if _, err := sendCommand(c, in, words...); err != nil {
			return nil, err
		}
	}
	words := []string{"INFO"}
	if q.Brief {
		words = append(words, "stats")
	}
	info, err := sendCommand(c, in, words...)
	said := readInfo(info)
	dropImpossible(said, "uptime_in_seconds", redisTimes...)
	return said, err
}

// readInfo reads lines "name:value" of an answer to INFO.
func readInfo(info []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(info)) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = v
		}
	}
	return out
}

// sendCommand sends a command and returns its answer.
func sendCommand(w io.Writer, r *bufio.Reader, words ...string) ([]byte, error) {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	return reply(r)
}

// longestInfo is a hundred times a usual answer to INFO.
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

// unexpected quotes an answer that is not the one wanted.
func unexpected(want string, got []byte, err error) error {
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !(errors.Is(err, io.EOF) && len(got) > 0) {
		return err
	}
	return fmt.Errorf("it says %.60q; want %s", got, want)
}
