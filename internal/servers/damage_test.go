package servers

import (
	"bufio"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/mutate"
)

// TestDamagedAnswers: whatever is wrong with a server's answer, its count is a number that can be, or there is a reason;
// damage to a line that does not count changes nothing.
func TestDamagedAnswers(t *testing.T) {
	info := "# Server\r\nredis_version:7.0.15\r\n# Stats\r\ntotal_connections_received:17\r\ntotal_commands_processed:1234\r\ninstantaneous_ops_per_sec:3\r\n"
	for _, c := range []struct {
		name, answer, separators string
		counts                   string // in the lines that count
		read                     func(string) (float64, error)
	}{
		{"redis", info, ":\r", "total_commands_processed", func(s string) (float64, error) {
			v, ok := readInfo([]byte(s))["total_commands_processed"]
			if !ok {
				return 0, fmt.Errorf("it is not there")
			}
			return count(v)
		}},
		{"memcached", "STAT pid 7\r\nSTAT cmd_get 10\r\nSTAT cmd_set 5\r\nSTAT bytes 99\r\nEND\r\n", " \r", "", func(s string) (float64, error) {
			stats, err := memcachedStats(bufio.NewReader(strings.NewReader(s)))
			if err != nil {
				return 0, err
			}
			return memcachedRequests(stats)
		}},
		{"nginx", stub, " ", "", func(s string) (float64, error) {
			page, err := stubStatus(s)
			if err != nil {
				return 0, err
			}
			return count(page["requests"])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, err := c.read(c.answer)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			lines := strings.Split(c.answer, "\n")
			mutate.Try(t, c.name, []byte(c.answer), c.separators, func(m mutate.Mutation) error {
				v, err := c.read(string(m.Data))
				switch {
				case err != nil && err.Error() == "":
					return fmt.Errorf("no reason")
				case err == nil && (!(v >= 0) || v >= 1<<63 || math.IsInf(v, 0)):
					return fmt.Errorf("%v requests", v)
				case c.counts != "" && m.Line >= 0 && !strings.Contains(lines[m.Line], c.counts) && (err != nil || v != whole):
					return fmt.Errorf("%v requests, want %v: %v", v, whole, err)
				}
				return nil
			})
		})
	}
}
