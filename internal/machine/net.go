package machine

import "strings"

// NetColumns are the columns of /proc/net/dev, in order.
var NetColumns = [...]string{"receive bytes", "receive packets", "receive errs", "receive drop", "receive fifo", "receive frame", "receive compressed", "receive multicast",
	"transmit bytes", "transmit packets", "transmit errs", "transmit drop", "transmit fifo", "transmit colls", "transmit carrier", "transmit compressed"}

// NetDevice is the line of a device in /proc/net/dev. A column that is not Known has a bad cell.
type NetDevice struct {
	Name  string
	Cells [len(NetColumns)]uint64
	Known [len(NetColumns)]bool
}

// ParseNetDev reads /proc/net/dev (proc_pid_net(5)); the error lists what is wrong. A name may hold anything but a blank, a
// slash and a colon, unless the colon is that of an alias ("eth0:1").
func ParseNetDev(file string, b []byte, device func(NetDevice)) error {
	t := Text{File: file}
	seen := map[string]bool{}
	for line := range t.Lines(b) {
		if t.line <= 2 { // the header
			if !strings.Contains(line, "|") {
				t.Bad("want a header, not %.40q", line)
			}
			continue
		}
		at := strings.LastIndexByte(line, ':')
		f := strings.Fields(line[at+1:])
		d := NetDevice{Name: strings.TrimLeft(line[:max(0, at)], " ")}
		switch {
		case d.Name == "":
			t.Bad("%.40q names no device", line)
			continue
		case len(f) < len(NetColumns): // cut off: the last number may be
			t.Bad("%.40q has %d numbers, want %d", d.Name, len(f), len(NetColumns))
			continue
		case seen[d.Name]:
			t.Bad("%.40q a second time", d.Name)
			continue
		}
		seen[d.Name] = true
		for i, name := range NetColumns {
			d.Cells[i], d.Known[i] = t.Count(d.Name+" "+name, f[i])
		}
		device(d)
	}
	return t.Err()
}
