//go:build measure

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
)

// ruleOf names the rule that is about a cause of workloads/causes.
var ruleOf = map[string]string{
	"storm": "syscall_storm", "memory": "page_fault_storm", "lock": "lock_contention", "handshake": "tls_handshakes",
}

// slow is a program that spends known shares of its time in known causes.
type slow struct {
	name   string
	shares map[string]float64 // requested
}

// seconds is how long it runs: until the standard error of its shares is about a point. Running
// is sampled 97 times a second and waiting 20 times. Threads wait for a lock in bursts, two or
// three at once, so most samples of a small share see nothing, and it needs four times as long.
func (p slow) seconds() int {
	if share := p.shares["lock"]; 0 < share && share < 0.45 {
		return 120
	}
	return 30
}

// draw gives each cause its own program with a random share of 10 to 60 %. Two of the four have a
// second cause, smaller by at least 10 points, so the first is clear.
func draw(r *rand.Rand) (out []slow) {
	causes := []string{"storm", "memory", "lock", "handshake"}
	between := func(low, high float64) float64 { return low + (high-low)*r.Float64() }
	r.Shuffle(len(causes), func(i, j int) { causes[i], causes[j] = causes[j], causes[i] })
	for i, cause := range causes {
		p := slow{shares: map[string]float64{cause: between(0.1, 0.6)}}
		if i < len(causes)/2 {
			p.shares[cause] = between(0.25, 0.6)
			second := causes[(i+1+r.IntN(len(causes)-1))%len(causes)]
			p.shares[second] = between(0.1, min(p.shares[cause]-0.1, 0.9-p.shares[cause]))
		}
		out = append(out, p)
	}
	return out
}

// seed chooses the programs of TestCauses and the order of their slices.
var seed = flag.Uint64("seed", 13, "choose the programs of TestCauses by this number; 0 takes a new one each time")

// attempts bounds how often a program runs until the machine leaves it enough CPU time.
const attempts = 6

// TestCauses: in programs of random names, slow for causes that it does not know, teescope names the first cause, states each share to
// 5 points, leaves at most a fifth of the time unexplained, and passes its own consistency checks.
func TestCauses(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "causes")
	if out, err := exec.Command(tool(t, "cc", "gcc"), "-O2", "-pthread", "-o", exe, "../workloads/causes/causes.c", "-lssl", "-lcrypto").CombinedOutput(); err != nil {
		if strings.Contains(string(out), "openssl/") {
			t.Skip("the headers of OpenSSL are not installed (package libssl-dev)")
		}
		t.Fatalf("compile causes.c: %v\n%s", err, out)
	}
	drawn := *seed
	if drawn == 0 {
		drawn = rand.Uint64()
	}
	t.Logf("seed %d", drawn)
	r := rand.New(rand.NewPCG(drawn, 0))
	programs := draw(r)
	for n := 1; len(programs) > 0; n++ {
		if n > attempts {
			t.Fatalf("%d programs could not be judged in any of %d attempts: run the test on a machine that has nothing else to do", len(programs), attempts)
		}
		if n > 1 {
			unitCosts.forget() // the machine may have been slower when they were measured
		}
		m := startMonitor(t, "monitor")
		var all []*causes // each asleep until it is its turn
		for i := range programs {
			p := &programs[i]
			p.name = fmt.Sprintf("%c%07x", 'g'+r.IntN(20), r.Uint32()>>4)
			all = append(all, startCauses(t, exe, "--name", p.name, "--seconds", fmt.Sprint(p.seconds()), "--seed", fmt.Sprint(1+r.Uint64N(1<<63)), "--shares", p.flag()))
		}
		time.Sleep(8 * time.Second) // libraries of new processes are found at a reading
		var again []slow
		for i, p := range programs {
			c := all[i]
			before := stolen(t)
			c.goOn(t)
			own := c.truth(t, 2*time.Duration(p.seconds())*time.Second)
			own.stolen = stolen(t) - before
			if why := p.judge(t, m, own); why != "" {
				t.Logf("%s is to run again: %s", p.name, why)
				again = append(again, p)
			}
			c.goOn(t)
		}
		m.Stop(syscall.SIGTERM)
		programs = again
	}
}

// forget makes the next monitor measure again.
func (k *kept) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = nil
}

// causes is the program, which waits for a line before it begins and before it ends.
type causes struct {
	*await.Program
}

func startCauses(t *testing.T, exe string, args ...string) *causes {
	t.Helper()
	c := exec.Command(exe, append(args, "--wait")...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := await.Converse(t, c).MayEnd()
	// Its own session with priority, so other programs do not become a cause (sched(7),
	// autogroups; without them this has no effect).
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", p.Process.Pid), []byte("-19"), 0o644)
	return &causes{p}
}

func (c *causes) goOn(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(c.In); err != nil {
		t.Fatal(err)
	}
}

// truth is the program's own account, by its own clocks.
type truth struct {
	ActiveSeconds float64 `json:"active_seconds"`
	QueuedSeconds float64 `json:"queued_seconds"`
	Shares        map[string]float64
	Events        map[string]float64
	pages         float64 // the share of touching pages, without giving them back
	stolen        float64 // seconds that other virtual machines took from this one's CPUs
}

// each is the time of one event of a cause in seconds.
func (own truth) each(cause string) float64 {
	share := own.Shares[cause]
	if cause == "memory" {
		share = own.pages
	}
	return share * own.ActiveSeconds / own.Events[cause]
}

// stolen returns for how many seconds in all this machine's CPUs had work and other virtual
// machines had the processor ("steal" in proc_stat(5)).
func stolen(t *testing.T) float64 {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	const ticks = 100 // a second, whatever the kernel's own (USER_HZ, time(7))
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		t.Fatalf("/proc/stat begins with %q", line)
	}
	n, err := strconv.ParseFloat(fields[8], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n / ticks
}

// truth waits for the program's own account, which it prints at its end.
func (c *causes) truth(t *testing.T, limit time.Duration) (own truth) {
	t.Helper()
	await.Event(t, "the program is through", func() error {
		for l := range strings.Lines(c.Out.String()) {
			if strings.HasPrefix(l, "{") {
				if err := json.Unmarshal([]byte(l), &own); err != nil {
					t.Fatalf("causes printed %q: %v", l, err)
				}
				return nil
			}
		}
		return fmt.Errorf("it printed %q", c.Out)
	})
	// What comes before and after a handshake is no part of it.
	own.Shares["handshake"], own.pages = own.Shares["handshake_inside"], own.Shares["memory_inside"]
	delete(own.Shares, "handshake_inside")
	delete(own.Shares, "memory_inside")
	return own
}

// starved is why the machine left the program too little CPU time to sample its shares to 5
// points, or "". The program's clock counts time that other virtual machines took, in which
// nothing can be sampled. Threads that take turns at a lock wait for a CPU also on a quiet
// machine, as they are more than its CPUs.
func (own truth) starved(p slow) string {
	queued := 0.05
	if p.shares["lock"] > 0 {
		queued = 0.3
	}
	switch {
	case own.ActiveSeconds < float64(p.seconds())/3:
		return fmt.Sprintf("it had work done for %.1f s in %d s", own.ActiveSeconds, p.seconds())
	case own.QueuedSeconds > queued*(own.QueuedSeconds+own.ActiveSeconds):
		// A program that waits this much for a CPU is shaped by the rest of the machine.
		return fmt.Sprintf("it waited %.1f s for a CPU, and had work done for %.1f s", own.QueuedSeconds, own.ActiveSeconds)
	case own.stolen > 0.03*own.ActiveSeconds:
		return fmt.Sprintf("other virtual machines took %.1f s, and it had work done for %.1f s", own.stolen, own.ActiveSeconds)
	}
	return ""
}

// flag is the shares in the program's notation.
func (p slow) flag() string {
	var out []string
	for cause, share := range p.shares {
		out = append(out, fmt.Sprintf("%s=%.3f", cause, share))
	}
	return strings.Join(out, ",")
}

// explanation is what the test reads of teescope explain --json.
type explanation struct {
	Explanations []struct {
		Tree struct {
			UnexplainedShare struct{ Value float64 }
			Rows             []struct {
				Rows []struct {
					ID   string
					Unit struct{ Low float64 }
				}
			}
			Checks []struct {
				Text                string
				Explained, Measured float64
				Holds               bool
			}
		}
		Causes []struct {
			Rule  string
			Share struct{ Value float64 }
		}
	}
	Problems []string
}

// priced names the row of a cause's events at the price that was calibrated.
var priced = map[string]string{"storm": "entry:getppid", "memory": "fault:write"}

// slower is why a price does not apply, or "": the machine was slower during calibration than
// during the program, for example because others used the other half of its core, so even the
// lowest price exceeds the time of an event by the program's own clock.
func (e explanation) slower(own truth) string {
	for cause, id := range priced {
		for _, row := range e.Explanations[0].Tree.Rows {
			for _, r := range row.Rows {
				if each := own.each(cause); r.ID == id && own.Shares[cause] > 0 && r.Unit.Low > each {
					return fmt.Sprintf("%s took %.3g ns in it, and at least %.3g ns when the machine was calibrated", id, each*1e9, r.Unit.Low*1e9)
				}
			}
		}
	}
	return ""
}

// judge compares teescope's explanation of a program that has ended with its own account. It
// returns why the run does not count: other programs used the machine.
func (p slow) judge(t *testing.T, m *monitor, own truth) (again string) {
	t.Helper()
	if why := own.starved(p); why != "" {
		return why
	}
	time.Sleep(6 * time.Second) // one more reading
	out, stderr, code := run(t, "explain", "--server", m.url, "--json", "--process", p.name, "--last", fmt.Sprintf("%ds", p.seconds()+8))
	var said explanation
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 0 || len(said.Explanations) != 1 {
		t.Errorf("%s (%s): exit status %d, %v\n%s%s", p.name, p.flag(), code, err, out, stderr)
		return ""
	}
	if why := said.slower(own); why != "" {
		return why
	}
	e := said.Explanations[0]
	share := map[string]float64{}
	first := ""
	for _, c := range e.Causes {
		share[c.Rule] = c.Share.Value
		if first == "" && c.Rule != "cpu_starvation" { // of the rest of the machine
			first = c.Rule
		}
	}
	t.Logf("%s: %s; %.1f s of work, %.1f s queued, %.1f s stolen; true %v; said %v, first %s, unexplained %.3f", p.name, p.flag(), own.ActiveSeconds, own.QueuedSeconds, own.stolen, own.Shares, share, first, e.Tree.UnexplainedShare.Value)
	// Only the program's own account counts: on a busy machine it misses the requested shares,
	// and two causes may become alike.
	largest := slices.Max(slices.Collect(maps.Values(own.Shares)))
	if !slices.ContainsFunc(slices.Collect(maps.Keys(own.Shares)), func(cause string) bool {
		return ruleOf[cause] == first && own.Shares[cause] > largest-0.05
	}) {
		t.Errorf("%s (%s): the first cause is said to be %q\n%+v", p.name, p.flag(), first, e.Causes)
	}
	for cause, rule := range ruleOf {
		off := share[rule] - own.Shares[cause]*own.ActiveSeconds/(own.ActiveSeconds+own.QueuedSeconds)
		if own.Shares[cause] > 0 {
			t.Logf("%s: %s is %+.1f points off", p.name, rule, off*100)
		}
		if math.Abs(off) > 0.05 {
			t.Errorf("%s (%s): %s is said to take %.1f %%, %.1f points off", p.name, p.flag(), rule, share[rule]*100, off*100)
		}
	}
	if u := e.Tree.UnexplainedShare.Value; math.Abs(u) > 0.2 {
		t.Errorf("%s (%s): %.1f %% is not explained", p.name, p.flag(), u*100)
	}
	if len(e.Tree.Checks) == 0 {
		t.Errorf("%s (%s): the explanation has no checks", p.name, p.flag())
	}
	for _, c := range e.Tree.Checks {
		if !c.Holds {
			t.Errorf("%s (%s): a check fails: %s: explained %.3f, measured %.3f cores", p.name, p.flag(), c.Text, c.Explained, c.Measured)
		}
	}
	return ""
}
