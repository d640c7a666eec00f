package claims

import (
	"fmt"
	"io"
	"strings"
)

// Text writes a report for people; name is the file's name.
func (r Report) Text(w io.Writer, name string) error {
	var b strings.Builder
	verdict := "nothing contradicts"
	switch n := len(r.Findings); {
	case n == 1:
		verdict = "1 contradiction"
	case n > 1:
		verdict = fmt.Sprintf("%d contradictions", n)
	}
	fmt.Fprintf(&b, "%s: %s (%d claims, %d laws and ceilings, %d derived cells checked)\n", name, verdict, r.Claims, r.Laws, r.Cells)
	if r.Title != "" {
		fmt.Fprintf(&b, "  %s\n", r.Title)
	}
	fmt.Fprintf(&b, "  source: %s\n", r.Source)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n  line %d  %s  \"%s\"\n", f.Line, f.Kind, f.Text)
		fmt.Fprintf(&b, "    claimed  %s\n", f.Claimed)
		lines(&b, "follows", f.Follows)
		lines(&b, "reading", f.Readings)
	}
	if len(r.Undecided) > 0 {
		b.WriteByte('\n')
		lines(&b, "not decided", r.Undecided)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func lines(b *strings.Builder, word string, list []string) {
	for i, s := range list {
		if i > 0 {
			word = strings.Repeat(" ", len(word))
		}
		fmt.Fprintf(b, "    %-8s %s\n", word, s)
	}
}
