package sources

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
	"github.com/teescope/teescope/internal/tee"
)

// TestCommandThatHangs: a reading does not wait for a command that never ends, no second one is
// started, and the command ends with the source.
func TestCommandThatHangs(t *testing.T) {
	defer func(was time.Duration) { firstAnswer = was }(firstAnswer)
	firstAnswer = time.Millisecond
	log := filepath.Join(t.TempDir(), "started")
	h := host.Local()
	now := time.Now()
	h.Now = func() time.Time { return now }
	c := &commands[string]{host: h, name: "it", every: time.Second, limit: time.Hour, ask: func(run runner) (string, error) {
		out, err := run([]string{"sh", "-c", "echo once >>" + log + "; exec sleep 600"})
		return string(out), err
	}}
	if _, err := c.latest(t.Context()); err == nil || !strings.Contains(err.Error(), "not answered yet") {
		t.Errorf("first reading: %v", err)
	}
	await.Event(t, "the command runs", func() error {
		if b, err := os.ReadFile(log); err != nil || len(b) == 0 {
			return fmt.Errorf("it has written %q, %w", b, err)
		}
		return nil
	})
	for range 3 {
		now = now.Add(time.Minute)
		if _, err := c.latest(t.Context()); err == nil {
			t.Error("an answer from a command that hangs")
		}
	}
	now = now.Add(2 * time.Hour) // past the time limit for the command
	if _, err := c.latest(t.Context()); probe.Remedy(err) == "" || !strings.Contains(err.Error(), "cannot be ended") {
		t.Errorf("past the limit: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "once\n" {
		t.Errorf("started %q, %v", b, err)
	}
	ended := c.state.Lock().ended
	c.state.Unlock()
	await.Event(t, "the command ends with the source", func() error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it runs on")
		}
	})
}

// TestCommandPastItsTime: a command that takes too long is ended and named, and runs again when
// it is due; until then, no earlier answer is shown.
func TestCommandPastItsTime(t *testing.T) {
	h := host.Local()
	now := time.Now()
	h.Now = func() time.Time { return now }
	script := "echo one"
	c := &commands[string]{host: h, name: "it", every: time.Minute, limit: 50 * time.Millisecond, ask: func(run runner) (string, error) {
		out, err := run([]string{"sh", "-c", script})
		return strings.TrimSpace(string(out)), err
	}}
	defer c.Close()
	defer func(was time.Duration) { firstAnswer = was }(firstAnswer)
	firstAnswer = time.Millisecond // as in every later reading
	again := func() (string, error) {
		now = now.Add(time.Minute)
		_, _ = c.latest(t.Context())
		ended := c.state.Lock().ended
		c.state.Unlock()
		<-ended
		return c.latest(t.Context())
	}
	c.limit = time.Hour // longer than any test waits
	if s, err := again(); s != "one" || err != nil {
		t.Fatalf("%q, %v", s, err)
	}
	script, c.limit = "exec sleep 600", 50*time.Millisecond
	if s, err := again(); s != "" || err == nil || !strings.Contains(err.Error(), "was ended after") {
		t.Errorf("%q, %v", s, err)
	}
	script, c.limit = "echo odd >&2; exit 3", time.Hour
	if _, err := again(); err == nil || !strings.Contains(err.Error(), "exit status 3: odd") {
		t.Errorf("%v", err)
	}
	script = "echo two"
	if s, err := again(); s != "two" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if c.spent() == 0 {
		t.Error("four commands have cost nothing")
	}
}

func TestMissingCommand(t *testing.T) {
	c := &commands[string]{host: host.Local(), name: "nosuch", install: "install it", every: time.Minute, limit: time.Minute,
		ask: func(run runner) (string, error) {
			out, err := run([]string{"no-such-command-7c1"})
			return string(out), err
		}}
	defer c.Close()
	if _, err := c.latest(t.Context()); probe.Remedy(err) != "install it" || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v (%s)", err, probe.Remedy(err))
	}
}

// TestNVIDIASmi runs the driver's own tool if it is installed.
func TestNVIDIASmi(t *testing.T) {
	h := host.Local()
	out, err := h.Exec(t.Context(), host.Cmd{Argv: tee.NVIDIAQuery})
	if err != nil {
		probetest.Skip(t, "graphics cards", err)
	}
	log, err := tee.ParseNVIDIA(out.Stdout)
	if err != nil || len(log.GPUs) == 0 || log.Driver == "" {
		t.Fatalf("%+v, %v", log, err)
	}
	for _, g := range log.GPUs {
		if _, ok := g.Memory.Total.Value(); !ok || g.UUID == "" {
			t.Errorf("%+v", g)
		}
	}
}

// TestRAPLCounter: the counter continues after a wrap, and restarts after a reset to zero.
func TestRAPLCounter(t *testing.T) {
	const limit = 1000
	var c raplCounter
	for i, step := range []struct{ read, want uint64 }{{900, 900}, {990, 990}, {10, 1010}, {10, 1010}, {500, 1500}, {3, 3}, {4, 4}} {
		if got := c.add(step.read, limit); got != step.want {
			t.Errorf("reading %d of %d: %d, want %d", i, step.read, got, step.want)
		}
	}
}

// TestEnergyForbidden: the error names what only root may read, with a remedy.
func TestEnergyForbidden(t *testing.T) {
	f := hosttest.Open(t, "testdata/energy-client.txtar")
	f.Host.Faults = map[string]error{"/sys/class/powercap/intel-rapl:0/energy_uj": fs.ErrPermission}
	samples, err := readOnce(t, &energy, f)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(probe.Remedy(err), "CAP_DAC_READ_SEARCH") {
		t.Errorf("%v (%s)", err, probe.Remedy(err))
	}
	if len(samples) != 3 {
		t.Errorf("%d samples of the zones that may be read, want 3", len(samples))
	}
}

func TestRAPLZones(t *testing.T) {
	used := map[string]int{}
	for _, z := range []struct {
		name  string
		desc  *metric.Desc
		index int
	}{
		{"package-1", raplZones["package"], 1}, {"package-0", raplZones["package"], 0}, {"dram", raplZones["dram"], 0}, {"dram", raplZones["dram"], 1},
		{"package-0-die-1", raplZones["package"], 1}, {"fabric", nil, 0}, {"", nil, 0},
	} {
		t.Run(z.name, func(t *testing.T) {
			if d, i := raplZone(z.name, used); d != z.desc || i != z.index {
				t.Errorf("%s: %v %d, want %v %d", z.name, d, i, z.desc, z.index)
			}
		})
	}
}

// TestInterruptCounts simulates the changes between readings.
func TestInterruptCounts(t *testing.T) {
	table := irqTable{file: "/proc/interrupts", desc: irqs, label: irqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
	root := t.TempDir()
	table.host = host.At(root)
	if err := os.MkdirAll(root+"/proc", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		when, text string
		want       float64
	}{
		{"start", " CPU0 CPU1\nLOC: 4294967290 5 x", 4294967295},
		{"one more", " CPU0 CPU1\nLOC: 4294967291 5 x", 4294967296},
		{"a CPU's count wraps", " CPU0 CPU1\nLOC: 4 5 x", 4294967305},
		{"a CPU is taken out", " CPU0\nLOC: 6 x", 4294967305},
		{"alone", " CPU0\nLOC: 16 x", 4294967315},
		{"it is back", " CPU0 CPU1\nLOC: 20 5 x", 4294967315},
		{"both", " CPU0 CPU1\nLOC: 20 6 x", 4294967316},
		{"the line is gone", " CPU0 CPU1\n", -1},
		{"and is back, from zero", " CPU0 CPU1\nLOC: 1 1 x", 4294967318},
		{"counts again", " CPU0 CPU1\nLOC: 1 2 x", 4294967319},
	} {
		t.Run(step.text, func(t *testing.T) {
			if err := os.WriteFile(root+"/proc/interrupts", []byte(strings.TrimSuffix(step.text, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			got := -1.0
			if _, err := table.read(func(s metric.Sample) { got = s.Value }); err != nil {
				t.Fatalf("%s: %v", step.when, err)
			}
			if got != step.want {
				t.Errorf("%s: %v, want %v", step.when, got, step.want)
			}
		})
	}
}

func TestDeviceNames(t *testing.T) {
	for name, want := range map[string]string{
		"nvme0q12": "nvme0q", "eth0-TxRx-3": "eth0-TxRx", "virtio1-input.0": "virtio1-input", "mlx5_comp7@pci:0000:17:00.0": "mlx5_comp",
		"i8042": "i8042", "rtc0": "rtc0", "virtio0-config": "virtio0-config", "PCIe PME, aerdrv": "PCIe PME, aerdrv", "": "",
	} {
		t.Run(name, func(t *testing.T) {
			if got := withoutQueue(name); got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		})
	}
}

// FuzzDevices feeds the parsers of device files and of tools' output.
func FuzzDevices(f *testing.F) {
	for _, s := range []string{"", " CPU0 CPU1\n 24: 1 2 IO-APIC 5-edge ttyS0\nERR: 0\n", `[{"EnclaveID":"i-0-enc1","NumberOfCPUs":2,"Flags":"DEBUG_MODE"}]`,
		`[{"EnclaveID":1}]`, "null", "7fb0\n0\n", "package-0-die-1", "CPU0\n99999999999999999999: 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseEnclaves(b)
		if err != nil && list != nil {
			t.Fatalf("enclaves %v beside %v", list, err)
		}
		series := map[string]bool{}
		sendEnclaves(func(s metric.Sample) {
			key := s.Desc.Name + strings.Join(s.Labels, "\x00")
			if series[key] {
				t.Fatalf("%q is emitted twice", key)
			}
			series[key] = true
		}, list)
		if len(series) > 3*(maxEnclaves+1)+10 {
			t.Fatalf("%d series", len(series))
		}
		table := irqTable{label: irqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
		if _, _, err := parseIRQs("interrupts", b, func(name, text string, n uint64, _ bool) { table.sum(table.label(name, text)).next += n }); err == nil && len(table.order) > 2*maxIRQs {
			t.Fatalf("%d series", len(table.order))
		}
		if n, err := countCalls(string(b)); err == nil && n < 0 {
			t.Fatalf("%d calls", n)
		}
		if _, i := raplZone(string(b), map[string]int{}); i < 0 {
			t.Fatalf("zone number %d", i)
		}
	})
}

// BenchmarkInterrupts measures parsing a large machine's table: 128 CPUs and 400 lines.
func BenchmarkInterrupts(b *testing.B) {
	text := []byte(strings.Repeat(" CPU0", 128) + "\n" + strings.Repeat("123:"+strings.Repeat("    1234567", 128)+"  PCI-MSIX-0000:01:00.0   1-edge      nvme0q1\n", 400))
	table := irqTable{label: irqLabels, sums: map[string]*irqSum{}, kinds: map[bool]int{}}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := parseIRQs("interrupts", text, func(name, text string, n uint64, _ bool) { table.sum(table.label(name, text)).next += n }); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNameCutInALetter: all sources report the same name if the kernel cuts it inside a letter.
func TestNameCutInALetter(t *testing.T) {
	const path = "/usr/bin/fourteen-bytes\u00e9" // the letter is bytes 15 and 16
	stat := "7 (fourteen-bytes\xc3) S" + strings.Repeat(" 0", 30)
	name, _, ok, _ := parseStat("stat", stat)
	if gpu := processName(path); !ok || metric.Label(name) != `fourteen-bytes\xc3` || gpu != name {
		t.Errorf("%q by the kernel, %q by the driver", name, gpu)
	}
}
