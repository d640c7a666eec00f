//go:build linux

package top

import (
	"strings"

	prettytext "github.com/jedib0t/go-pretty/v6/text"
)

// pad makes text exactly that wide, with an ellipsis at the end if it is cut off.
func pad(text string, width int) string { return prettytext.Pad(cutOff(text, width), width, ' ') }

// cutOff cuts text that is too wide anywhere.
func cutOff(text string, width int) string {
	if prettytext.StringWidth(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return prettytext.Trim(text, width-1) + "…"
}

// shorten cuts text that is too wide after a word, if there is one.
func shorten(text string, width int) string { return wrapped(text, width, 1)[0] }

// wrapped breaks text into at most so many lines, after words; what does not fit is cut off.
func wrapped(text string, width, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case prettytext.StringWidth(line)+1+prettytext.StringWidth(word) <= width:
			line += " " + word
		case len(lines) == most-1:
			for before := line; prettytext.StringWidth(line)+2 > width; line = before {
				at := strings.LastIndexByte(before, ' ')
				if at < 0 {
					return append(lines, cutOff(line+"…", width))
				}
				before = before[:at]
			}
			return append(lines, line+" …")
		default:
			lines = append(lines, cutOff(line, width))
			line = word
		}
	}
	return append(lines, cutOff(line, width))
}

// fitting joins those parts that fit next to each other; the first is cut if it is too wide alone.
func fitting(width int, parts ...string) string {
	out := shorten(parts[0], width)
	for _, p := range parts[1:] {
		if prettytext.StringWidth(out)+2+prettytext.StringWidth(p) <= width {
			out += "  " + p
		}
	}
	return out
}

// folded breaks a line that is too wide, such as one word, anywhere.
func folded(line string, width int) []string {
	var out []string
	for width > 0 && prettytext.StringWidth(line) > width {
		part := prettytext.Trim(line, width)
		out, line = append(out, part), strings.TrimPrefix(line, part)
		if part == "" {
			break // a character wider than the screen
		}
	}
	return append(out, line)
}
