//go:build measure

package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// In each block, redisRounds rounds of redisRequests requests are made over each of two networks in turn while bounce
// buffers are timed, and as many while they are not. redisDepth requests are under way at a time.
const redisRounds, redisRequests, redisDepth = 8, 256, 16

// The guest's ends of its two networks: only the first is behind bounce buffers.
var redisNetworks = []struct{ name, mac, address, options string }{
	{"bounced", "52:54:00:00:01:01", "10.1.0.15", "disable-legacy=on,iommu_platform=on"},
	{"plain", "52:54:00:00:01:02", "10.2.0.15", "disable-legacy=on"},
}

// serveRedis serves Redis on both networks, and a shell on the second, until Redis is shut down.
var serveRedis = Step{Name: "redis", Limit: 40 * time.Minute, Script: `for d in /sys/class/net/*; do
	case $(cat $d/address) in
	52:54:00:00:01:01) ip addr add 10.1.0.15/24 dev ${d##*/}; ip link set ${d##*/} up;;
	52:54:00:00:01:02) ip addr add 10.2.0.15/24 dev ${d##*/}; ip link set ${d##*/} up;;
	esac
done
ip addr
nc -ll -p 7000 -e /bin/sh &
redis-server --port 6379 --bind 0.0.0.0 --protected-mode no --save '' --dir /tmp
status=$?
kill $!
exit $status`}

// TestRedisBounceTime: the measured time of bounce buffers agrees with the truth of an interleaved experiment, the same requests to one
// Redis in a guest, over two networks of which one is behind bounce buffers and the other is not, as virtio then hands out the guest's
// own addresses. The truth is taken while nothing times them, in turn with the blocks in which they are.
func TestRedisBounceTime(t *testing.T) {
	files := withLibraries(t, tool(t, "redis-server", "redis-server"))
	ports, err := host.Local().FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	k := fetch(t, named(t, singleKernel))
	if list, err := k.Modules("virtio_net"); err == nil && len(list) == 0 { // it is in the cache from before this module was kept
		if err := os.Remove(filepath.Join(k.dir, "uname")); err != nil {
			t.Fatal(err)
		}
		k = fetch(t, named(t, singleKernel))
	}
	agent := Step{Name: startAgent.Name, Script: strings.Replace(startAgent.Script, "--budget 100%", "--budget 100% --privileges keep", 1)}
	g := &Guest{Kernel: k, Append: "swiotlb=force", Modules: []string{"virtio_net"}, Files: files, Steps: []Step{agent, serveRedis, stopAgent}}
	for i, n := range redisNetworks {
		forward := fmt.Sprintf("hostfwd=tcp:127.0.0.1:%d-%s:6379", ports[i], n.address)
		if n.name == "plain" {
			forward += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-%s:7000", ports[2], n.address)
		}
		g.QEMU = append(g.QEMU, "-netdev", fmt.Sprintf("user,id=%s,net=10.%d.0.0/24,%s", n.name, i+1, forward), "-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,%s", n.name, n.mac, n.options))
	}
	ctx, cancel := context.WithTimeout(t.Context(), guestTime)
	defer cancel()
	type outcome struct {
		found map[int]contrast
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		l := redisLoad{ctx: ctx, ports: ports}
		found, err := l.contrasts(1<<10, 16<<10)
		done <- outcome{found, errors.Join(err, l.shutDown())}
	}()
	r := boot(t, g)
	cancel() // a guest that ended early serves nobody
	o := <-done
	if o.err != nil {
		t.Fatalf("%v\n%s", o.err, r.Steps[serveRedis.Name].Text)
	}
	for size, c := range o.found {
		t.Logf("GET of %d KiB: a request takes %.0f us through bounce buffers and %.0f us without, so they take %.0f us [%.0f, %.0f]; timed %.1f us, of %.0f us while they are timed: %.1f %%, in truth %.1f %% [%.1f, %.1f]",
			size>>10, c.on, c.off, c.truth, c.low, c.high, c.timed, c.watched, 100*c.timed/c.watched, 100*c.truth/c.watched, 100*c.low/c.watched, 100*c.high/c.watched)
		const points = 0.05
		if off := math.Abs(c.timed-c.truth) / c.watched; !(c.timed > 0) || c.timed >= c.watched || off > points && (c.timed < c.low || c.timed > c.high) {
			t.Errorf("%d KiB: %.1f points off", size>>10, 100*off)
		}
	}
}

// redisLoad makes requests from outside the guest. The ports are those of Redis over both networks, and of the shell.
type redisLoad struct {
	ctx   context.Context
	ports []int
	redis [2]net.Conn
}

// contrasts measures answers of each size, in bytes.
func (l *redisLoad) contrasts(sizes ...int) (map[int]contrast, error) {
	for i := range l.redis {
		if err := l.connect(i); err != nil {
			return nil, fmt.Errorf("connect over the network %s: %w", redisNetworks[i].name, err)
		}
	}
	out := map[int]contrast{}
	for _, size := range sizes {
		var on, off, watched, seconds []float64
		if err := l.set(size); err != nil {
			return nil, err
		}
		if _, _, err := l.rounds(size); err != nil { // warm up
			return nil, err
		}
		for range truthBlocks {
			if _, err := l.shell("switched false ^0"); err != nil {
				return nil, err
			}
			bounced, plain, err := l.rounds(size)
			if err != nil {
				return nil, err
			}
			before, err := l.shell("switched true ^6; " + pool)
			if err != nil {
				return nil, err
			}
			timed, _, err := l.rounds(size)
			if err != nil {
				return nil, err
			}
			after, err := l.shell(pool)
			if err != nil {
				return nil, err
			}
			on, off, watched = append(on, bounced), append(off, plain), append(watched, timed)
			seconds = append(seconds, poolSeconds(after)-poolSeconds(before))
		}
		out[size] = contrastOf(on, off, watched, seconds, redisRounds*redisRequests)
	}
	return out, nil
}

// connect waits until Redis answers over a network: the emulator accepts connections before the guest does.
func (l *redisLoad) connect(i int) error {
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.ports[i]))
		if err == nil {
			l.redis[i] = c
			if _, err = l.ask(i, "PING\r\n", len("+PONG\r\n")); err == nil {
				return nil
			}
			_ = c.Close()
		}
		select {
		case <-l.ctx.Done():
			return errors.Join(l.ctx.Err(), err)
		case <-time.After(time.Second):
		}
	}
}

// ask sends commands and reads an answer of so many bytes.
func (l *redisLoad) ask(i int, commands string, bytes int) ([]byte, error) {
	c := l.redis[i]
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, commands); err != nil {
		return nil, err
	}
	answer := make([]byte, bytes)
	_, err := io.ReadFull(c, answer)
	return answer, err
}

func (l *redisLoad) set(size int) error {
	answer, err := l.ask(1, fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size)), len("+OK\r\n"))
	if err == nil && string(answer) != "+OK\r\n" {
		err = fmt.Errorf("SET answers %q", answer)
	}
	return err
}

// rounds makes the requests over each network in turn, and returns the seconds of each.
func (l *redisLoad) rounds(size int) (bounced, plain float64, err error) {
	commands := strings.Repeat("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", redisDepth)
	want := []byte(strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("x", size)), redisDepth))
	var took [2]float64
	for round := range redisRounds {
		for turn := range took {
			i := (round + turn) % len(took)
			began := time.Now()
			for range redisRequests / redisDepth {
				answer, err := l.ask(i, commands, len(want))
				if err == nil && !bytes.Equal(answer, want) {
					err = errors.New("GET answers something else")
				}
				if err != nil {
					return 0, 0, err
				}
			}
			took[i] += time.Since(began).Seconds()
		}
	}
	return took[0], took[1], nil
}

// shell runs a script in the guest over the network without bounce buffers.
func (l *redisLoad) shell(script string) (string, error) {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.ports[2]))
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, switched+script+" 2>&1; echo status $?; exit\n"); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	if err == nil && !strings.Contains(string(out), "status 0") {
		err = fmt.Errorf("%s in the guest: %s", script, out)
	}
	return string(out), err
}

// shutDown ends Redis, and so the step that serves it.
func (l *redisLoad) shutDown() error {
	if l.redis[1] == nil {
		return nil
	}
	_, err := io.WriteString(l.redis[1], "SHUTDOWN NOSAVE\r\n")
	return err
}

var poolLine = regexp.MustCompile(`(?m)^tee_swiotlb_seconds_total\S* (\S+)$`)

// poolSeconds sums the time of bounce buffers in the agent's metrics.
func poolSeconds(metrics string) (sum float64) {
	for _, m := range poolLine.FindAllStringSubmatch(metrics, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		sum += v
	}
	return sum
}

var libraryLine = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// withLibraries returns a program of this machine and the libraries that it is linked with, by their paths in a guest.
func withLibraries(t *testing.T, program string) map[string]string {
	t.Helper()
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		t.Fatalf("ldd %s: %v\n%s", program, err, out)
	}
	files := map[string]string{"/bin/redis-server": program}
	for _, m := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		files[m[1]] = m[1]
	}
	return files
}
