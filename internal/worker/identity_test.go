package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestIdentity: only the server that has the word passes, and whatever else answers is named.
func TestIdentity(t *testing.T) {
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	serving.Go(func() {
		Main(ctx, []string{"identity", "-listen", "127.0.0.1:0", "-word", "ours"}, strings.NewReader(""), w, io.Discard)
	})
	var ours string
	if _, err := fmt.Fscanf(bufio.NewReader(r), "listening %s\nready\n", &ours); err != nil {
		t.Fatal(err)
	}
	// other starts a server that is not ours: it says a text and closes, or is silent.
	other := func(says string, closes bool) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { l.Close() })
		serving.Go(func() {
			_ = serveEach(ctx, l, func(c net.Conn) {
				if _, _ = io.WriteString(c, says); !closes {
					_, _ = io.Copy(io.Discard, c)
				}
			})
		})
		return l.Addr().String()
	}
	for name, c := range map[string]struct{ address, word, wait, want string }{
		"ours":         {ours, "ours", "1h", ""},
		"another arm":  {ours, "theirs", "1h", `is answered by another program (answer: "ours`},
		"a Redis":      {other("-ERR unknown command\r\n", false), "ours", "1h", `(answer: "-ERR unknown command`},
		"half a line":  {other("our", true), "ours", "1h", `(answer: "our"`},
		"silent":       {other("", false), "ours", "50ms", "no answer from 127.0.0.1:"},
		"hangs up":     {other("", true), "ours", "50ms", "no answer from 127.0.0.1:"},
		"nobody":       {"127.0.0.1:1", "ours", "50ms", "no answer from 127.0.0.1:1 within 50ms"},
		"no word":      {ours, "", "1h", "want -word"},
		"no such time": {ours, "ours", "-1s", "above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := command(t.Context(), "identity", "-address", c.address, "-word", c.word, "-wait", c.wait)
			status := map[bool]int{true: exitOther, false: exitFailed}[strings.Contains(c.want, "(answer: ")]
			if c.want == "" {
				status = 0
			}
			if code != status || !strings.Contains(errs, c.want) || out != "" || strings.Count(errs, "\n") > 1 {
				t.Errorf("%s: status %d, %q, %q; want %q", name, code, out, errs, c.want)
			}
		})
	}
}
