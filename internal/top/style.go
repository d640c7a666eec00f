//go:build linux

package top

import (
	"fmt"
	"strings"

	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/teescope/teescope/internal/findings"
)

// style is what a line of the screen is; the theme says how that looks.
type style int

// The styles of lines. A colour never says anything that the words do not.
const (
	plainStyle style = iota
	goodStyle
	warningStyle
	criticalStyle
	quietStyle
	headStyle
	chosenStyle
)

// theme has the escape sequence of each style (ECMA-48, Select Graphic Rendition). The screen's renderer reduces colours to
// those of the terminal, and to none where NO_COLOR is set; reverse and bold stay.
type theme [chosenStyle + 1]string

// themeOf returns the colours that can be read on a dark or a light background.
func themeOf(dark bool) theme {
	good, warning, critical, quiet := 28, 130, 160, 240
	if dark {
		good, warning, critical, quiet = 114, 214, 210, 248
	}
	colour := func(n int, more string) string { return fmt.Sprintf("\x1b[%s38;5;%dm", more, n) }
	return theme{goodStyle: colour(good, "1;"), warningStyle: colour(warning, "1;"), criticalStyle: colour(critical, "1;"),
		quietStyle: colour(quiet, ""), headStyle: "\x1b[7m", chosenStyle: "\x1b[1;4m"}
}

// styleOf is the style of a level.
func styleOf(l findings.Level) style {
	switch l {
	case findings.CriticalLevel:
		return criticalStyle
	case findings.WarningLevel:
		return warningStyle
	case findings.GoodLevel:
		return goodStyle
	}
	return plainStyle
}

// screen is what the terminal shows.
type screen struct {
	lines []styledLine
	head  int // the line of the table's header; that of the title over an explanation
	shown int // the rows below it
}

// styledLine is a line of the screen.
type styledLine struct {
	text  string
	style style
}

// add adds lines of one style.
func (s *screen) add(as style, lines ...string) {
	for _, l := range lines {
		s.lines = append(s.lines, styledLine{l, as})
	}
}

// texts are the lines without their styles.
func (s screen) texts() []string {
	var out []string
	for _, l := range s.lines {
		out = append(out, l.text)
	}
	return out
}

// styled is the screen with the escape sequences of a theme; the head and the selected row are as wide as the terminal.
func (s screen) styled(t theme, width int) string {
	var out []string
	for _, l := range s.lines {
		text := l.text
		if l.style == headStyle || l.style == chosenStyle {
			text = prettytext.Pad(text, width, ' ')
		}
		if code := t[l.style]; code != "" && text != "" {
			text = code + text + "\x1b[m"
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}
