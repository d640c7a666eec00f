package metric

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Label returns a name as a label value, so that different names stay different. Names of processes, files and devices
// are any bytes: one that is no UTF-8 becomes \xHH, as does U+FFFD, which PromQL cannot quote. A backslash that would
// read as the begin of such an escape becomes \x5c; that of systemd's names (dev-disk\x2dby) stays. A name is escaped
// once: the engine does it for sources.
func Label(s string) string {
	if plain(s) {
		return s
	}
	b := make([]byte, 0, len(s)+8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError:
			for _, c := range []byte(s[i : i+n]) {
				b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
		case r == '\\' && escape(s[i:]):
			b = append(b, `\x5c`...)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

const hexDigits = "0123456789abcdef"

// plain reports whether s is ASCII without a backslash, as nearly every name is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || s[i] == '\\' {
			return false
		}
	}
	return true
}

// escape reports whether s begins like something that Label writes: \x5c, or a byte from \x80 on.
func escape(s string) bool {
	return len(s) >= 4 && s[1] == 'x' && strings.IndexByte(hexDigits, s[3]) >= 0 && (strings.IndexByte(hexDigits, s[2]) >= 8 || s[2:4] == "5c")
}

// AppendText appends samples in the Prometheus text exposition format 0.0.4 to
// b and returns it. Samples of one metric must be adjacent; SortByName makes
// them so. It allocates only to grow b: the client library's encoder builds
// protobuf objects first, which costs tens of thousands of allocations a scrape.
func AppendText(b []byte, samples []Sample) []byte {
	var last *Desc
	for i := range samples {
		s := &samples[i]
		if s.Desc != last {
			last = s.Desc
			b = append(append(append(append(b, "# HELP "...), last.Name...), ' '), escaped(last.Help, false)...)
			b = append(append(append(append(b, "\n# TYPE "...), last.Name...), ' '), last.Kind.String()...)
			b = append(b, '\n')
		}
		if s.Hist != nil {
			b = appendHist(b, s)
			continue
		}
		b = appendSeries(b, s, "", "", 0)
		b = appendValue(b, s.Value)
	}
	return b
}

// SortByName orders samples by metric name, keeping the order within a metric.
func SortByName(samples []Sample) {
	slices.SortStableFunc(samples, func(a, b Sample) int {
		switch {
		case a.Desc == b.Desc:
			return 0
		case a.Desc.Name < b.Desc.Name:
			return -1
		}
		return 1
	})
}

func appendHist(b []byte, s *Sample) []byte {
	var n uint64
	for i, c := range s.Hist.Counts {
		n += c
		le := math.Inf(1)
		if i < len(s.Hist.Bounds) {
			le = s.Hist.Bounds[i]
		}
		b = appendSeries(b, s, "_bucket", "le", le)
		b = appendValue(b, float64(n))
	}
	b = appendSeries(b, s, "_sum", "", 0)
	b = appendValue(b, s.Hist.Sum)
	b = appendSeries(b, s, "_count", "", 0)
	return appendValue(b, float64(n))
}

func appendSeries(b []byte, s *Sample, suffix, extra string, bound float64) []byte {
	b = append(append(b, s.Desc.Name...), suffix...)
	if len(s.Labels) == 0 && extra == "" {
		return append(b, ' ')
	}
	sep := byte('{')
	for i, l := range s.Labels {
		b = append(append(append(b, sep), s.Desc.Labels[i]...), '=', '"')
		b = append(append(b, escaped(l, true)...), '"')
		sep = ','
	}
	if extra != "" {
		b = append(append(append(b, sep), extra...), '=', '"')
		b = append(appendFloat(b, bound), '"')
	}
	return append(b, '}', ' ')
}

func appendValue(b []byte, v float64) []byte { return append(appendFloat(b, v), '\n') }

func appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// escaped returns s with backslash, line feed and (in label values) the quote
// escaped; s itself when it has none.
func escaped(s string, quote bool) string {
	need := 0
	for i := range len(s) {
		if s[i] == '\\' || s[i] == '\n' || quote && s[i] == '"' {
			need++
		}
	}
	if need == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+need)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\':
			b = append(b, '\\', '\\')
		case c == '\n':
			b = append(b, '\\', 'n')
		case quote && c == '"':
			b = append(b, '\\', '"')
		default:
			b = append(b, c)
		}
	}
	return string(b)
}
