package metric

import (
	"fmt"
	"slices"
)

// SeriesKey identifies a series. Only series with more than four labels allocate.
type SeriesKey struct {
	desc   *Desc
	labels [4]string
	more   string
}

// Key identifies the series of a sample.
func (s Sample) Key() SeriesKey {
	key := SeriesKey{desc: s.Desc}
	if n := copy(key.labels[:], s.Labels); n < len(s.Labels) {
		key.more = fmt.Sprintf("%q", s.Labels[n:])
	}
	return key
}

// Process is the process name in a sample's labels, if it has one.
func (s Sample) Process() (name string, has bool) {
	i := slices.Index(s.Desc.Labels, "process")
	if i < 0 {
		return "", false
	}
	return s.Labels[i], true
}
