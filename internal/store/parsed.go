package store

// Estimates the memory that parsing an expression takes, without parsing it.

import "strings"

const (
	// parseBytes is what the parser uses for a byte of an expression, one of a regular expression's text included.
	parseBytes = 128
	// operatorBytes is what the engine's stack grows by for each operator of a chain such as a+a+a: 8 KiB, and half as much while it is
	// copied.
	operatorBytes = 12 << 10
	// repeatBytes is one instruction of a regular expression: x{1000} has a thousand.
	repeatBytes = 128
	// classBytes is a class of Unicode's letters in a regular expression: \pL.
	classBytes = 64 << 10
)

// parsedBytes is what parsing an expression takes, and the depth of its evaluation, without parsing it.
func parsedBytes(expr string) int64 {
	n := int64(len(expr)) * parseBytes
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '"' || c == '\'' || c == '`':
			from := i + 1
			for i++; i < len(expr) && expr[i] != c; i++ {
				if expr[i] == '\\' && c != '`' {
					i++
				}
			}
			n += patternBytes(expr[min(from, len(expr)):min(i, len(expr))])
		case c == '#':
			for i++; i < len(expr) && expr[i] != '\n'; i++ {
			}
		case strings.IndexByte("+-*/%^<>!", c) >= 0, c == '=' && i > 0 && expr[i-1] == '=':
			n += operatorBytes
		case letter(c):
			from := i
			for i+1 < len(expr) && letter(expr[i+1]) {
				i++
			}
			switch strings.ToLower(expr[from : i+1]) {
			case "and", "or", "unless", "atan2":
				n += operatorBytes
			}
		}
	}
	return n
}

// patternBytes is what a text takes more as a regular expression: for what its repetitions repeat, and its classes. A group is taken
// as all of the text before its end, with the largest repetition in that.
func patternBytes(text string) (n int64) {
	largest := int64(1)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == 'p' || text[i+1] == 'P'):
			n += classBytes
		case c == '{':
			most, times := int64(0), int64(0)
			for j := i + 1; j < len(text) && (text[j] >= '0' && text[j] <= '9' || text[j] == ','); j++ {
				if times = times*10 + int64(text[j]-'0'); text[j] == ',' {
					times = 0
				}
				times = min(times, 1000) // the most that a regular expression may have
				most = max(most, times)
			}
			length := int64(1)
			if i > 0 && text[i-1] == ')' {
				length, most = int64(i), min(most*largest, 1000)
			}
			largest = max(largest, most)
			n += most * length * repeatBytes
		}
	}
	return n
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == ':'
}
