package metric

import (
	"fmt"
	"math"
	"strings"
)

// multiples are the suffixes of sizes and numbers, binary as in fio.
var multiples = map[string]float64{"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GIB": 1 << 30, "T": 1 << 40, "TIB": 1 << 40}

// ParseSize reads a number, which may be a size in bytes with a binary suffix: "4", "1e3", "48MiB" or "48M".
func ParseSize(text string) (float64, error) {
	number := strings.TrimRight(text, "BKMGTibkmgt")
	times, ok := multiples[strings.ToUpper(text[len(number):])]
	v, err := ParseNumber(number)
	if v *= times; err != nil || !ok || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q: want a number or a size like 48MiB", text)
	}
	return v, nil
}
