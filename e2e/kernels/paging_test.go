package kernels

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
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
func withPaging(t *testing.T, g *Guest, use Step) {
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
	g.Files, g.Steps = map[string]string{pagingFile: module}, append(g.Steps, pagingSteps(use)...)
}

// pagingSteps load the module, and monitor a process whose enclave pages are loaded back for a known time each. The
// steps of use touch the pages and leave the process's own account in /tmp/known.
func pagingSteps(use ...Step) []Step {
	return slices.Concat([]Step{
		{Name: "paging module", Script: fmt.Sprintf("insmod %s delay_us=%d && ls -l /dev/sgx_enclave", pagingFile, pagingDelay.Microseconds())},
		{Name: "paging monitor", Script: `teescope monitor --budget 100% --listen 127.0.0.1:9780 --data /tmp/monitor </dev/null >/tmp/monitor.log 2>&1 &
echo $! >/tmp/monitor.pid
n=0
until wget -q -O /dev/null http://127.0.0.1:9780/-/ready 2>/dev/null; do
	n=$((n+1)); [ $n -lt 3600 ] && kill -0 $(cat /tmp/monitor.pid) || { cat /tmp/monitor.log; exit 1; }
	usleep 100000
done
n=0
until inside links | grep -q ^sgx_vma_fault.*fexit; do n=$((n+1)); [ $n -lt 1800 ] || exit 1; usleep 100000; done
echo 1 >/sys/module/paging/parameters/replace`},
	}, use, []Step{
		// The monitor reads every five seconds.
		{Name: "paging known", Script: `counted() { wget -q -O - http://127.0.0.1:9780/metrics | sed -n 's/^tee_sgx_process_epc_pages_total{process="known-enclave",operation="loaded_back"} //p'; }
cat /tmp/known
n=0
until [ "$(counted)" = "$(cat /sys/module/paging/parameters/loaded)" ] || [ $n -ge 600 ]; do n=$((n+1)); usleep 500000; done
echo counted $(counted)
echo loaded $(cat /sys/module/paging/parameters/loaded)
kill $(cat /tmp/monitor.pid)`},
	})
}

// TestEnclavePages counts the pages of an enclave that the SGX driver loads back: a module replaces the kernel's own
// functions for it. The process, the module and the monitor must count the same.
func TestEnclavePages(t *testing.T) {
	for i, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				needMatrix(t)
			}
			needModules(t)
			k := fetch(t, named(t, name))
			var r *Report
			if *all {
				g := &Guest{Kernel: k}
				withPaging(t, g, touchPages)
				r = boot(t, g)
			} else {
				r, _ = singleGuest(t, k, modes[0])
			}
			for _, s := range pagingSteps(touchPages) {
				if o := r.Steps[s.Name]; o.Status != 0 {
					t.Fatalf("step %s ended with status %d: %s", s.Name, o.Status, o.Text)
				}
			}
			known := readKnown(t, r.Steps["paging known"].Text)
			note(t, k.Uname, "enclave pages loaded back (module paging): %.0f counted exactly", known[len(known)-1].pages)
		})
	}
}

// touchPages touches pages for five seconds.
var touchPages = Step{Name: "paging touched", Script: fmt.Sprintf("inside pages 5 %d >/tmp/known", pagingPages)}

// needModules skips a test where no kernel module can be built.
func needModules(t *testing.T) {
	t.Helper()
	tool(t, "make", "make")
	tool(t, "gcc-12", "gcc-12")
	tool(t, "pahole", "pahole")
}

// knownPages is the process's own account at a time: pages, and nanoseconds of CPU time.
type knownPages struct{ at, pages, touching, used float64 }

// readKnown parses the process's output, and checks that all its pages were counted, and took their time.
func readKnown(t *testing.T, text string) (account []knownPages) {
	t.Helper()
	var counted, loaded float64
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, "counted %g", &counted); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(line, "loaded %g", &loaded); err == nil {
			continue
		}
		var now knownPages
		if _, err := fmt.Sscan(line, &now.at, &now.pages, &now.touching, &now.used); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		account = append(account, now)
	}
	if len(account) == 0 {
		t.Fatalf("the process said %q", text)
	}
	last := account[len(account)-1]
	if last.pages == 0 || counted != last.pages || loaded != last.pages {
		t.Errorf("the process touched %v pages, the module loaded %v and the monitor counted %v", last.pages, loaded, counted)
	}
	if last.touching/1e9 < last.pages*pagingDelay.Seconds() {
		t.Errorf("touching %v pages took %v s, want at least %v each", last.pages, last.touching/1e9, pagingDelay)
	}
	return account
}
