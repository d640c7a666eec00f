package notify

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/teescope/teescope/internal/findings"
)

// queue holds the messages for a receiver, in order, in memory and on disk, and the
// findings that the receiver believes to be open after them.
type queue struct {
	max     int
	damaged int // lines that could not be read

	mu      sync.Mutex // guards what follows
	file    *findings.Journal
	waiting []message
	told    map[string]findings.Record // by id
	last    uint64                     // number of the last message
	lines   int                        // in the file
	behind  bool                       // the file lacks what memory has
}

// message is a waiting finding; numbers ascend.
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

// spare is how many lines that say nothing any more the file may have beside as
// many as say something.
const spare = 256

func openQueue(path string, limit int) (*queue, error) {
	q := &queue{max: limit, told: map[string]findings.Record{}}
	file, err := findings.OpenJournal(path, q.replay)
	q.file = file
	return q, err
}

// replay takes one line of the file.
func (q *queue) replay(line []byte) {
	q.lines++
	var e entry
	switch err := json.Unmarshal(line, &e); {
	case err == nil && e.Put != nil:
		q.add(*e.Put)
	case err == nil && e.Told != nil:
		q.told[e.Told.ID] = *e.Told
	case err == nil && e.Done && len(q.waiting) > 0:
		q.waiting = q.waiting[1:]
	default:
		q.damaged++
	}
}

func (q *queue) add(r findings.Record) {
	q.last++
	q.waiting = append(q.waiting, message{q.last, r})
	if r.State == findings.Open {
		q.told[r.ID] = r
	} else {
		delete(q.told, r.ID)
	}
}

// put adds a message and returns how many it displaced. After an error it is not on
// the disk yet.
func (q *queue) put(r findings.Record) (lost int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(r)
	list := []entry{{Put: &r}}
	for len(q.waiting) > q.max {
		q.waiting = q.waiting[1:]
		list = append(list, entry{Done: true})
		lost++
	}
	return lost, q.write(list...)
}

// head returns the oldest message.
func (q *queue) head() (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return message{}, false
	}
	return q.waiting[0], true
}

// done removes a message, unless it was displaced.
func (q *queue) done(m message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.waiting[0].number != m.number {
		return nil
	}
	q.waiting = q.waiting[1:]
	return q.write(entry{Done: true})
}

// write adds lines to the file, or writes it anew when it is behind or holds much
// that says nothing any more; q.mu is held.
func (q *queue) write(list ...entry) error {
	anew := q.behind || q.lines+len(list) > 2*(len(q.told)+len(q.waiting))+spare
	if anew {
		list = list[:0]
		for _, id := range slices.Sorted(maps.Keys(q.told)) {
			r := q.told[id]
			list = append(list, entry{Told: &r})
		}
		for i := range q.waiting {
			list = append(list, entry{Put: &q.waiting[i].Record})
		}
	}
	lines := make([][]byte, len(list))
	for i, e := range list {
		var err error
		if lines[i], err = json.Marshal(e); err != nil {
			q.behind = true
			return err
		}
	}
	var err error
	if anew {
		err = q.file.Replace(lines...)
		q.lines = len(lines)
	} else {
		err = q.file.Append(lines...)
		q.lines += len(lines)
	}
	q.behind = err != nil
	return err
}

// isTold are the findings that the receiver believes to be open after all messages,
// by id.
func (q *queue) isTold() map[string]findings.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.told)
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var err error
	if q.behind {
		err = q.write()
	}
	if e := q.file.Close(); err == nil {
		err = e
	}
	return err
}
