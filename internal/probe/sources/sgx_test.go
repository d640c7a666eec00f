package sources

import (
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

func TestWrapping(t *testing.T) {
	const top = 1<<32 - 1
	for name, c := range map[string]struct {
		readings []uint32
		want     []uint64
	}{
		"forward":     {[]uint32{0, 5, 5, 9}, []uint64{0, 5, 5, 9}},
		"wrap":        {[]uint32{top - 10, 5, 6}, []uint64{top - 10, 1<<32 + 5, 1<<32 + 6}},
		"wrap twice":  {[]uint32{top, 1, 2e9, top, 3}, []uint64{top, 1<<32 + 1, 1<<32 + 2e9, 1<<32 + top, 2<<32 + 3}},
		"reload":      {[]uint32{1e9, 7, 8}, []uint64{1e9, 7, 8}},
		"late reload": {[]uint32{top, 1, 1e9, 2}, []uint64{top, 1<<32 + 1, 1<<32 + 1e9, 2}},
		"race":        {[]uint32{1000, 990, 1001}, []uint64{1000, 1000, 1001}},
	} {
		t.Run(name, func(t *testing.T) {
			var w wrapping
			for i, v := range c.readings {
				if got := w.add(v); got != c.want[i] {
					t.Errorf("%s: reading %d of %d: %d, want %d", name, i, v, got, c.want[i])
				}
			}
		})
	}
}

// TestLegacyWraps reads twice, with a counter that wrapped in between.
func TestLegacyWraps(t *testing.T) {
	f := hosttest.Open(t, "testdata/sgx_legacy.txtar")
	r, err := sgxLegacy.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	marked := func() (v float64) {
		if err := r.Read(t.Context(), func(s metric.Sample) {
			if s.Desc.Name == "tee_sgx_epc_pages_marked_old_total" {
				v = s.Value
			}
		}); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := marked()
	if err := f.Host.WriteFile("/sys/module/isgx/parameters/sgx_nr_marked_old", []byte("100\n")); err != nil {
		t.Fatal(err)
	}
	if after := marked(); before != 4e9 || after != 1<<32+100 {
		t.Errorf("%v, then %v", before, after)
	}
}

func FuzzParam(f *testing.F) {
	f.Add([]byte("24064\n"))
	f.Add([]byte("4294967296\n"))
	f.Add([]byte("N\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseParam("p", b); err == nil && strings.TrimLeft(strings.TrimSpace(string(b)), "0") != strings.TrimLeft(strconv.FormatUint(uint64(v), 10), "0") {
			t.Errorf("%q read as %d", b, v)
		}
	})
}

func FuzzThread(f *testing.F) {
	f.Add("77 (ksgxd) S 2 0 0")
	f.Add("500 (ksgxd) S 1 500")
	f.Add("3 (x (ksgxd) ) S 2 0")
	f.Fuzz(func(t *testing.T, s string) {
		if pid, ok := parseThread(s, "ksgxd"); ok && (pid <= 0 || !strings.Contains(s, "(ksgxd)")) {
			t.Errorf("%q read as process %d", s, pid)
		}
	})
}

// TestEnclavesBefore opens the in-tree driver's source on machines where the enclaves that
// existed before can be counted and where they cannot, and detaches and attaches it.
func TestEnclavesBefore(t *testing.T) {
	f := hosttest.Open(t, "testdata/sgx.txtar")
	now := f.Host.Now()
	f.Host.Now = func() time.Time { return now }
	r, err := sgx.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() (float64, error) {
		v := math.NaN()
		err := r.Read(t.Context(), func(s metric.Sample) {
			if s.Desc == sgxEnclaves {
				v = s.Value
			}
		})
		return v, err
	}
	// The fixture's 9 - 4 enclaves were counted before the two were found.
	if v, err := read(); v != 2 || err != nil {
		t.Errorf("%v enclaves (%v), want 2", v, err)
	}
	g := r.(probe.Governed)
	if err := g.Detach(); err != nil {
		t.Fatal(err)
	}
	if v, err := read(); !math.IsNaN(v) || err != nil {
		t.Errorf("%v enclaves while some may have come unseen (%v)", v, err)
	}
	if err := g.Attach(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookAgain)
	if v, err := read(); v != 2 || err != nil {
		t.Errorf("%v enclaves after looking again (%v), want 2", v, err)
	}

	f.Host.Faults = map[string]error{"/proc/500/maps": syscall.EACCES}
	if r, err = sgx.Open(f.Host, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := read(); !math.IsNaN(v) || probe.Remedy(err) != "grant CAP_SYS_PTRACE" {
		t.Errorf("%v enclaves (%v) where not all can be seen", v, err)
	}
}

// A lost hook is reported together with the live ones.
func TestSGXSaysWhatIsLive(t *testing.T) {
	r, err := sgx.Open(hosttest.Open(t, "testdata/sgx.txtar").Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.(*sgxReader).Lost = &probe.Problem{Err: errors.New("hook sgx_encl_ewb entry: not found"), Remedy: "report it"}
	err = r.Read(t.Context(), func(metric.Sample) {})
	if err == nil || !strings.HasPrefix(err.Error(), "live are sgx_open exit, sgx_encl_create exit, ") ||
		!strings.HasSuffix(err.Error(), "; hook sgx_encl_ewb entry: not found") || probe.Remedy(err) != "report it" {
		t.Errorf("%v (%s)", err, probe.Remedy(err))
	}
}

func FuzzSGXMappings(f *testing.F) {
	f.Add([]byte("7f1000800000-7f1000900000 rw-s 00000000 00:05 107                        /dev/sgx_enclave\n"))
	f.Add([]byte("7f1000800000-7f1000900000 rw-s 00000000 00:05 107 /dev/isgx\n7f1000a00000-7f1000b00000 r-xs 0 00:05 1 /dev/isgx\n"))
	f.Add([]byte("2-1 x x x x /dev/isgx"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseSGXMappings("maps", b)
		if math.IsNaN(e.number) != (err != nil) {
			t.Errorf("%+v beside %v", e, err)
		}
		if e.number > 0 && !slices.ContainsFunc(enclaveDevices, func(d string) bool { return strings.Contains(string(b), d) }) {
			t.Errorf("%v enclaves without a device", e.number)
		}
	})
}

func FuzzFortanix(f *testing.F) {
	f.Add([]byte("12 9 500000 8100 8300 24064 64 1200\n"))
	f.Add([]byte("4000 10 67108864 16384 9000 32\n4001 11 1048576 256 256\n"))
	f.Add([]byte("12 9 500000 8100 8300 24064 64"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parseFortanixStats(b); err == nil && len(strings.Fields(string(b))) != 8 {
			t.Errorf("%q was read", b)
		}
		found, err := parseFortanixProcesses(b)
		for _, e := range found {
			pid, perr := strconv.Atoi(e.process)
			if e.number != 1 && err == nil || e.number == 1 && (perr != nil || pid < 0) {
				t.Errorf("%q has %+v, %v", b, e, err)
			}
		}
	})
}

// TestLegacyStub reads the parameters of the loaded module of e2e/kernels/stub before and after
// a known number of events.
func TestLegacyStub(t *testing.T) {
	h := host.Local()
	const trigger = "/sys/module/isgx/parameters/trigger"
	if _, err := h.Stat(trigger); err != nil {
		probetest.Skip(t, "stub of SGX", err)
	}
	r, err := sgxLegacy.Open(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string]float64 {
		out := map[string]float64{}
		if err := r.Read(t.Context(), func(s metric.Sample) { out[s.Desc.Name] = s.Value }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	was := read()
	if err := h.WriteFile(trigger, []byte("10")); err != nil {
		t.Fatal(err)
	}
	is := read()
	for name, want := range map[string]float64{
		enclavesInitialized.Name: 10, pagesAdded.Name: 50, pagesAllocated.Name: 90, pagesEvicted.Name: 200,
		pagesReclaimed.Name: 200, pagesLoadedBack.Name: 30, pagesMarkedOld.Name: 70, sgxEnclaves.Name: 0, epcFree.Name: 0,
	} {
		if got := is[name] - was[name]; got != want {
			t.Errorf("%s grew by %v, want %v", name, got, want)
		}
	}
}

// TestTenThousandEnclaves: 2,000 processes with five enclaves each make as many series as a few
// do, and the sums stay exact.
func TestTenThousandEnclaves(t *testing.T) {
	const processes, each = 2000, 5
	f := hosttest.Open(t, "testdata/sgx_mappings-idle.txtar")
	write := func(name, text string) {
		if err := os.WriteFile(f.Host.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var bytes uint64
	for i := range processes {
		var text strings.Builder
		for n := range each {
			from, size := uint64(n+1)<<40, uint64(i+1)<<12
			text.WriteString(strconv.FormatUint(from, 16) + "-" + strconv.FormatUint(from+size, 16) + " rw-s 00000000 00:05 107 /dev/sgx_enclave\n" +
				strconv.FormatUint(from+1<<39, 16) + "-" + strconv.FormatUint(from+1<<39+4096, 16) + " r--p 00000000 08:01 12 /lib/x.so\n")
			bytes += size
		}
		dir := "/proc/" + strconv.Itoa(100_000+i)
		if err := f.Host.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		write(dir+"/maps", text.String())
		write(dir+"/comm", "enclave-"+strconv.Itoa(i)+"\n")
	}
	r, err := sgxMappings.Open(f.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum, series := map[string]float64{}, map[string]int{}
	if err := r.Read(t.Context(), func(s metric.Sample) {
		sum[s.Desc.Name] += s.Value
		series[s.Desc.Name]++
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		processEnclaves.Name: processes * each, processMapped.Name: float64(bytes), enclaveVirtual.Name: float64(bytes),
	} {
		if most := topProcesses + 1; sum[name] != want || series[name] > most {
			t.Errorf("%s: %v in %d series, want %v in at most %d", name, sum[name], series[name], want, most)
		}
	}
}

// TestEndlessMappings: a process whose list of mappings has no reasonable length costs bounded memory, and hides no other.
func TestEndlessMappings(t *testing.T) {
	f := hosttest.Open(t, "testdata/sgx_mappings-idle.txtar")
	for pid, text := range map[string]string{
		"100001": "10000000000-10000001000 rw-s 00000000 00:05 107 /dev/sgx_enclave\n",
		"100002": strings.Repeat("7f0000000000-7f0000001000 r--p 00000000 08:01 12 /lib/x.so\n", longestMaps/50),
	} {
		dir := "/proc/" + pid
		if err := f.Host.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"/maps": text, "/comm": "process-" + pid + "\n"} {
			if err := os.WriteFile(f.Host.Path(dir+name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, err := scanSGX(f.Host)
	if !errors.Is(err, host.ErrTooLong) && (err == nil || !strings.Contains(err.Error(), host.ErrTooLong.Error())) {
		t.Errorf("the error is %v, want one that says that a file is too long", err)
	}
	got := map[string]float64{}
	for _, e := range found {
		got[e.process] = e.number
	}
	if n, ok := got["process-100002"]; got["process-100001"] != 1 || !ok || !math.IsNaN(n) {
		t.Errorf("enclaves by process: %v, want 1 of process-100001 and an unknown number of process-100002", got)
	}
}
