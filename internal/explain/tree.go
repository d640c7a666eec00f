// Package explain says where time went: how often something happened times the cost of
// one, compared with the measured time, and the rest that nothing explains.
//
// A Ledger holds the counts. It is filled from stored series over a window
// (Catalog.Window), or from the counters of a benchmark's runs (Catalog.Difference).
// Both become a Tree, which the command line, the page, the API and reports show.
// What events cost and what makes programs slow are members, in explain/prices and
// explain/causes; a Catalog holds both lists.
package explain

import (
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// Amount is an estimate with its 95 % interval, in the unit of its place.
type Amount struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Origin says where a unit cost comes from, best first.
type Origin string

// The origins: the measured time of these very events, known events timed on this
// host, the process's CPU time where only their number varies, and what others measured on
// other processors.
const (
	Measured   Origin = "measured"
	Calibrated Origin = "calibrated"
	Regressed  Origin = "regression"
	Published  Origin = "literature"
)

// Unit is what one event costs, in seconds.
type Unit struct {
	Amount
	Origin Origin `json:"origin"`
	// How says in a sentence how it was found.
	How string `json:"how"`
}

// Part is the kind of time that a row is part of.
type Part string

// The parts of the time in which a process has work: computing outside the
// kernel, computing inside it, and waiting for a lock or a disk.
const (
	User   Part = "user"
	Kernel Part = "kernel"
	Wait   Part = "wait"
)

// Row is a line of the tree. Rates, times and shares are per Tree.Per.
type Row struct {
	// event is what is counted, and whose cause is looked up; the zero Event has none.
	event Event
	// ID is stable ("syscall:futex", "faults", "lock", "own"), and never parsed.
	ID    string `json:"id"`
	Title string `json:"title"`
	Part  Part   `json:"part"`
	// Rate is how often it happens and Unit what one costs; both are absent for time
	// that is not made of events.
	Rate *Amount `json:"rate,omitempty"`
	Unit *Unit   `json:"unit,omitempty"`
	// Base is the rate in the baseline, of a comparison's rows.
	Base *Amount `json:"base,omitempty"`
	// Time in seconds, and its share of the tree's active time.
	Time  Amount `json:"time"`
	Share Amount `json:"share"`
	// Cause names the rule about it, "" for the process's own work; Advice says what to do.
	Cause    string           `json:"cause,omitempty"`
	Advice   string           `json:"advice,omitempty"`
	Evidence []query.Evidence `json:"evidence"`
	// Rows are its parts, if known. Their times may add up to more than its own;
	// Tree.Checks then says so.
	Rows []Row `json:"rows,omitempty"`
	// Reason says what the numbers rest on, or why one is missing.
	Reason string `json:"reason,omitempty"`
	// TEE: the row is what the trusted execution environment does.
	TEE bool `json:"tee,omitempty"`
}

// Group is the sum of the rows that a TEE adds.
type Group struct {
	// Title is a sentence with the number and the rows.
	Title string `json:"title"`
	Share Amount `json:"share"`
}

// Machine is what the TEE does on the whole machine of a process, where no counter
// says for which process.
type Machine struct {
	// Busy is the CPU time in use, in cores; 0 where it is not known.
	Busy float64 `json:"busy"`
	// Rows are sorted by time, which is in cores; a share is of Busy. A row without a unit
	// cost says why.
	Rows []Row `json:"rows"`
}

// Check compares explained time with an independent measurement of it.
type Check struct {
	Text      string  `json:"text"`
	Explained float64 `json:"explained"` // cores
	Measured  float64 `json:"measured"`  // cores
	// Holds: the two agree within their intervals, and no more is explained than measured.
	Holds bool `json:"holds"`
}

// Unseen is the time that a sampling clock may have missed: 0, with the upper end of its
// interval. Both are zero if the clock's interval is unknown.
type Unseen struct {
	CPU  Amount `json:"cpu"`
	Wait Amount `json:"wait"`
}

// unseenIn returns the unseen time of a part.
func (u Unseen) unseenIn(p Part) Amount {
	if p == Wait {
		return u.Wait
	}
	return u.CPU
}

// Tree is where the time of a process went in a window, or what an operation takes
// longer in one arm of an experiment than in another.
type Tree struct {
	Subject  string `json:"subject"` // process, or the arm that is compared
	Instance string `json:"instance,omitempty"`
	// RunsIn are the units, containers and programs in a runtime in which the processes of the subject run now, added up; nil where
	// that is not known.
	RunsIn []string `json:"runsIn,omitempty"`
	// Baseline and Case are those of a comparison. Its rates, times and Active are what
	// the treatment has more than the baseline, and negative where it has less.
	Baseline string    `json:"baseline,omitempty"`
	Case     string    `json:"case,omitempty"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	// Per is "second", "request" or, of a comparison, "operation"; Requests is the number of requests a second, with
	// the counter that it comes from, where there is one.
	Per      string          `json:"per"`
	Requests *query.Evidence `json:"requests,omitempty"`
	// Active is the time in which the subject had work: on a CPU, or waiting for a lock,
	// for a disk or for a CPU; in thread-seconds. Waiting for work is no part of it, nor
	// is waiting for a CPU part of that of a comparison.
	Active Amount `json:"active"`
	// Rows are sorted by share. Unexplained is the measured time minus that of the rows:
	// negative if they explain too much.
	Rows             []Row  `json:"rows"`
	Unexplained      Amount `json:"unexplained"`
	UnexplainedShare Amount `json:"unexplainedShare"`
	// Unseen bounds the time of a row that is missing.
	Unseen Unseen `json:"unseen,omitzero"`
	// Rivals are those that use the CPUs while the subject waits for one; nil where it hardly waits.
	Rivals *rivals.Contest `json:"rivals,omitempty"`
	// TEE is the sum of the TEE's rows; nil without any.
	TEE *Group `json:"tee,omitempty"`
	// Machine holds what is counted for the whole machine only; nil without any.
	Machine *Machine `json:"machine,omitempty"`
	// Uncosted are the counters that have no share, with the reason.
	Uncosted []Row   `json:"uncosted,omitempty"`
	Checks   []Check `json:"checks"`
	// Blind says in sentences what could not be seen.
	Blind []string `json:"blind"`
}
