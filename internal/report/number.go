package report

import (
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// squared returns the symbol of the square of a base unit, which is the unit of a variance: "s²", "(requests/s)²"; ""
// for values without a dimension.
func squared(unit string) string {
	symbol := metric.Symbol(unit)
	switch {
	case symbol == "":
		return ""
	case strings.ContainsAny(symbol, "/ "):
		return "(" + symbol + ")²"
	}
	return symbol + "²"
}

// ValueOrMissing prints what p points to, or the word "missing" with the reason.
func ValueOrMissing(p *float64, unit, reason string) Cell {
	if p == nil || !finite(*p) {
		return Missing(reason)
	}
	return Cell{Text: metric.Value(*p, unit), Raw: strconv.FormatFloat(*p, 'g', -1, 64), Number: true}
}
