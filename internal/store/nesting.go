package store

// Refuses expressions that are nested too deeply before they are parsed, because parser and engine call themselves for
// each level and could exhaust the stack.

import "fmt"

// maxNesting is how many brackets an expression may have inside each other. The parser, the formatter and the engine call
// themselves for each; people and dashboards write fewer than 20.
const maxNesting = 100

// errTooDeep refuses an expression.
var errTooDeep = fmt.Errorf("the query has more than %d brackets or signs inside each other: write it with fewer", maxNesting)

// tooDeep reports whether an expression has more brackets inside each other than maxNesting, without parsing it. Brackets in
// texts and comments do not count. It also counts signs without a value between them, since each nests the rest: ----1.
func tooDeep(expr string) bool { return nesting(expr) > maxNesting }

// nesting returns how many brackets and signs of an expression are inside each other at most.
func nesting(expr string) (deepest int) {
	depth, signs := 0, 0
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; c {
		case '"', '\'', '`':
			for i++; i < len(expr) && expr[i] != c; i++ {
				if expr[i] == '\\' && c != '`' {
					i++
				}
			}
			signs = 0
		case '#':
			for i++; i < len(expr) && expr[i] != '\n'; i++ {
			}
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth, signs = max(0, depth-1), 0
		case '-', '+':
			signs++
		case ' ', '\t', '\n', '\r':
		default:
			signs = 0
		}
		deepest = max(deepest, depth+signs)
	}
	return deepest
}
