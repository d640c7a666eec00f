package store

// Samples that the store refuses one by one, such as those out of order, with their reasons; the rest of the round is
// stored.

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/metric"
)

// Why a sample of a round is refused before the database sees it.
var (
	errLabels    = errors.New("its labels do not match its declaration")
	errLabelName = errors.New("not a name of a metric or a label")
	errNotWhole  = errors.New("not a whole")
	errTwice     = errors.New("twice in one round")
)

// reasons are why one sample is refused while others are stored, as the label of a metric.
var reasons = [...]struct {
	name string
	are  []error
}{
	{"twice in one round", []error{errTwice}},
	{"another value of that time", []error{storage.ErrDuplicateSampleForTimestamp}},
	{"older than the series", []error{storage.ErrOutOfOrderSample, storage.ErrTooOldSample}},
	{"older or later than the store takes", []error{storage.ErrOutOfBounds}},
	{"bad labels", []error{errLabels, errLabelName, tsdb.ErrInvalidSample}},
	{"not a whole histogram", []error{errNotWhole}},
	{"other", nil},
}

// reasonOf returns the index of an error's reason.
func reasonOf(err error) int {
	for i, r := range reasons {
		for _, e := range r.are {
			if errors.Is(err, e) {
				return i
			}
		}
	}
	return len(reasons) - 1
}

// namedMost is the number of refused samples that a Refused names.
const namedMost = 3

// Refused is the error of a round that is stored, but for some of its samples.
type Refused struct {
	Samples, Of int
	First       []error // the first few, with series and reason

	byReason [len(reasons)]int
}

func (r *Refused) add(err error) {
	r.Samples++
	r.byReason[reasonOf(err)]++
	if len(r.First) < namedMost {
		r.First = append(r.First, err)
	}
}

func (r *Refused) Error() string {
	var text []string
	for _, err := range r.First {
		text = append(text, err.Error())
	}
	if n := r.Samples - len(r.First); n > 0 {
		text = append(text, fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("append: %d of %d samples refused, the others are stored: %s", r.Samples, r.Of, strings.Join(text, "; "))
}

// refusals counts refused samples by reason.
type refusals [len(reasons)]atomic.Uint64

func (c *refusals) add(n [len(reasons)]int) {
	for i := range n {
		c[i].Add(uint64(n[i]))
	}
}

func (c *refusals) collect(emit func(metric.Sample)) {
	for i := range c {
		emit(metric.Sample{Desc: descRefused, Labels: []string{reasons[i].name}, Value: float64(c[i].Load())})
	}
}
