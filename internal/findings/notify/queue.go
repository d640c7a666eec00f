package notify

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/locked"
)

// queue holds the messages for a receiver, in order, in memory and on disk. It also holds the findings that the
// receiver will consider open once it has read them.
type queue struct {
	damaged int    // lines that could not be read
	kept    string // a copy of the file as it was, if it was damaged
	cut     int64  // length of a last line without its end
	backlog locked.Value[backlog]
}

// backlog is what a queue holds.
type backlog struct {
	max     int
	damaged int
	file    *findings.Journal
	waiting []message
	told    map[string]findings.Record // by id
	last    uint64                     // number of the last message
	lines   int                        // in the file
	behind  bool                       // the file lacks what memory has
}

// message is a waiting finding; numbers ascend from 1. Number 0 stands for a line that cannot be read, while the file is.
type message struct {
	number uint64
	findings.Record
}

// entry is one line of the file; one field is set. Done removes the first waiting
// message.
type entry struct {
	Told *findings.Record `json:"told,omitempty"`
	Put  *findings.Record `json:"put,omitempty"`
	Done bool             `json:"done,omitempty"`
}

// spare is the number of obsolete lines that the file may have beyond the number it needs.
const spare = 256

func openQueue(path string, limit int) (*queue, error) {
	b := backlog{max: limit, told: map[string]findings.Record{}}
	var err error
	if b.file, err = findings.OpenJournal(path, b.replay); err != nil {
		return nil, err
	}
	if b.damaged > 0 {
		b.file.KeepDamaged()
		b.waiting = slices.DeleteFunc(b.waiting, func(m message) bool { return m.number == 0 })
		b.behind = true // the next write leaves out what cannot be read
	}
	return &queue{damaged: b.damaged, kept: b.file.Kept, cut: b.file.Cut, backlog: locked.New(b)}, nil
}

// replay takes one line of the file.
func (b *backlog) replay(line []byte) {
	b.lines++
	var e entry
	switch err := json.Unmarshal(line, &e); {
	case err == nil && e.Put != nil:
		b.add(*e.Put)
	case err == nil && e.Told != nil:
		b.told[e.Told.ID] = *e.Told
	case err == nil && e.Done && len(b.waiting) > 0:
		b.waiting = b.waiting[1:]
	default: // perhaps a message, and a later Done is its own: rather one is sent again than lost
		b.damaged++
		b.waiting = append(b.waiting, message{})
	}
}

func (b *backlog) add(r findings.Record) {
	b.last++
	b.waiting = append(b.waiting, message{b.last, r})
	if r.State == findings.Open {
		b.told[r.ID] = r
	} else {
		delete(b.told, r.ID)
	}
}

// enqueue adds a message and returns how many it displaced. After an error it is not on
// the disk yet.
func (q *queue) enqueue(r findings.Record) (lost int, err error) {
	b := q.backlog.Lock()
	defer q.backlog.Unlock()
	b.add(r)
	list := []entry{{Put: &r}}
	for len(b.waiting) > b.max {
		b.waiting = b.waiting[1:]
		list = append(list, entry{Done: true})
		lost++
	}
	return lost, b.write(list...)
}

// head returns the oldest message.
func (q *queue) head() (message, bool) {
	b := q.backlog.Lock()
	defer q.backlog.Unlock()
	if len(b.waiting) == 0 {
		return message{}, false
	}
	return b.waiting[0], true
}

// done removes a message, unless it was displaced.
func (q *queue) done(m message) error {
	b := q.backlog.Lock()
	defer q.backlog.Unlock()
	if len(b.waiting) == 0 || b.waiting[0].number != m.number {
		return nil
	}
	b.waiting = b.waiting[1:]
	return b.write(entry{Done: true})
}

// write appends lines to the file. It rewrites the file if it lacks messages or has too many obsolete lines.
func (b *backlog) write(list ...entry) error {
	anew := b.behind || b.lines+len(list) > 2*(len(b.told)+len(b.waiting))+spare
	if anew {
		list = list[:0]
		for _, id := range slices.Sorted(maps.Keys(b.told)) {
			r := b.told[id]
			list = append(list, entry{Told: &r})
		}
		for i := range b.waiting {
			list = append(list, entry{Put: &b.waiting[i].Record})
		}
	}
	lines := make([][]byte, len(list))
	for i, e := range list {
		var err error
		if lines[i], err = json.Marshal(e); err != nil {
			b.behind = true
			return err
		}
	}
	var err error
	if anew {
		err = b.file.Replace(lines...)
		b.lines = len(lines)
	} else {
		err = b.file.Append(lines...)
		b.lines += len(lines)
	}
	b.behind = err != nil
	return err
}

// isTold returns the findings, by id, that the receiver will consider open after all messages.
func (q *queue) isTold() map[string]findings.Record {
	held := q.backlog.Lock()
	defer q.backlog.Unlock()
	return maps.Clone(held.told)
}

func (q *queue) length() int {
	held := q.backlog.Lock()
	defer q.backlog.Unlock()
	return len(held.waiting)
}

func (q *queue) close() error {
	b := q.backlog.Lock()
	defer q.backlog.Unlock()
	var err error
	if b.behind {
		err = b.write()
	}
	if e := b.file.Close(); err == nil {
		err = e
	}
	return err
}
