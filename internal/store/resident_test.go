package store

import (
	"reflect"
	"strings"
	"testing"
)

func TestSharedMappings(t *testing.T) {
	const maps = `00400000-01a00000 r-xp 00000000 fe:00 12 /usr/bin/teescope
c000000000-c000400000 rw-p 00000000 00:00 0
7f0000000000-7f0000200000 r--s 00000000 fe:00 31 /var/lib/tee scope/01K/chunks/000001
7f0000200000-7f0000210000 r--s 00000000 fe:00 31                         /var/lib/tee scope/chunks_head/000005 (deleted)
7f0000300000-7f0000400000 r--s 00000000 fe:00 33 /var/lib/tee scope other/index
7f0000400000-7f0000500000 rw-s 00000000 fe:00 34 /var/lib/tee scope/wal
7f0000500000-7f0000600000 r--p 00000000 fe:00 35 /var/lib/tee scope/01K/index
7f0000600000-7f0000700000 r--s 00000000 00:0e 1 anon_inode:bpf-map
nonsense
zz-7f00 r--s 00000000 fe:00 36 /var/lib/tee scope/index
`
	got := sharedMappings(strings.NewReader(maps), "/var/lib/tee scope")
	want := []mapping{{0x7f0000000000, 0x7f0000200000}, {0x7f0000200000, 0x7f0000210000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
