package report

import (
	"fmt"
	"image/color"
	"strings"
)

// ink is a colour by its role, so a drawing on the page follows the reader's light or dark theme.
type ink string

const (
	none     ink = ""
	surface  ink = "surface"
	sunken   ink = "sunken"
	text     ink = "text"
	dim      ink = "text-dim"
	line     ink = "line"
	lineBold ink = "line-strong"
	good     ink = "good"
	warn     ink = "warn"
	bad      ink = "bad"
	accent   ink = "accent"
	rest     ink = "series-rest"
)

// series returns the colour of the n-th arm.
func series(n int) ink { return ink(fmt.Sprintf("series-%d", n%8)) }

// A theme has the colours of all inks. They are those of the web page: text has
// a contrast of at least 4.5:1, and the eight series can be told apart with the
// common kinds of colour blindness.
type theme map[ink]uint32

var light = theme{
	"ground": 0xf3f5f8, surface: 0xffffff, sunken: 0xeaeef3, text: 0x17212e, dim: 0x4d5b6d, line: 0xd5dce5, lineBold: 0x7b899b,
	accent: 0x1d4f91, "accent-soft": 0xe3edf9, good: 0x0a6640, warn: 0x8a4b00, bad: 0xb3261e, "good-soft": 0xe3f4ea, "warn-soft": 0xfdf0dc, "bad-soft": 0xfdeae8,
	"series-0": 0x0c45ba, "series-1": 0xd66504, "series-2": 0x298a70, "series-3": 0xa50080,
	"series-4": 0x7b5105, "series-5": 0x0f98e8, "series-6": 0x57294c, "series-7": 0x8448f1, rest: 0x75808d,
}

var dark = theme{
	"ground": 0x10161d, surface: 0x18202a, sunken: 0x212b37, text: 0xe6ebf1, dim: 0xa3b0bf, line: 0x303c4a, lineBold: 0x7d8b9c,
	accent: 0x8fbcff, "accent-soft": 0x1d3350, good: 0x62d196, warn: 0xf2b45c, bad: 0xff9a90, "good-soft": 0x14352a, "warn-soft": 0x3a2c13, "bad-soft": 0x42201d,
	"series-0": 0x5b8aef, "series-1": 0xff7007, "series-2": 0x16c476, "series-3": 0xff83c2,
	"series-4": 0xf4d009, "series-5": 0x70ebe7, "series-6": 0xb66f7d, "series-7": 0xafb6ff, rest: 0x8d99a6,
}

func (t theme) rgba(i ink) color.RGBA {
	c := t[i]
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 0xff}
}

func (t theme) hex(i ink) string { return fmt.Sprintf("#%06x", t[i]) }

// roles are all inks, in the order of the page's declarations.
var roles = []ink{
	"ground", surface, sunken, text, dim, line, lineBold, accent, "accent-soft", good, warn, bad, "good-soft", "warn-soft", "bad-soft",
	"series-0", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", rest,
}

func (t theme) variables() string {
	var b strings.Builder
	for _, i := range roles {
		fmt.Fprintf(&b, "--%s:%s;", i, t.hex(i))
	}
	return b.String()
}

// LightColours returns the declarations of the custom properties that inline plots and the page's style sheet use,
// for the light theme.
func LightColours() string { return light.variables() }

// DarkColours returns those of the dark theme.
func DarkColours() string { return dark.variables() }
