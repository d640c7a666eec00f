package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// loopDevice makes a block device from a file in memory. It returns the device's name, and the
// device opened so that each read and write is one request.
func loopDevice(t testing.TB) (string, *os.File) {
	t.Helper()
	dir := "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		dir = t.TempDir()
	}
	return loopDeviceIn(t, dir)
}

// loopDeviceIn makes the file in a folder.
func loopDeviceIn(t testing.TB, dir string) (string, *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		probetest.Skip(t, "loop devices", fmt.Errorf("no loop devices: %w", err))
	}
	defer control.Close()
	backing, err := os.CreateTemp(dir, "block")
	if err != nil {
		t.Fatal(err)
	}
	defer backing.Close()
	// Without a name nothing is left of it.
	if err := errors.Join(os.Remove(backing.Name()), backing.Truncate(4<<20)); err != nil {
		t.Fatal(err)
	}
	var name string
	var device *os.File
	await.Event(t, "a loop device is ours", func() error {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			probetest.Skip(t, "loop devices", fmt.Errorf("no free loop device: %w", err))
		}
		name = fmt.Sprintf("loop%d", n)
		if device, err = os.OpenFile(filepath.Join("/dev", name), os.O_RDWR|unix.O_DIRECT, 0); err != nil {
			probetest.Skip(t, "loop devices", err)
		}
		if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(backing.Fd())); err != nil { // another test was faster
			return errors.Join(err, device.Close())
		}
		return nil
	})
	// If the test is killed, the device goes with its descriptor.
	if err := unix.IoctlLoopSetStatus64(int(device.Fd()), &unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0), device.Close()); err != nil {
			t.Error(err)
		}
	})
	return name, device
}

// blindToRequests returns the number of events of requests that the program may lack.
func blindToRequests(t *testing.T) func() uint64 {
	t.Helper()
	return probetest.OnInit(t, "block/block_rq_issue", "block/block_rq_complete")
}

// served returns the requests and bytes of a device by operation, as the kernel counts them
// (Documentation/block/stat.rst).
func served(t *testing.T, device string) map[string][2]uint64 {
	t.Helper()
	b, err := os.ReadFile("/sys/block/" + device + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	var v [17]uint64
	for i, text := range strings.Fields(string(b)) {
		if v[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return map[string][2]uint64{"read": {v[0], 512 * v[2]}, "write": {v[4], 512 * v[6]}, "discard": {v[11], 512 * v[13]}, "flush": {v[15], 0}}
}

// aligned is memory that a device can read into directly.
func aligned(size int) []byte {
	b := make([]byte, size+4096)
	return b[-uintptr(unsafe.Pointer(&b[0]))&4095:][:size]
}

// through reads or writes n times.
func through(t testing.TB, op func([]byte, int64) (int, error), n, size int) {
	t.Helper()
	b := aligned(size)
	for i := range n {
		if got, err := op(b, int64(i*size)); err != nil || got != size {
			t.Fatalf("%d bytes: %v", got, err)
		}
	}
}

// readBlock returns the counts of one device, by operation.
func readBlock(c *Counters, device string) map[string]BlockIO {
	out := map[string]BlockIO{}
	BlockCounts{c}.ByDevice(func(name string, operation int, io *BlockIO) {
		if name == device {
			out[BlockOperations[operation]] = *io
		}
	})
	return out
}

func TestBlock(t *testing.T) {
	for i, kind := range []string{"typed", "raw"} {
		t.Run(kind, func(t *testing.T) {
			p := *Block
			p.hooks = nil
			for _, h := range Block.hooks {
				h.variants = h.variants[i : i+1]
				p.hooks = append(p.hooks, h)
			}
			c := openProgram(t, &p, Limits{})
			name, device := loopDevice(t)
			blind := blindToRequests(t)
			servedBefore, before := served(t, name), readBlock(c, name)
			began := time.Now()
			through(t, device.WriteAt, 200, 4096)
			through(t, device.ReadAt, 100, 8192)
			for range 7 {
				if err := device.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			// clock: no request takes longer than all of them, however long that is.
			took := time.Since(began)
			if err := unix.IoctlSetPointerInt(int(device.Fd()), unix.BLKDISCARD, 0); !errors.Is(err, unix.EINVAL) {
				t.Logf("discard of nothing: %v", err)
			}
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&[2]uint64{0, 65536})))
			got, servedAfter, lost := readBlock(c, name), served(t, name), blind()
			want := map[string][2]uint64{"write": {200, 200 * 4096}, "read": {100, 100 * 8192}, "flush": {7, 0}}
			if errno == 0 {
				want["discard"] = [2]uint64{1, 65536}
			}
			for op, w := range want {
				// Others may look at a new device.
				most := [2]uint64{max(w[0], servedAfter[op][0]-servedBefore[op][0]), max(w[1], servedAfter[op][1]-servedBefore[op][1])}
				io, was := got[op], before[op]
				io.Latency.Sub(&was.Latency)
				if n, b := io.Requests-was.Requests, io.Bytes-was.Bytes; n > most[0] || n+lost < w[0] || b > most[1] || b+lost*w[1]/w[0] < w[1] {
					t.Errorf("%s: %d requests of %d bytes, want %d of %d", op, n, b, w[0], w[1])
				}
				if n := io.Latency.Count(); n > most[0] || n+lost < w[0] {
					t.Errorf("%s: %d latencies, want %d", op, n, w[0])
				}
				if s := io.Latency.Sum(); (s > 0) != (io.Latency.Count() > 0) || s > took.Seconds() && op != "discard" && most == w {
					t.Errorf("%s: the latencies add up to %g s, all took %s", op, s, took)
				}
				if io.Errors != was.Errors {
					t.Errorf("%s: %d errors", op, io.Errors-was.Errors)
				}
			}
		})
	}
}

// I/O while the program is detached is not counted afterwards.
func TestBlockWindows(t *testing.T) {
	c := openProgram(t, Block, Limits{})
	name, device := loopDevice(t)
	blind, before := blindToRequests(t), readBlock(c, name)["write"]
	for range 5 {
		if err := c.Detach(); err != nil {
			t.Fatal(err)
		}
		through(t, device.WriteAt, 50, 4096)
		if err := c.Attach(); err != nil {
			t.Fatal(err)
		}
		through(t, device.WriteAt, 20, 4096)
	}
	got := readBlock(c, name)["write"]
	lost := blind()
	if n := got.Requests - before.Requests; !within(n, 100, lost) {
		t.Errorf("%d requests, want 100", n)
	}
	if n := got.Latency.Count() - before.Latency.Count(); !within(n, 100, lost) {
		t.Errorf("%d latencies, want 100", n)
	}
}

// Devices beyond the table are counted together, and nothing is lost.
func TestBlockManyDevices(t *testing.T) {
	p := *Block
	p.load = func() (*ebpf.CollectionSpec, error) {
		spec, err := loadBlock()
		if err == nil {
			err = spec.Variables["max_devices"].Set(uint32(1 + noDevice))
		}
		return spec, err
	}
	c := openProgram(t, &p, Limits{})
	_, device := loopDevice(t)
	blind, was := blindToRequests(t), readBlock(c, Other)["write"].Requests
	through(t, device.WriteAt, 30, 4096)
	is := readBlock(c, Other)["write"].Requests
	lost := blind()
	if n := is - was; n+lost < 30 {
		t.Errorf("%d requests counted as other, want at least 30", n)
	}
	if folded, _ := (BlockCounts{c}).ByDevice(func(string, int, *BlockIO) {}); folded+lost < 30 {
		t.Errorf("%d folded, want at least 30", folded)
	}
}

// A device whose file has no space reports errors.
func TestBlockErrors(t *testing.T) {
	c := openProgram(t, Block, Limits{})
	small := t.TempDir()
	if err := unix.Mount("small", small, "tmpfs", 0, "size=64k"); err != nil {
		probetest.Skip(t, "mounts", fmt.Errorf("mount a small file system: %w", err))
	}
	name, device := func() (string, *os.File) {
		defer func() { // the device keeps its file
			if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}()
		return loopDeviceIn(t, small)
	}()
	blind, before := blindToRequests(t), readBlock(c, name)["write"]
	var good, bad uint64
	for i := range 32 {
		if _, err := device.WriteAt(aligned(4096), int64(i)*4096); err == nil {
			good++
		} else {
			bad++
		}
	}
	got := readBlock(c, name)["write"]
	lost := blind()
	if n := got.Errors - before.Errors; bad == 0 || !within(n, bad, lost) {
		t.Errorf("%d errors, want %d", n, bad)
	}
	if n, b := got.Requests-before.Requests, got.Bytes-before.Bytes; !within(n, good+bad, lost) || !within(b, good*4096, lost*4096) {
		t.Errorf("%d requests of %d bytes, want %d of %d", n, b, good+bad, good*4096)
	}
}

// Corrupt or short maps give numbers or nothing, never a panic.
func FuzzDecodeIO(f *testing.F) {
	f.Add([]byte{}, []byte{1}, []byte("vda"))
	f.Add(slices.Repeat([]byte{1, 2, 0, 0, 0, 0, 0, 0}, Block.row), make([]byte, 20), slices.Repeat([]byte{0xff}, 999))
	f.Add(slices.Repeat([]byte{0xff}, 4099), slices.Repeat([]byte("loop0\x00"), 90), []byte{})
	f.Fuzz(func(t *testing.T, counts, devices, names []byte) {
		h := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: counts, "counts": counts, "devices": devices, "names": names}, nil
		}}
		for _, p := range []*Program{Block, TCP, TCPConnect} {
			c, err := p.Open(h)
			if err != nil {
				t.Fatal(err)
			}
			named := func(name string) {
				if name == "" {
					t.Errorf("label %q", name)
				}
			}
			switch p {
			case Block:
				BlockCounts{c}.ByDevice(func(device string, operation int, _ *BlockIO) { named(device + BlockOperations[operation]) })
			case TCP:
				TCPCounts{c}.ByPhase(func(_, phase int, _ uint64) { named(Phases[phase]) })
			case TCPConnect:
				ConnectCounts{c}.ByProcess(func(process string, _, _ uint64) { named(process) })
			}
			c.Spent()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
