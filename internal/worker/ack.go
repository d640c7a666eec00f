package worker

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"
)

// The newline protocol of the TLS servers: a client sends lines, the server answers each with
//
// 	ACK|checksum=<crc32>|size=<bytes>|processing_time_ms=<ms>|status=<status>
//
// The work for a line is done here and, with the same answers, in
// workloads/java/src/main/java/protocol/Message.java: CRC-32, upper case, a search for pairs,
// mean and variance, and a chain of square roots whose number of steps is proportional to the
// line's length. The status contains the results, so no part can be left out:
//
// 	OK,upper=<crc32>,pairs=<n>,mean=<x.xxx>,variance=<x.xxx>,walk=<64 bits>
// 	EMPTY      for a line without bytes
// 	TOO_LONG   for one of more than mostLine bytes, after which the server hangs up
//
// All arithmetic uses integers, or IEEE 754 operations whose result the standard prescribes
// (sine and cosine differ between libraries; the square root does not).

// mostLine is the maximum length of a line in bytes, without its end.
const mostLine = 8192

const (
	// walkPerByte and mostSteps set the length of the chain, as in the Java TLS
	// benchmark for Gramine-SGX (gramine-java-benchmark, README of 2025-10-23).
	walkPerByte = 100
	mostSteps   = 100_000
)

// pairPattern matches the pairs to count. Java's regular expressions find the same.
var pairPattern = regexp.MustCompile(`[A-Za-z]+=[0-9]+`)

// appendAnswer appends the answer to a line, with timeMark in place of the processing time.
func appendAnswer(b, line []byte) []byte {
	b = fmt.Appendf(b, "ACK|checksum=%08x|size=%d|processing_time_ms=%c|status=", crc32.ChecksumIEEE(line), len(line), timeMark)
	n := int64(len(line))
	if n == 0 {
		return append(b, "EMPTY\n"...)
	}
	var sum, squares int64
	upper := make([]byte, len(line))
	for i, c := range line {
		sum += int64(c)
		squares += int64(c) * int64(c)
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	pairs := len(pairPattern.FindAllIndex(line, -1))
	b = fmt.Appendf(b, "OK,upper=%08x,pairs=%d,mean=", crc32.ChecksumIEEE(upper), pairs)
	b = appendThousandths(b, sum*1000/n)
	b = append(b, ",variance="...)
	b = appendThousandths(b, (n*squares-sum*sum)*1000/(n*n))
	return fmt.Appendf(b, ",walk=%016x\n", math.Float64bits(walk(line)))
}

// tooLong is the answer to a line that is too long.
var tooLong = fmt.Appendf(nil, "ACK|checksum=00000000|size=%d|processing_time_ms=%c|status=TOO_LONG\n", mostLine, timeMark)

// timeMark stands for the processing time.
const timeMark = '?'

// walk computes the chain of square roots.
func walk(line []byte) float64 {
	x, at := 0.5, 0
	for range min(walkPerByte*len(line), mostSteps) {
		// The conversion keeps the compiler from rounding once instead of twice.
		x = math.Sqrt(float64(x*0.75) + float64(line[at]))
		if at++; at == len(line) {
			at = 0
		}
	}
	return x
}

// appendThousandths appends v/1000.
func appendThousandths(b []byte, v int64) []byte { return fmt.Appendf(b, "%d.%03d", v/1000, v%1000) }

// timed replaces timeMark by the processing time: milliseconds with six decimals.
func timed(b, answer []byte, took time.Duration) []byte {
	before, after, _ := bytes.Cut(answer, []byte{timeMark})
	b = append(b, before...)
	b = fmt.Appendf(b, "%d.%06d", took/time.Millisecond, took%time.Millisecond)
	return append(b, after...)
}

// sameAnswer reports whether an answer is the wanted one, ignoring its processing time.
func sameAnswer(got, want []byte) bool {
	before, after, _ := bytes.Cut(want, []byte{timeMark})
	if len(got) < len(before)+len(after) || !bytes.HasPrefix(got, before) || !bytes.HasSuffix(got, after) {
		return false
	}
	took := got[len(before) : len(got)-len(after)]
	ms, err := strconv.ParseFloat(string(took), 64)
	return err == nil && ms >= 0 && !math.IsInf(ms, 0) && bytes.IndexFunc(took, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) < 0
}

// recorded is the number of requests that are drawn from a seed; longer loads repeat them.
const recorded = 10_000

// recordedLines returns n lines of about 100 to 300 bytes, without their ends, like those of
// sensors or logs. One in 50 is unusual: empty, one byte, not ASCII, every byte except the
// newline, or of maximum length.
func recordedLines(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	data := func(most int) []byte {
		b := make([]byte, most)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return b
	}
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "id=%d;sensor=%d;temp=%d.%d;unit=C;Data=%s", i, r.IntN(64), r.IntN(40), r.IntN(10), data(50+r.IntN(200)))
		if i%50 == 49 {
			out[i] = oddLine(r, i/50, data)
		}
	}
	return out
}

// oddLine returns an unusual line.
func oddLine(r *rand.Rand, i int, data func(int) []byte) []byte {
	every := make([]byte, 0, 255)
	for c := range 256 {
		if c != '\n' {
			every = append(every, byte(c))
		}
	}
	switch i % 10 {
	case 0:
		return nil
	case 1:
		return data(1)
	case 2:
		return append(data(20), '\r')
	case 3:
		return []byte("größe=17|naïve=3|数=5|x=٣")
	case 4:
		r.Shuffle(len(every), func(i, j int) { every[i], every[j] = every[j], every[i] })
		return every
	case 5:
		return bytes.Repeat([]byte("="), 1+r.IntN(100))
	case 6:
		return bytes.Repeat([]byte("a=1"), 1+r.IntN(100))
	case 7:
		return data(mostLine)
	case 8:
		return bytes.Repeat([]byte{0xff}, mostLine)
	}
	return fmt.Appendf(nil, "ACK|checksum=%08x|size=7|processing_time_ms=0.1|status=OK", r.Uint32())
}
