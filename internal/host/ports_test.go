package host

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestFreePorts(t *testing.T) {
	text, err := Local().ReadString("/proc/sys/net/ipv4/ip_local_port_range")
	var low, high int
	if _, scan := fmt.Sscan(text, &low, &high); err != nil || scan != nil {
		t.Fatalf("%q: %v, %v", text, err, scan)
	}
	seen := map[int]bool{}
	for range 20 {
		ports, err := Local().FreePorts(3)
		if err != nil || len(ports) != 3 {
			t.Fatalf("%v, %v", ports, err)
		}
		for _, p := range ports {
			if seen[p] {
				t.Errorf("port %d is given twice", p)
			}
			seen[p] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				t.Errorf("port %d is not free: %v", p, err)
				continue
			}
			if free, err := claim(p); free || err != nil {
				t.Errorf("a port that was given is free for others: %v, %v", free, err)
			}
			_ = l.Close()
			if first, last := portRange(text); p < first || p > last {
				t.Errorf("port %d is not from %d to %d", p, first, last)
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if free, err := claim(taken); free || err != nil {
		t.Errorf("a port on which another program listens: free %v, %v", free, err)
	}
	_ = l.Close()
	if free, err := claim(taken); !free || err != nil {
		t.Errorf("a port on which nobody listens any more: free %v, %v", free, err)
	}
}

func TestBeyond(t *testing.T) {
	for text, want := range map[string][2]int{
		"32768\t60999\n": {10_000, 32_767},
		"1024\t60999":    {61_000, 65_535},
		"1024 65535":     {10_000, 65_535},
		"":               {10_000, 32_767},
		"many":           {10_000, 32_767},
	} {
		t.Run(text, func(t *testing.T) {
			if first, last := portRange(text); !slices.Equal([]int{first, last}, want[:]) {
				t.Errorf("beyond %q: %d to %d, want %v", strings.TrimSpace(text), first, last, want)
			}
		})
	}
}
