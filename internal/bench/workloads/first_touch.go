package workloads

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	firstTouchSeconds = &metric.Desc{Name: "first_touch_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time to touch a page of memory that is new to the process, in seconds on the harness's clock: the mean over all pages, each touched every 4 KiB."}
	secondTouchSeconds = &metric.Desc{Name: "second_touch_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time to touch a page again after the process gave the same amount of memory back, so the kernel has free pages at hand, in seconds on the harness's clock."}
	touchAgainSeconds = &metric.Desc{Name: "touch_again_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time to touch a page once more without a page fault, in seconds on the worker's clock."}
	firstGibibyte = &metric.Desc{Name: "first_touch_gibibyte_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time to touch 1 GiB of new memory in seconds, from the first touch of the measured pages."}
	secondGibibyte = &metric.Desc{Name: "second_touch_gibibyte_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time to touch 1 GiB of memory that was given back before, in seconds, from the second touch of the measured pages."}
	firstOverSecond = quotient(&metric.Desc{Name: "first_over_second_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of the first touch divided by the second in the same run. Above 1, new memory has a one-time cost, such as acceptance in a confidential guest or backing by the host."})
	firstFaults = &metric.Desc{Name: "first_touch_faults_total", Unit: "faults", Kind: metric.Counter,
		Help: "Minor page faults of the first touch, counted by the kernel: one for each page."}
	secondFaults = &metric.Desc{Name: "second_touch_faults_total", Unit: "faults", Kind: metric.Counter,
		Help: "Minor page faults of the second touch, counted by the kernel: one for each page."}
	firstAccepted = &metric.Desc{Name: "accepted_bytes_total", Unit: "bytes", Kind: metric.Counter,
		Help: "Memory that the guest accepted during the first touch: the fall of Unaccepted in /proc/meminfo (Linux 6.5 and later). 0 if all memory was accepted before, as with accept_memory=eager."}
	secondAccepted = &metric.Desc{Name: "second_accepted_bytes_total", Unit: "bytes", Kind: metric.Counter,
		Help: "Memory that the guest accepted during the second touch, counted in the same way. If the value is not 0, the second touch also paid for acceptance, and the ratio to the first is too small."}
	pagesTouched = &metric.Desc{Name: "pages_total", Unit: "pages", Kind: metric.Counter,
		Help: "Pages of each of the two areas. The run's counters cover both areas and are not divided by this number."}
)

// firstTouch measures what memory costs once. A page fault clears the page, whatever the machine. In a confidential guest
// with lazy acceptance the kernel also accepts the memory around it, a few MiB at a time, the first time that it hands it
// out; under any hypervisor the host backs it then. The second touch has only the page fault, so the difference is
// what was paid once. A guest pays it once between boots: fresh=true boots one for each run.
var firstTouch = bench.Workload{
	Name:    "first-touch",
	Doc:     "Time to touch new memory in pages of 4 KiB, 2 MiB or 1 GiB, then memory that was given back, and how much memory a guest accepted.",
	Version: 1,
	Params: []bench.Param{
		{Name: "page", Default: "4KiB", Values: []string{"4KiB", "2MiB", "1GiB"},
			Doc: "Size of the pages. 2MiB uses transparent huge pages. 1GiB uses pages that the kernel has reserved (hugepagesz=1G hugepages=NUMBER); they were accepted when they were reserved."},
		{Name: "size", Default: "256MiB", Doc: "Amount of memory to touch, a multiple of the page size, at most the memory available in the environment."},
	},
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{firstTouchSeconds, secondTouchSeconds, touchAgainSeconds, firstGibibyte, secondGibibyte, firstOverSecond, clockDisagreement,
			firstFaults, secondFaults, firstAccepted, secondAccepted, pagesTouched}
	},
	Primary: func(bench.Params) *metric.Desc { return firstTouchSeconds },
	Sweep:   map[string][]string{"page": {"4KiB", "2MiB"}, "size": {"64MiB", "256MiB"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		size, _ := p.Bytes("size")
		return 10*time.Millisecond + time.Duration(size>>10), 0 // a second for a GiB
	},
	Job: func(p bench.Params) (bench.Job, error) {
		size, _, err := touchedPages(p)
		if err != nil {
			return bench.Job{}, err
		}
		return microJob("first-touch", p["page"], fmt.Sprint(size))
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		t, err := readTouches(o)
		if err != nil {
			return nil, err
		}
		var r reading
		size, _, _ := touchedPages(o.Params)
		perGiB := float64(t.pages) * (1 << 30) / float64(size)
		first, second := t.windows[0].cost(part.byHarness), t.windows[1].cost(part.byHarness)
		r.value(firstTouchSeconds, first, "")
		r.value(secondTouchSeconds, second, "")
		r.value(touchAgainSeconds, t.again.Seconds()/float64(t.pages), "")
		r.derived(firstGibibyte, first*perGiB, "")
		r.derived(secondGibibyte, second*perGiB, "")
		r.derived(firstOverSecond, first/second, "")
		r.samples = append(r.samples, t.disagreement())
		for i, d := range []*metric.Desc{firstFaults, secondFaults} {
			if t.faults[i] == 0 {
				r.lack(d, "the environment's kernel counts no page faults of a process")
				continue
			}
			r.value(d, float64(t.faults[i]), "")
		}
		for i, d := range []*metric.Desc{firstAccepted, secondAccepted} {
			switch before, after := t.unaccepted[i], t.unaccepted[i+1]; {
			case before < 0:
				r.lack(d, "the environment's kernel has no unaccepted memory: /proc/meminfo has no line Unaccepted (needs Linux 6.5 or later with CONFIG_UNACCEPTED_MEMORY)")
			case after > before:
				r.lack(d, "the amount of unaccepted memory grew while memory was touched: the host gave the guest more memory")
			default:
				r.value(d, float64(before-after)*1024, "")
			}
		}
		r.value(pagesTouched, float64(t.pages), "")
		return r.samples, errors.Join(r.missing...)
	},
	Check: func(o bench.Outcome) (string, error) {
		t, err := readTouches(o)
		if err != nil {
			return "", err
		}
		if err := t.check(o.Params); err != nil {
			return "", err
		}
		return digest("first-touch", o.Params["page"], o.Params["size"]), nil
	},
}

// touchedPages is the size of the memory and the number of its pages.
func touchedPages(p bench.Params) (size, pages int64, err error) {
	size, err = p.Bytes("size")
	if err != nil {
		return 0, 0, err
	}
	page, err := bench.Params{"size": p["page"]}.Bytes("size")
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("parameter page=%q: want 4KiB, 2MiB or 1GiB", p["page"])
	case size%page != 0:
		return 0, 0, fmt.Errorf("parameter size=%q: want a multiple of the page, %s", p["size"], p["page"])
	}
	return size, size / page, nil
}

// touches is the worker's output.
type touches struct {
	record            // a window for each of the two areas
	pages      uint64 // in each
	again      time.Duration
	faults     [2]uint64 // of the two; 0: the kernel counts none
	unaccepted [3]int64  // KiB before the first, after it and after the second; -1: the kernel keeps no such number
}

func readTouches(o bench.Outcome) (t touches, err error) {
	if t.record, err = readWindows(o.Inside); err != nil {
		return t, err
	}
	words := []string{"unaccepted", "faults", "unaccepted", "faults", "unaccepted", "again"}
	if len(t.others) != len(words) {
		return t, fmt.Errorf("the worker printed %d lines outside its windows, want %d", len(t.others), len(words))
	}
	for i, word := range words {
		rest, ok := strings.CutPrefix(t.others[i], word+" ")
		if word == "unaccepted" && rest == "none" {
			t.unaccepted[i/2] = -1
			continue
		}
		n := 1
		if word == "again" {
			n = 2
		}
		v, err := numbers(rest, n)
		if !ok || err != nil {
			return t, fmt.Errorf("the worker printed %.60q, want a valid line that begins with %s", t.others[i], word)
		}
		switch word {
		case "unaccepted":
			t.unaccepted[i/2] = int64(v[0])
		case "faults":
			t.faults[i/2] = v[0]
		case "again":
			t.pages, t.again = v[0], time.Duration(v[1])
		}
	}
	if none := t.unaccepted[0] < 0; none != (t.unaccepted[1] < 0) || none != (t.unaccepted[2] < 0) {
		return t, errors.New("the worker read the amount of unaccepted memory at some steps, but not at all steps")
	}
	if len(t.windows) != 2 || len(t.windows[0]) != 1 || len(t.windows[1]) != 1 {
		return t, fmt.Errorf("the worker touched %d areas, or an area in several parts: want two areas, each in one part", len(t.windows))
	}
	if n, m := t.windows[0].operations(), t.windows[1].operations(); n != t.pages || m != t.pages {
		return t, fmt.Errorf("the worker touched %d, %d and %d pages, want the same number each time", n, m, t.pages)
	}
	if t.again <= 0 {
		return t, errors.New("the worker's clock did not advance while the worker touched all pages once more: set a larger size")
	}
	return t, nil
}

// otherFaults are the most faults that a run may have besides those of its pages: in pages of the worker's own.
// One page of 2 MiB that the kernel made of small ones has 511.
const otherFaults = 256

// check refuses other work than the parameters ask for, and memory that was not new or in pages of another size.
func (t touches) check(p bench.Params) error {
	_, want, err := touchedPages(p)
	if err != nil {
		return err
	}
	if t.pages != uint64(want) {
		return fmt.Errorf("the worker touched %d pages, want %d", t.pages, want)
	}
	if t.wrong > 0 {
		return fmt.Errorf("the memory had unexpected content at %d places", t.wrong)
	}
	for i, n := range t.faults {
		area := []string{"first", "second"}[i]
		switch {
		case n == 0: // not counted here
		case n < t.pages:
			return fmt.Errorf("writing to each of %d new pages of %s in the %s area made only %d page faults: the memory was not new, or the kernel used larger pages (transparent huge pages?)", t.pages, p["page"], area, n)
		case n > t.pages+otherFaults && p["page"] != "4KiB":
			return fmt.Errorf("writing to each of %d new pages of %s in the %s area made %d page faults: the kernel used smaller pages. Either huge pages are off (see /sys/kernel/mm/transparent_hugepage/enabled), or memory is fragmented", t.pages, p["page"], area, n)
		}
	}
	return nil
}
