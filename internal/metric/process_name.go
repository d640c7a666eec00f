package metric

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// NameBytes is the length to which the kernel cuts a process's name (TASK_COMM_LEN without the final zero,
// proc_pid_comm(5)), and so that of the label process.
const NameBytes = 15

// CutName returns the name that the kernel keeps of a program's name.
func CutName(name string) string { return name[:min(len(name), NameBytes)] }

// NamePattern matches process names as the kernel keeps them: where its regular expression begins with a longer name, it
// matches what the kernel keeps of that, too.
type NamePattern struct {
	*regexp.Regexp
	long []string
}

// CompileNames compiles an unanchored regular expression for process names.
func CompileNames(expr string) (*NamePattern, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	p := &NamePattern{Regexp: re}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	for _, h := range heads(tree.Simplify()) {
		if len(h.text) > NameBytes && !slices.Contains(p.long, h.text) {
			p.long = append(p.long, h.text)
		}
	}
	return p, nil
}

// MatchString reports whether a process name matches.
func (p *NamePattern) MatchString(name string) bool {
	return p.Regexp.MatchString(name) || slices.ContainsFunc(p.long, func(long string) bool { return Label(CutName(long)) == name })
}

// Long returns the names in the pattern that are longer than the kernel keeps.
func (p *NamePattern) Long() []string { return p.long }

// head is how a match of a regular expression can begin; whole: nothing else belongs to it.
type head struct {
	text  string
	whole bool
}

// mostHeads bounds the beginnings that are told apart.
const mostHeads = 64

// heads returns the literal beginnings of what a regular expression matches. Where letters of either case match, there is
// none.
func heads(re *syntax.Regexp) []head {
	open := []head{{}}
	var out []head
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return open
		}
		return []head{{string(re.Rune), true}}
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpBeginText, syntax.OpEndLine, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []head{{"", true}}
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if out = append(out, head{string(r), true}); len(out) > mostHeads {
					return open
				}
			}
		}
	case syntax.OpCapture:
		return heads(re.Sub[0])
	case syntax.OpPlus:
		for _, h := range heads(re.Sub[0]) {
			out = append(out, head{h.text, false})
		}
	case syntax.OpQuest:
		out = append(heads(re.Sub[0]), head{"", true})
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			out = append(out, heads(sub)...)
		}
	case syntax.OpConcat:
		out = []head{{"", true}}
		for _, sub := range re.Sub {
			tails := heads(sub)
			var next []head
			for _, h := range out {
				if !h.whole {
					next = append(next, h)
					continue
				}
				for _, t := range tails {
					next = append(next, head{h.text + t.text, t.whole})
				}
			}
			if len(next) > mostHeads { // what is known so far still begins every match
				for i := range out {
					out[i].whole = false
				}
				return out
			}
			out = next
		}
	default: // repetitions and classes of many letters
		return open
	}
	if len(out) == 0 || len(out) > mostHeads {
		return open
	}
	return out
}

// Nearest sorts names by how little they differ from the one that was wanted: by the letters to change (see distance), then
// by length.
func Nearest(want string, names []string) []string {
	out := slices.Compact(slices.Sorted(slices.Values(names)))
	slices.SortStableFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(want, a), distance(want, b)), cmp.Compare(longer(want, a), longer(want, b)))
	})
	return out
}

func longer(a, b string) int { return max(len(a), len(b)) - min(len(a), len(b)) }

// distance returns how many letters must be changed, added or removed to turn one name into the other, ignoring case
// (Levenshtein 1966); 0 if one contains the other.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return 0
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
