package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
)

func bounced(c *Counters) map[string][2]uint64 {
	out := map[string][2]uint64{}
	BounceCounts{c}.ByDevice(func(device string, mappings, bytes uint64) { out[device] = [2]uint64{mappings, bytes} })
	return out
}

// Every kernel with bounce buffers accepts each variant of the tracepoint, whether or not it
// uses them.
func TestBounceAttaches(t *testing.T) {
	needKernel(t)
	for _, v := range Bounce.hooks[0].variants {
		t.Run(v.program, func(t *testing.T) {
			one := *Bounce
			one.hooks = []hook{{name: hookBounced, variants: []variant{v}}}
			c, err := one.Open(local)
			if confidential() && v.program != "bounced_nameless" {
				if err == nil {
					t.Error(errors.Join(errors.New("the kernel's memory is read under lockdown"), c.Close()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Lost != nil {
				t.Error(c.Lost)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// confidential reports lockdown in confidentiality mode, under which programs may
// not read the kernel's memory.
func confidential() bool {
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	return err == nil && strings.Contains(string(b), "[confidentiality]")
}

// A disk behind bounce buffers is read past the page cache: the number of mapped bytes is known
// exactly. It needs a guest with swiotlb=force and a virtio disk with iommu_platform=on, or a
// confidential VM.
func TestBouncedBytesAreExact(t *testing.T) {
	disk, device := virtioDisk(t)
	for _, v := range Bounce.hooks[0].variants {
		t.Run(v.program, func(t *testing.T) {
			if confidential() && v.program != "bounced_nameless" {
				probetest.Skip(t, "", errors.New("kernel lockdown forbids reading names"))
			}
			one := *Bounce
			one.hooks = append([]hook{{name: hookBounced, variants: []variant{v}}}, Bounce.hooks[1:]...)
			c := openProgram(t, &one, Limits{})
			name := device
			if v.program == "bounced_nameless" {
				name = Other
			}
			const reads, size = 256, 16 << 10
			was := bounced(c)[name]
			served := requests(t, disk)
			if err := readDirect(disk, reads, size); errors.Is(err, fs.ErrPermission) {
				probetest.Skip(t, "bounce buffers", err)
			} else if err != nil {
				t.Fatal(err)
			}
			served = requests(t, disk) - served
			is := bounced(c)[name]
			mappings, n := is[0]-was[0], is[1]-was[1]
			t.Logf("%d reads of %d bytes from %s (%s): %d mappings, %d bytes", served, size, disk, device, mappings, n)
			if mappings == 0 {
				probetest.Skip(t, "bounce buffers", fmt.Errorf("%s does not use bounce buffers: 0 mappings (swiotlb=force and iommu_platform=on are missing)", disk))
			}
			if served != reads {
				probetest.Skip(t, "bounce buffers", fmt.Errorf("the disk served %d requests and not %d: it is not ours alone", served, reads))
			}
			// Besides its data a request maps a header of 16 bytes, a status byte and, with
			// indirect descriptors, their table of 16 bytes each (drivers/block/virtio_blk.c,
			// drivers/virtio/virtio_ring.c). The data is one mapping, or one for each scattered
			// page.
			over := n - reads*size
			segments := mappings/reads - 2
			indirect := 17 + 16*(segments-1+2)
			if mappings%reads != 0 || over != 17*reads && over != indirect*reads {
				t.Errorf("%d mappings with %d bytes besides the data, want %d or %d", mappings, over, 17*reads, indirect*reads)
			}
			if full, counted := (BounceCounts{c}).Full(); full != 0 {
				t.Errorf("%d mappings failed (counted: %v)", full, counted)
			}
			if c.Events() == 0 {
				t.Error("the program does not know of its runs")
			}
			if returns := c.counts().sum(bounceReturns); c.has(hookFull) && returns < mappings {
				t.Errorf("saw %d results of %s for %d mappings", returns, hookFull, mappings)
			}
			checkTimes(t, BounceCounts{c}, mappings)
		})
	}
}

// checkTimes checks the times of mappings that this thread requested.
func checkTimes(t *testing.T, c BounceCounts, mappings uint64) {
	t.Helper()
	if !c.Timed() {
		t.Errorf("this kernel's functions are not timed: %v", c.Lost)
		return
	}
	var calls [bounceOperations]uint64
	var inTask uint64
	c.Times(func(op BounceOperation, context int, n uint64, seconds float64) {
		t.Logf("%s, %s: %d calls, %.3g s", BounceOperations[op], BounceContexts[context], n, seconds)
		calls[op] += n
		if context == 0 {
			inTask += n
		}
		if (n > 0) != (seconds > 0) {
			t.Errorf("%d calls took %g s", n, seconds)
		}
	})
	full, _ := c.Full()
	var machine uint64
	for _, n := range bounced(c.Counters) {
		machine += n[0]
	}
	if calls[BounceMap]+c.Untimed() < mappings || calls[BounceUnmap]+c.Untimed() < mappings || calls[BounceMap] > machine+full {
		t.Errorf("%v calls for %d mappings, %d on the machine", calls, mappings, machine)
	}
	self := ownName(t)
	var mine, all uint64
	folded := c.ByTask(func(process string, in Activity, call string, n uint64, seconds float64) {
		t.Logf("%s %s %s: %d calls, %.3g s", process, in, call, n, seconds)
		// With a scheduler, a kernel thread dispatches requests.
		if all += n; process == self && in == InKernel && call == "pread64" || in == InThread {
			mine += n
		}
	})
	if mine+c.Untimed() < mappings || all != inTask || folded != 0 {
		t.Errorf("this program and kernel threads made %d of %d mappings; %d calls of tasks, %d by task, %d folded, %d not timed", mine, mappings, inTask, all, folded, c.Untimed())
	}
}

// The program is run as the tracepoint runs it, with a device that every kernel
// has, so that names are read on kernels where nothing bounces.
func TestBounceReadsNames(t *testing.T) {
	needKernel(t)
	if confidential() {
		probetest.Skip(t, "", errors.New("kernel lockdown forbids reading names"))
	}
	symbols, err := kallsyms()
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(symbols, " D platform_bus\n")
	address, err := strconv.ParseUint(before[strings.LastIndex(before, "\n")+1:], 16, 64)
	if !ok || err != nil || address == 0 {
		probetest.Skip(t, "", errors.New("the address of the device platform_bus is not known: kallsyms has no data (CONFIG_KALLSYMS_ALL) or hides it"))
	}
	one := *Bounce
	one.hooks = []hook{{name: hookBounced, variants: []variant{{"bounced_raw", raw("swiotlb_bounced")}}}}
	c := openProgram(t, &one, Limits{})
	for range 5 {
		if _, err := c.programs()[0].Run(&ebpf.RunOptions{Context: [3]uint64{address, 0, 4096}}); err != nil {
			probetest.Skip(t, "", fmt.Errorf("run the program: %w", err))
		}
	}
	if got := bounced(c)["platform"]; got != [2]uint64{5, 5 * 4096} {
		t.Errorf("counted %v for the device platform, want 5 mappings of 4096 bytes: %v", got, bounced(c))
	}
}

// Mappings that find the pool full are counted. Needs a guest with a tiny pool
// (swiotlb=256,force) and a virtio disk with iommu_platform=on.
func TestBounceFull(t *testing.T) {
	disk, _ := virtioDisk(t)
	const most = 1024 // slots of 2 KiB
	b, err := os.ReadFile("/sys/kernel/debug/swiotlb/io_tlb_nslabs")
	if err != nil {
		probetest.Skip(t, "bounce buffers", fmt.Errorf("the size of the bounce buffer pool is not known: %w", err))
	}
	if slots, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || slots == 0 || slots > most {
		probetest.Skip(t, "bounce buffers", fmt.Errorf("a pool of %d slots cannot be filled, up to %d can (boot with swiotlb=256,force)", slots, most))
	}
	for _, v := range Bounce.hooks[1].variants {
		t.Run(v.program, func(t *testing.T) {
			one := *Bounce
			one.hooks = []hook{Bounce.hooks[0], {name: hookFull, variants: []variant{v}}}
			c := openProgram(t, &one, Limits{})
			if !c.has(hookFull) {
				probetest.Skip(t, "", fmt.Errorf("this kernel does not take it: %w", c.Lost))
			}
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					if err := readDirect(disk, 8, 64<<10); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			full, _ := BounceCounts{c}.Full()
			returns := c.counts().sum(bounceReturns)
			var mappings uint64
			for _, n := range bounced(c) {
				mappings += n[0]
			}
			t.Logf("%d of %d mappings failed", full, mappings)
			if full == 0 || full >= mappings {
				t.Error("either no mapping failed, or all did")
			}
			// The tracepoint comes first, so a mapping that fails is in both.
			if returns != mappings {
				t.Errorf("%d results for %d mappings", returns, mappings)
			}
		})
	}
}

// virtioDisk returns a virtio disk and the device that does its DMA.
func virtioDisk(t *testing.T) (disk, device string) {
	t.Helper()
	needKernel(t)
	disks, err := filepath.Glob("/sys/block/vd*")
	if err != nil || len(disks) == 0 {
		probetest.Skip(t, "virtio disks", errors.New("no virtio disk here"))
	}
	disk = filepath.Base(disks[len(disks)-1])
	// device is the virtio device; the one above does the DMA.
	p, err := filepath.EvalSymlinks("/sys/block/" + disk + "/device")
	if err != nil {
		t.Fatal(err)
	}
	return "/dev/" + disk, filepath.Base(filepath.Dir(p))
}

// readDirect reads from the start of a disk past the page cache.
func readDirect(disk string, reads, size int) error {
	fd, err := unix.Open(disk, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", disk, err)
	}
	defer unix.Close(fd)
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buf) }()
	for i := range reads {
		if n, err := unix.Pread(fd, buf, int64(i*size)); err != nil || n != size {
			return fmt.Errorf("read %s: %d bytes: %w", disk, n, err)
		}
	}
	return nil
}

// requests is the number of reads and writes that a disk has served
// (Documentation/block/stat.rst).
func requests(t *testing.T, disk string) int {
	t.Helper()
	b, err := os.ReadFile("/sys/block/" + filepath.Base(disk) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b))
	n := 0
	for _, i := range []int{0, 4} {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}

func TestBounceDecode(t *testing.T) {
	name := func(s string) string { return (s + strings.Repeat("\x00", bounceNameLen))[:bounceNameLen] }
	cells := make([]byte, 8*bounceRow)
	// Two slots of the same thread, which two CPUs took at the same time, and one without a
	// name.
	tasks := make([]byte, bounceTasks*bounceDoingLen)
	for slot, call := range map[int]byte{1: 0, 2: 0, 3: 1} {
		at := slot * bounceDoingLen
		copy(tasks[at:], "dd")
		tasks[at+16] = call
	}
	for slot := range 4 {
		cells[8*(bounceByTask+slot*bounceTimeCells)] = 1
		cells[8*(bounceByTask+slot*bounceTimeCells)+8] = byte(slot + 1)
	}
	for _, slot := range []int{0, 1, 2, 3, 64} {
		cells[8*(slot*bounceCells+bounceMappings)] = 1
		cells[8*(slot*bounceCells+bounceBytes)] = byte(10 + slot)
	}
	for _, c := range []struct {
		last             string
		folded, nameless uint64
	}{{"5620e0c7-8062-4dce-aeb7-520c7ef76171", 1, 0}, {"", 0, 1}} {
		t.Run(c.last, func(t *testing.T) {
			text := name("") + name("0000:00:04.0") + name("x\xff") + name("x\xfe")
			text += strings.Repeat(name("unused"), 60) + name(c.last)
			h := &host.Host{Maps: func(string) (map[string][]byte, error) {
				return map[string][]byte{runsMap: nil, "counts": cells, "names": []byte(text), "tasks": tasks}, nil
			}}
			counters, err := Bounce.Open(h)
			if err != nil {
				t.Fatal(err)
			}
			got := bounced(counters)
			folded, nameless := BounceCounts{counters}.ByDevice(func(string, uint64, uint64) {})
			if folded != c.folded || nameless != c.nameless {
				t.Errorf("last slot %q: folded %d, nameless %d, want %d and %d", c.last, folded, nameless, c.folded, c.nameless)
			}
			if got["0000:00:04.0"] != [2]uint64{1, 11} || got["x\xff"] != [2]uint64{1, 12} || got["x\xfe"] != [2]uint64{1, 13} {
				t.Errorf("last slot %q: %v", c.last, got)
			}
			if want := [2]uint64{1, 74}; c.last != "" && (got[c.last] != want || got[Other] != [2]uint64{1, 10}) {
				t.Errorf("last slot %q: %v", c.last, got)
			}
			var by []string
			n := BounceCounts{counters}.ByTask(func(process string, in Activity, call string, calls uint64, seconds float64) {
				by = append(by, fmt.Sprintf("%s %s %s %d %.0fns", process, in, call, calls, seconds*1e9))
			})
			if want := "[other other  1 1ns dd kernel read 2 5ns dd kernel write 1 4ns]"; fmt.Sprint(by) != want || n != 1 {
				t.Errorf("%d folded, by task %v, want %v", n, by, want)
			}
		})
	}
}

// Corrupt or short maps give numbers or nothing, never a panic.
func FuzzBounceDecode(f *testing.F) {
	f.Add([]byte{}, []byte("0000:00:04.0"))
	f.Add(make([]byte, 8*(bounceFull+1)), make([]byte, bounceDevices*bounceNameLen))
	f.Add([]byte(strings.Repeat("\xff", 4099)), []byte(strings.Repeat("\xff", 999)))
	f.Fuzz(func(t *testing.T, counts, names []byte) {
		h := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: counts, "counts": counts, "names": names, "tasks": names}, nil
		}}
		c, err := Bounce.Open(h)
		if err != nil {
			t.Fatal(err)
		}
		BounceCounts{c}.ByDevice(func(device string, _, _ uint64) {
			if device == "" {
				t.Error("a device without a name")
			}
		})
		BounceCounts{c}.Full()
		BounceCounts{c}.ByTask(func(string, Activity, string, uint64, float64) {})
		c.Spent()
	})
}

// The cost that timing adds to a function is known.
func TestBounceTimingCost(t *testing.T) {
	needKernel(t)
	for _, kind := range []ebpf.ProgramType{ebpf.Tracing, ebpf.Kprobe} {
		t.Run(kind.String(), func(t *testing.T) {
			needFunction(t, emptyFunction)
			c := openProgram(t, Bounce, Limits{})
			each, err := c.emptyTime(kind)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.3g us", each*1e6)
			if !(each > 0) {
				t.Errorf("timing adds %g s", each)
			}
		})
	}
}

// The program is closed and opened again when a user switches its source.
func TestBounceReopens(t *testing.T) {
	needFunction(t, hookFull)
	for range 3 {
		c, err := Bounce.Open(local)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (BounceCounts{c}).TimingCost(); err != nil {
			t.Error(err)
		}
		if !(BounceCounts{c}).Timed() {
			t.Error(c.Lost)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
