package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// TestReasonOf: a refused sample has the reason of what its error wraps, however deep.
func TestReasonOf(t *testing.T) {
	for err, want := range map[error]string{
		errTwice: "twice in one round", storage.ErrDuplicateSampleForTimestamp: "another value of that time",
		storage.ErrOutOfOrderSample: "older than the series", storage.ErrTooOldSample: "older than the series",
		storage.ErrOutOfBounds: "older or later than the store takes",
		errLabels:              "bad labels", errLabelName: "bad labels", tsdb.ErrInvalidSample: "bad labels",
		errNotWhole: "not a whole histogram", errors.New("another"): "other",
	} {
		wrapped := fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))
		if got := reasons[reasonOf(wrapped)].name; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	tried := 0
	for _, r := range reasons {
		tried += max(1, len(r.are)) // the last is for all others
	}
	if tried != 10 {
		t.Errorf("%d errors have a reason, 10 are tried here", tried)
	}
}

// TestRefusedCounts: all samples of a scrape that is refused are counted, which they are only if none of them ends the scrape; one that
// is given up for another reason counts none.
func TestRefusedCounts(t *testing.T) {
	all := &tally{}
	r := &refused{tally: all, err: errNoSpace}
	for range 3 {
		if _, err := r.Append(0, labels.EmptyLabels(), 0, 1); err != nil {
			t.Fatalf("it ends the scrape: %v", err)
		}
	}
	if err := r.Commit(); !errors.Is(err, errNoSpace) || all.lost.Load() != 3 {
		t.Errorf("%v, %d samples lost", err, all.lost.Load())
	}
	r = &refused{tally: all, err: errNoSpace, n: 5}
	if err := r.Rollback(); err != nil || all.lost.Load() != 3 {
		t.Errorf("given up: %v, %d samples lost", err, all.lost.Load())
	}
}

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
		if got := interrupted(c.b, 0); got != c.want {
			t.Errorf("%s: interrupted %v, want %v", name, got, c.want)
		}
	}
}
