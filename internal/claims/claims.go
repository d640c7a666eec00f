// Package claims re-derives the headlines of a published table from the table's own
// cells and reports those that the table contradicts.
//
// A claims file is the table as CSV under a header of comment lines. The header names
// the columns with unit and kind, and gives the formulas of derived columns, the laws
// and ceilings that the numbers must obey, and the claims about them, in the language
// that experiments/claims/README.md describes.
//
// Every number is taken as printed: a cell is the interval of values that round to it,
// and formulas are evaluated on intervals. So rounding cannot explain a contradiction.
// The package is pure: it reads bytes and returns findings. It does not judge how a
// number was measured.
package claims

// Kind says what is wrong.
type Kind string

// The kinds of findings.
const (
	Arithmetic Kind = "arithmetic"          // the number does not follow from the cells
	Average    Kind = "average"             // an average or a sum does not follow from the rows
	Difference Kind = "difference-as-ratio" // a difference in the metric's unit is presented as a ratio or percentage
	Points     Kind = "points-as-percent"   // a difference of percentages is presented as a percentage
	Base       Kind = "wrong-base"          // the same cells, but another quotient of them
	Column     Kind = "wrong-column"        // another column gives the number
	Row        Kind = "wrong-row"           // another row gives the number
	Metric     Kind = "wrong-metric"        // the number is of another metric, unit or magnitude
	Unit       Kind = "unit"                // units that do not fit each other
	Direction  Kind = "direction"           // called an advantage, but it is a disadvantage
	Best       Kind = "best"                // another arm is the best
	Order      Kind = "order"               // two metrics of the same work rank the arms differently
	Law        Kind = "law"                 // a law relating the columns does not hold
	Ceiling    Kind = "ceiling"             // above what is possible
	Impossible Kind = "impossible"          // negative, or a part larger than the whole
	Scaling    Kind = "scaling"             // efficiency against a baseline that is out of line, or scaling that is not linear
	FixedCost  Kind = "fixed-cost"          // much more work in the same time
	Jobs       Kind = "unlike-jobs"         // the arms did not do the same work
	Constant   Kind = "constant"            // one constant explains supposedly measured values
	Missing    Kind = "no-such-row"         // the table has no such row
	Percentile Kind = "percentile"          // too few samples for the percentile
)

// Finding is one contradiction, with its arithmetic.
type Finding struct {
	Kind Kind `json:"kind"`
	// Line in the file of the claim, law, ceiling or column.
	Line int `json:"line"`
	// Text quotes the claim, or names the broken rule.
	Text string `json:"text"`
	// Claimed is the statement in the file.
	Claimed string `json:"claimed"`
	// Follows is what follows from the cells instead: one line of arithmetic, with
	// numbers and units, for each place where they differ.
	Follows []string `json:"follows"`
	// Readings are other readings of the cells that give the claimed number.
	Readings []string `json:"readings,omitempty"`
	// undecided says where absent cells leave the answer open, and skipped why a row was left out.
	undecided []string
	skipped   error
}

// Report is the result of checking one file.
type Report struct {
	Title  string `json:"title"`
	Source string `json:"source"`
	// Claims, Laws and Cells are the numbers of checked claims, of laws and ceilings,
	// and of cells of derived columns.
	Claims   int       `json:"claims"`
	Laws     int       `json:"laws"`
	Cells    int       `json:"derived_cells"`
	Findings []Finding `json:"findings"`
	// Undecided lists what could not be checked, with reasons.
	Undecided []string `json:"undecided,omitempty"`
}

// Table is a published table with the statements about it.
type Table struct {
	Title, Source string
	Notes         []string
	columns       []column
	rows          []row
	statements    []statement
	nouns         map[string]bool // counted things declared with `# counts:`
}

type column struct {
	name       string
	line       int
	kind       kind
	unit       unit
	better     int8 // +1 higher, -1 lower, 0 not said
	part       bool // of a whole: 0 to 100 %
	signed     bool // can be negative: a difference, or computed from one
	efficiency bool // of scaling
	elapsed    bool // time of the whole run
	formula    *expr
	formulaSrc string
}

type kind int

const (
	measure   kind = iota
	arm            // what is compared
	label          // another name of a row
	parameter      // a number that was set
	scale          // a parameter that counts workers: threads, clients, cores
	work           // a parameter that counts the work done
	job            // must be equal in all arms, else they did different jobs
)

var kinds = map[string]kind{"measure": measure, "arm": arm, "label": label, "parameter": parameter, "scale": scale, "work": work, "job": job}

// key reports whether the column names rows.
func (k kind) key() bool { return k == arm || k == label || k == parameter || k == scale || k == work }

// text reports whether the cells are words.
func (k kind) text() bool { return k == arm || k == label }

type row struct {
	line  int
	cells []cell
}

// cell is one printed cell. A measured cell that is empty is absent.
type cell struct {
	text    string
	absent  bool
	num     number
	unit    unit
	foreign string // a unit that does not fit the column
	unknown bool   // the foreign unit is not known, so nothing says that it does not fit
}

// statement is a claim, a law or a ceiling.
type statement struct {
	what   string // "claim", "law", "ceiling"
	line   int
	quote  string
	src    string
	form   string // "" for a comparison, else the name of the form
	args   []*expr
	op     string
	label  string // of best, worst
	lit    *expr  // of exists
	hi     *expr  // of in
	within float64
	where  []selector
}
