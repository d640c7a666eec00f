//go:build measure

package kernels

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
)

// explainPages runs explain while pages are touched. The process has a higher priority, so it does not wait for the
// monitor, and sleeps half of the time.
var explainPages = Step{Name: "paging explained", Script: fmt.Sprintf(`inside pages 27 %d >/tmp/known &
sleep 25
teescope explain --process known-enclave --last 20s --json || { cat /tmp/monitor.log; exit 1; }
wait $!`, pagingPages)}

// TestEnclavePaging: the explained share of enclave paging is within five points of the process's own measurement, in
// an emulated guest whose pages cost the SGX driver a known time.
func TestEnclavePaging(t *testing.T) {
	for i, name := range []string{singleKernel, "6.12 deb12 cloud"} {
		t.Run(name, func(t *testing.T) {
			if i > 0 {
				needMatrix(t)
			}
			needModules(t)
			k := fetch(t, named(t, name))
			g := &Guest{Kernel: k}
			withPaging(t, g, explainPages)
			checkPaging(t, k, boot(t, g))
		})
	}
}

func checkPaging(t *testing.T, k *Kernel, r *Report) {
	t.Helper()
	for _, s := range pagingSteps(explainPages) {
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
	known := between(t, readKnown(t, r.Steps["paging known"].Text), tree.From, tree.To)
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

// between is the process's own account of a window: pages, and seconds of CPU time.
func between(t *testing.T, account []knownPages, from, to time.Time) knownPages {
	t.Helper()
	var first, last knownPages
	for _, now := range account {
		if now.at <= float64(from.UnixMilli())/1000 {
			first = now
		}
		if now.at <= float64(to.UnixMilli())/1000 {
			last = now
		}
	}
	in := knownPages{pages: last.pages - first.pages, touching: (last.touching - first.touching) / 1e9, used: (last.used - first.used) / 1e9}
	if !(in.used > 0) {
		t.Fatalf("the process used no time between %v and %v", from, to)
	}
	return in
}
