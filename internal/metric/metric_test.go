package metric

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLabel(t *testing.T) {
	for name, want := range map[string]string{
		"":                               "",
		"redis-server":                   "redis-server",
		"grüße":                          "grüße",
		"cass\xe9":                       `cass\xe9`,
		"cass\xe8":                       `cass\xe8`,
		`cass\xe9`:                       `cass\x5cxe9`,
		`cass\x5cxe9`:                    `cass\x5cx5cxe9`,
		`dev-disk\x2dby\x2did.device`:    `dev-disk\x2dby\x2did.device`, // systemd's names stay as they are
		`back\slash\`:                    `back\slash\`,
		"\ufffd":                         `\xef\xbf\xbd`,
		"fourteen-bytes\xc3":             `fourteen-bytes\xc3`,
		`C:\xE9`:                         `C:\xE9`,
		"\xff\\xff":                      `\xff\x5cxff`,
		strings.Repeat("\xff", 3) + "\n": `\xff\xff\xff` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got := Label(name); got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		})
	}
}

// name undoes Label.
func name(label string) string {
	var b []byte
	for i := 0; i < len(label); i++ {
		if escape(label[i:]) && label[i] == '\\' {
			n, _ := strconv.ParseUint(label[i+2:i+4], 16, 8)
			b = append(b, byte(n))
			i += 3
			continue
		}
		b = append(b, label[i])
	}
	return string(b)
}

// FuzzLabel: a label is text, and the name can be told from it, so no two names have the same.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"a", "cass\xe9", `cass\xe9`, `\x5c`, `\x5cxe9`, `\x5\xe9`, "\\\xe9", `\\xe9`, "\ufffd", `\x2d`, "\\x\xe9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := Label(s)
		if !utf8.ValidString(l) || strings.ContainsRune(l, utf8.RuneError) {
			t.Errorf("%q is no text: %q", s, l)
		}
		if back := name(l); back != s {
			t.Errorf("%q is %q, which reads as %q", s, l, back)
		}
	})
}

func TestImpossible(t *testing.T) {
	counter := &Desc{Name: "a_total"}
	gauge := &Desc{Name: "b_bytes", Kind: Gauge}
	ratio := &Desc{Name: "c_ratio", Kind: Gauge}
	warm := &Desc{Name: "d_celsius", Kind: Gauge, Least: -273.15}
	over := &Desc{Name: "e_ratio", Kind: Gauge, Most: 1000}
	for _, c := range []struct {
		desc *Desc
		v    float64
		ok   bool
	}{
		{counter, 0, true}, {counter, 1e18, true}, {counter, -1, false}, {counter, 1 << 63, false}, {counter, 1<<64 - 1, false},
		{counter, math.NaN(), false}, {counter, math.Inf(1), false}, {counter, math.Inf(-1), false},
		{gauge, 1 << 62, true}, {gauge, 16 << 60, false}, {gauge, -1, false},
		{ratio, 1, true}, {ratio, 1 + 1e-12, true}, {ratio, 1.01, false}, {ratio, -0.1, false},
		{warm, -40, true}, {warm, -300, false}, {over, 3, true}, {over, 2000, false},
	} {
		if why := c.desc.Impossible(c.v); (why == "") != c.ok {
			t.Errorf("%s of %v: %q", c.desc.Name, c.v, why)
		}
	}
	if (&Desc{Name: "f_ratio", Help: "F.", Kind: Gauge, Least: 2}).Check() == nil {
		t.Error("a range without values is accepted")
	}
}
