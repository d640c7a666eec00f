package main

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPages: each kind of target has about 150 series, each once, and counters never fall.
func TestPages(t *testing.T) {
	a := &agents{lines: pageOf(0)}
	read := func(target int, s float64) map[string]float64 {
		var b bytes.Buffer
		a.page(&b, target, s)
		out := map[string]float64{}
		for l := range strings.Lines(b.String()) {
			if strings.HasPrefix(l, "#") {
				continue
			}
			i := strings.LastIndexByte(l, ' ')
			v, err := strconv.ParseFloat(strings.TrimSpace(l[i+1:]), 64)
			if err != nil {
				t.Fatalf("%q: %v", l, err)
			}
			if _, twice := out[l[:i]]; twice {
				t.Errorf("twice: %s", l[:i])
			}
			out[l[:i]] = v
		}
		return out
	}
	for target := range 3 {
		early, late := read(target, 10), read(target, 100)
		if n := len(early); n < 145 || n > 155 {
			t.Errorf("target %d has %d series, want about 150", target, n)
		}
		moved := 0
		for name, v := range late {
			if v != early[name] {
				moved++
			}
			if base, _, _ := strings.Cut(name, "{"); strings.HasSuffix(base, "_total") && v < early[name] {
				t.Errorf("the counter %s falls from %v to %v", name, early[name], v)
			}
		}
		if moved < 100 {
			t.Errorf("only %d of %d values move", moved, len(late))
		}
	}
	if one, other := read(0, 10), read(3, 10); one[`node_load1`] == other[`node_load1`] {
		t.Error("two targets have the same values")
	}
	steal := `node_cpu_seconds_total{cpu="0",mode="steal"}`
	if read(42, 10)[steal] == 0 || read(41, 10)[steal] != 0 {
		t.Error("want steal on one target in a hundred")
	}
	if with := pageOf(60); len(with) != len(a.lines)+60*14 {
		t.Errorf("60 enclaves add %d series, want 14 each", len(with)-len(a.lines))
	}
}

// TestAddresses: each target has its own address, and is found again by it.
func TestAddresses(t *testing.T) {
	seen := map[string]bool{}
	for _, target := range []int{0, 1, 249, 250, 5999, 62499, 62500, mostTargets - 1} {
		ip := addressOf(target)
		if got, ok := targetAt(&net.TCPAddr{IP: ip}); !ok || got != target || !ip.IsLoopback() || seen[ip.String()] {
			t.Errorf("target %d has the address %v, which is of %d, %v", target, ip, got, ok)
		}
		seen[ip.String()] = true
	}
	for _, elsewhere := range []string{"127.0.0.1", "192.0.2.1", "::1"} {
		if got, ok := targetAt(&net.TCPAddr{IP: net.ParseIP(elsewhere)}); ok {
			t.Errorf("%s is taken for target %d", elsewhere, got)
		}
	}
}

// TestCount: scrapes that are missed at the beginning, in the middle and at the end, that fail, and targets without any.
func TestCount(t *testing.T) {
	at := func(list ...float64) (s series) {
		for _, v := range list {
			s.Values = append(s.Values, reading{v, 1})
		}
		return s
	}
	failed := at(5, 20, 35, 50)
	failed.Values[2].value = 0
	for _, tt := range []struct {
		name string
		ups  []series
		want scrapes
	}{
		{"all there", []series{at(5, 20, 35, 50), at(15, 30, 45, 60), at(0.1, 15.1, 30.1, 45.1)}, scrapes{}},
		{"late", []series{at(5, 20, 36, 50)}, scrapes{latest: time.Second}},
		{"late at both ends", []series{at(16, 30, 44)}, scrapes{}},
		{"one missing in the middle", []series{at(5, 20, 50)}, scrapes{missed: 1, latest: 15 * time.Second}},
		{"first missing", []series{at(20, 35, 50)}, scrapes{missed: 1}},
		{"last missing", []series{at(5, 20, 35)}, scrapes{missed: 1}},
		{"failed", []series{failed}, scrapes{failed: 1}},
		{"none at all", nil, scrapes{missed: 4}},
	} {
		got := count(tt.ups, max(1, len(tt.ups)), time.Unix(0, 0), time.Unix(60, 0), 15*time.Second)
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestChoose: numbers and times that make no sense are refused.
func TestChoose(t *testing.T) {
	for list, good := range map[string]bool{"100,6000": true, "0": false, "": false, "6,x": false, "99999999": false} {
		o := options{every: 15 * time.Second, age: time.Minute, short: time.Minute}
		if err := o.choose(list); (err == nil) != good {
			t.Errorf("-targets %q: %v", list, err)
		}
	}
	for _, o := range []options{{every: time.Millisecond, age: time.Minute, short: time.Minute}, {every: 15 * time.Second, age: time.Minute, short: 30 * time.Second}} {
		if o.choose("1") == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
