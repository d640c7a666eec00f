package repair

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
)

// TestInterrupted: what an interrupted write leaves at the end of a segment is told from damage.
func TestInterrupted(t *testing.T) {
	fragment := func(kind byte, payload []byte) []byte {
		b := append([]byte{kind}, binary.BigEndian.AppendUint16(nil, uint16(len(payload)))...)
		return append(binary.BigEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli)), payload...)
	}
	const full, first, middle = 1, 2, 3
	page := fragment(first, make([]byte, walPage-walFragment))
	payload := bytes.Repeat([]byte("0123456789"), 200)
	flipped := fragment(full, payload)
	flipped[100] ^= 1
	unwritten := append(fragment(full, payload)[:1000], make([]byte, 1007)...)
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"nothing":                        {nil, true},
		"zeros":                          {make([]byte, 100_000), true},
		"part of a header":               {fragment(full, payload)[:3], true},
		"part of a record":               {fragment(full, payload)[:1000], true},
		"first page of a record":         {page, true},
		"two pages and a part":           {append(append(append([]byte{}, page...), fragment(middle, make([]byte, walPage-walFragment))...), fragment(4, payload)[:500]...), true},
		"a record without its last part": {unwritten, false},
		"garbage":                        {[]byte(strings.Repeat("garbage!", 500)), false},
		"garbage behind zeros":           {append(make([]byte, 100), "garbage!"...), false},
		"garbage behind a page":          {append(append([]byte{}, page...), "garbage!"...), false},
		"a bit of a record":              {flipped, false},
		"longer than a page":             {append([]byte{full, 0xff, 0xff, 0, 0, 0, 0}, payload...), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := interrupted(c.b, 0); got != c.want {
				t.Errorf("%s: interrupted %v, want %v", name, got, c.want)
			}
		})
	}
}
