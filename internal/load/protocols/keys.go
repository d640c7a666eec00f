package protocols

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/load"
)

// keyed is a command with keys, for stores of values by key.
type keyed struct {
	words  []string // of the command; {key} in one is the key
	reads  bool     // it requests a value stored earlier
	keys   int
	filler []byte // a value of another key starts differently
}

// newKeyed reads a command; reads are the names of commands that return a value.
func newKeyed(a load.Ask, reads ...string) (*keyed, error) {
	k := &keyed{words: strings.Fields(a.Command), keys: a.Keys}
	if len(k.words) == 0 {
		return nil, errCommand
	}
	if k.keys < 1 || k.keys > load.MostKeys || a.Bytes < 1 || a.Bytes > load.MostBuffered/2 {
		return nil, fmt.Errorf("%d keys with values of %d bytes: want 1 to %d keys and 1 to %d bytes", a.Keys, a.Bytes, load.MostKeys, load.MostBuffered/2)
	}
	for _, r := range reads {
		k.reads = k.reads || strings.EqualFold(k.words[0], r) && strings.Contains(a.Command, "{key}")
	}
	k.filler = value(0, a.Bytes)
	return k, nil
}

// keyDigits is the fixed number of digits of a key, so all requests have one length.
const keyDigits = 9

// appendKey writes a key's number.
func appendKey(b []byte, key int) []byte {
	var digits [keyDigits]byte
	for i := keyDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + key%10)
		key /= 10
	}
	return append(b, digits[:]...)
}

// appendWord writes a word of the command.
func appendWord(b []byte, word string, key int) []byte {
	before, after, found := strings.Cut(word, "{key}")
	b = append(b, before...)
	if found {
		b = append(appendKey(b, key), after...)
	}
	return b
}

// wordLength is how long appendWord makes it.
func wordLength(word string) int {
	if strings.Contains(word, "{key}") {
		return len(word) - len("{key}") + keyDigits
	}
	return len(word)
}

// value is the value of a key: its number, then letters that do not compress well.
func value(key, size int) []byte {
	b := appendKey(make([]byte, 0, max(size, keyDigits)), key)
	r := rand.New(rand.NewPCG(1, 2))
	for len(b) < size {
		b = append(b, byte('a'+r.IntN(26)))
	}
	return b[:size]
}

// appendValue writes the value of a key.
func (k *keyed) appendValue(b []byte, key int) []byte {
	at := len(b)
	b = append(b, k.filler...)
	var digits [keyDigits]byte
	copy(b[at:], appendKey(digits[:0], key))
	return b
}

// right reports whether v is the value of a key.
func (k *keyed) right(v []byte, key int) bool {
	if len(v) != len(k.filler) {
		return false
	}
	var digits [keyDigits]byte
	n := min(len(v), keyDigits)
	return bytes.Equal(v[:n], appendKey(digits[:0], key)[:n]) && bytes.Equal(v[n:], k.filler[n:])
}

// digest covers the command and its data, all of which was checked.
func (k *keyed) digest() string {
	return strings.Join(k.words, " ") + ": " + strconv.Itoa(k.keys) + " keys, values of " + strconv.Itoa(len(k.filler)) + " bytes"
}

// drawn are the keys that a connection has requested and has no answer to yet.
type drawn struct {
	random *rand.Rand
	keys   []int
}

func newDrawn(seed uint64) drawn { return drawn{random: rand.New(rand.NewPCG(seed, 0x6b6579))} }

func (d *drawn) draw(n int) int {
	key := d.random.IntN(n)
	d.keys = append(d.keys, key)
	return key
}

// next is the key of the next answer; there is none if the server sent more than was
// requested.
func (d *drawn) next() (key int, asked bool) {
	if len(d.keys) == 0 {
		return 0, false
	}
	key = d.keys[0]
	d.keys = d.keys[:copy(d.keys, d.keys[1:])]
	return key, true
}

var errCommand = errors.New("want a command, as in --command 'GET key:{key}'")
