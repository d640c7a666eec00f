package result

import (
	"maps"
	"testing"
)

func TestWithoutFolders(t *testing.T) {
	got := withoutFolders(map[string]string{"programs": "/home/ann/java/target", "program": "/home/ann/bin/teescope agent --listen 127.0.0.1:1", "data": "/tmp", "java": "/usr/bin/java", "size": "64"})
	want := map[string]string{"programs": "target", "program": "teescope agent --listen 127.0.0.1:1", "data": "/tmp", "java": "/usr/bin/java", "size": "64"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if withoutFolders(nil) != nil {
		t.Error("no parameters became some")
	}
}

// TestSummarizeCmdline: what can change a cost stays, the rest is a digest, so lines that differ in it still differ.
func TestSummarizeCmdline(t *testing.T) {
	a := summarizeCmdline("mitigations=off root=UUID=1 quiet swiotlb=force")
	if want := "mitigations=off swiotlb=force (2 others, "; a[:len(want)] != want {
		t.Errorf("%q, want it to begin with %q", a, want)
	}
	if b := summarizeCmdline("mitigations=off root=UUID=2 quiet swiotlb=force"); b == a {
		t.Errorf("lines that differ in root= are both %q", a)
	}
	for line, want := range map[string]string{"": "", "psi=1": "psi=1"} {
		t.Run(line, func(t *testing.T) {
			if got := summarizeCmdline(line); got != want {
				t.Errorf("%q: %q, want %q", line, got, want)
			}
		})
	}
}

// TestFoldCalls: the sum of each process's calls stays what it was.
func TestFoldCalls(t *testing.T) {
	call := func(name string, n float64) Counter {
		return Counter{Name: callsCounter, Labels: map[string]string{"process": "server", callLabel: name}, Value: &n, PerOperation: &n}
	}
	unread := Counter{Name: callsCounter, Labels: map[string]string{callLabel: "gone"}}
	few := 3.0
	alone := Counter{Name: callsCounter, Labels: map[string]string{"process": "shell", callLabel: "brk"}, Value: &few, PerOperation: &few}
	runs := []Run{
		{Counters: []Counter{call("read", 900), call("mmap", 1), call("brk", 2), unread, alone}},
		{Counters: []Counter{call("read", 100), call("mmap", 5), call("brk", 0)}},
	}
	frequent := frequentCalls(runs)
	want := []map[string]float64{{"server read": 900, "server mmap": 1, "server other": 2, "shell brk": 3}, {"server read": 100, "server mmap": 5, "server other": 0}}
	for i := range runs {
		got := map[string]float64{}
		for _, c := range foldCalls(runs[i].Counters, frequent) {
			if c.Value != nil {
				got[c.Labels["process"]+" "+c.Labels[callLabel]] = *c.Value
			} else if c.Labels[callLabel] != "gone" {
				t.Errorf("run %d: %v has no value", i, c.Labels)
			}
		}
		if !maps.Equal(got, want[i]) {
			t.Errorf("run %d: %v, want %v", i, got, want[i])
		}
	}
	if foldCalls(nil, frequent) != nil {
		t.Error("no counters became some")
	}
}
