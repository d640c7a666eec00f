package kernels

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
)

// The module paging spends pagingDelay on each page that it loads back, in rounds of pagingPages.
const (
	pagingDelay = time.Millisecond
	pagingPages = 16
	// pagingFile is the module's path in the guest.
	pagingFile = "/paging.ko"
)

// withPaging gives a guest the module, built for its kernel, and the steps. A guest on a machine
// that cannot build it stays without them.
func withPaging(t *testing.T, g *Guest) {
	t.Helper()
	for _, name := range []string{"make", "gcc-12", "pahole"} {
		if _, err := exec.LookPath(name); err != nil {
			return
		}
	}
	a, err := cache()
	if err != nil {
		return
	}
	fetching.Lock()
	defer fetching.Unlock()
	module, err := a.Module(t.Context(), g.Kernel, "paging", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g.Files, g.Steps = map[string]string{pagingFile: module}, append(g.Steps, explainPaging...)
}

// explainPaging loads the module, monitors a process whose enclave pages are loaded back for a known time each, and
// runs explain. The process has a higher priority, so it does not wait for the monitor, and sleeps half of the time.
var explainPaging = []Step{
	{Name: "paging module", Script: fmt.Sprintf("insmod %s delay_us=%d && ls -l /dev/sgx_enclave", pagingFile, pagingDelay.Microseconds())},
	{Name: "paging monitor", Script: again + `monitor() {
	[ -e /tmp/monitor.pid ] && kill $(cat /tmp/monitor.pid) && wait $(cat /tmp/monitor.pid)
	teescope monitor --budget 100% --listen 127.0.0.1:9780 --data /tmp/monitor </dev/null >/tmp/monitor.log 2>&1 &
	echo $! >/tmp/monitor.pid
	n=0
	until wget -q -O /dev/null http://127.0.0.1:9780/-/ready 2>/dev/null; do
		n=$((n+1)); [ $n -lt 1800 ] && kill -0 $(cat /tmp/monitor.pid) || { cat /tmp/monitor.log; return 1; }
		usleep 100000
	done
}
again monitor || exit 1
n=0
until inside links | grep -q ^sgx_vma_fault.*fexit; do n=$((n+1)); [ $n -lt 600 ] || exit 1; usleep 100000; done
echo 1 >/sys/module/paging/parameters/replace`},
	{Name: "paging explained", Script: fmt.Sprintf(`inside pages 27 %d >/tmp/known &
sleep 25
teescope explain --process known-enclave --last 20s --json || { cat /tmp/monitor.log; exit 1; }
wait $!`, pagingPages)},
	// The monitor reads every five seconds.
	{Name: "paging known", Script: `cat /tmp/known
sleep 6
echo counted $(wget -q -O - http://127.0.0.1:9780/metrics | sed -n 's/^tee_sgx_process_epc_pages_total{process="known-enclave",operation="loaded_back"} //p')
echo loaded $(cat /sys/module/paging/parameters/loaded)
kill $(cat /tmp/monitor.pid)`},
}

// TestEnclavePaging explains a process whose pages cost the SGX driver a known time: a module replaces the kernel's
// own functions for it. The share of the row must be within five points of the process's own measurement.
func TestEnclavePaging(t *testing.T) {
	for i, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				needMatrix(t)
			}
			tool(t, "make", "make")
			tool(t, "gcc-12", "gcc-12")
			tool(t, "pahole", "pahole")
			k := fetch(t, named(t, name))
			var r *Report
			if *all {
				g := &Guest{Kernel: k}
				withPaging(t, g)
				r = boot(t, g)
			} else {
				r, _ = singleGuest(t, k, modes[0])
			}
			checkPaging(t, k, r)
		})
	}
}

func checkPaging(t *testing.T, k *Kernel, r *Report) {
	t.Helper()
	for _, s := range explainPaging {
		if o := r.Steps[s.Name]; o.Status != 0 {
			t.Fatalf("step %s ended with status %d: %s", s.Name, o.Status, o.Text)
		}
	}
	var said struct {
		Explanations []struct{ Tree explain.Tree }
		Problems     []string
	}
	if err := json.NewDecoder(strings.NewReader(r.Steps["paging explained"].Text)).Decode(&said); err != nil || len(said.Explanations) != 1 {
		t.Fatalf("explain: %v, %d explanations, %q: %s", err, len(said.Explanations), said.Problems, tail(r.Steps["paging explained"].Text))
	}
	tree := said.Explanations[0].Tree
	var row, queue explain.Row
	for _, x := range tree.Rows {
		t.Logf("%-20s %.4f of %.4f", x.ID, x.Time.Value, tree.Active.Value)
		switch x.ID {
		case "enclave_faults":
			row = x
		case "queue":
			queue = x
		}
	}
	if row.Rate == nil || row.Unit == nil || row.Unit.Origin != explain.Measured || row.Cause != "epc_paging" {
		t.Fatalf("the row of faults on enclave memory is %+v; all are %+v", row, tree.Rows)
	}
	t.Logf("%-20s %.4f", "unexplained", tree.Unexplained.Value)
	known := readKnown(t, r.Steps["paging known"].Text, tree.From, tree.To)
	// The process's own clock does not include waiting for a CPU.
	share, truth := row.Time.Value/(tree.Active.Value-queue.Time.Value), known.touching/known.used
	t.Logf("%.0f pages a second, each %.1f us, are %.1f %% of its CPU time; by its own clock touching them was %.1f %% of it (waiting for a CPU: %.1f %% of the active time)",
		row.Rate.Value, 1e6*row.Unit.Value, 100*share, 100*truth, 100*queue.Share.Value)
	if math.Abs(share-truth) > 0.05 {
		t.Errorf("paging is %.1f %% of the CPU time, in truth %.1f %%", 100*share, 100*truth)
	}
	if row.Unit.Value < pagingDelay.Seconds() {
		t.Errorf("a page takes %v s, of which the module waits %v", row.Unit.Value, pagingDelay)
	}
	if tree.TEE == nil || !strings.Contains(tree.TEE.Title, "faults on enclave memory") {
		t.Errorf("the TEE is %+v", tree.TEE)
	}
	note(t, k.Uname, "enclave page faults of %v each (module paging): explained as %.1f %% of the process's CPU time, %.1f %% by its own clock", pagingDelay, 100*share, 100*truth)
}

// knownPages is the process's own account of a window: pages, and seconds of CPU time.
type knownPages struct{ pages, touching, used float64 }

// readKnown parses the process's output, and checks that all its pages were counted.
func readKnown(t *testing.T, text string, from, to time.Time) knownPages {
	t.Helper()
	var first, last, all knownPages
	var counted, loaded float64
	for line := range strings.Lines(text) {
		var at float64
		var now knownPages
		if _, err := fmt.Sscanf(line, "counted %g", &counted); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(line, "loaded %g", &loaded); err == nil {
			continue
		}
		if _, err := fmt.Sscan(line, &at, &now.pages, &now.touching, &now.used); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if all = now; at <= float64(from.UnixMilli())/1000 {
			first = now
		}
		if at <= float64(to.UnixMilli())/1000 {
			last = now
		}
	}
	if all.pages == 0 || counted != all.pages || loaded != all.pages {
		t.Errorf("the process touched %v pages, the module loaded %v and the monitor counted %v", all.pages, loaded, counted)
	}
	in := knownPages{last.pages - first.pages, (last.touching - first.touching) / 1e9, (last.used - first.used) / 1e9}
	if in.touching < in.pages*pagingDelay.Seconds() || !(in.used > 0) {
		t.Fatalf("touching %v pages took %v s of %v s, want at least %v each", in.pages, in.touching, in.used, pagingDelay)
	}
	return in
}
