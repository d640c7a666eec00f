package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// recordedDigest is the SHA-256 of the answers to the recorded lines of seed 1, without
// their times. The Java server gives the same (e2e, TestJavaAndGo).
const recordedDigest = "0c038358e50880d6039f9ee55fbd659e1fe933469d17f80f7d7508516fde4b3f"

func TestRecordedAnswers(t *testing.T) {
	lines := recordedLines(1, recorded)
	if len(lines) != recorded {
		t.Fatalf("%d lines, want %d", len(lines), recorded)
	}
	h, longest, empty := sha256.New(), 0, 0
	for _, l := range lines {
		if bytes.IndexByte(l, '\n') >= 0 {
			t.Fatalf("line %.60q has an end in it", l)
		}
		longest = max(longest, len(l))
		if len(l) == 0 {
			empty++
		}
		_, _ = h.Write(appendAnswer(nil, l))
	}
	if longest != mostLine || empty == 0 {
		t.Errorf("the longest line has %d bytes and %d are empty: want %d, and some", longest, empty, mostLine)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != recordedDigest {
		t.Errorf("the answers have the digest %s, want %s", got, recordedDigest)
	}
}

func TestAckAnswer(t *testing.T) {
	for line, want := range map[string]string{
		"":         "ACK|checksum=00000000|size=0|processing_time_ms=?|status=EMPTY\n",
		"a":        "ACK|checksum=e8b7be43|size=1|processing_time_ms=?|status=OK,upper=d3d99e8b,pairs=0,mean=97.000,variance=0.000,",
		"a=1 b=x":  "pairs=1,",
		"ab=12c=3": "pairs=2,",
	} {
		t.Run(line, func(t *testing.T) {
			if got := string(appendAnswer(nil, []byte(line))); !strings.Contains(got, want) {
				t.Errorf("the answer to %q is %q, want %q in it", line, got, want)
			}
		})
	}
}

func TestSameAnswer(t *testing.T) {
	want := appendAnswer(nil, []byte("id=7"))
	text := string(timed(nil, want, 1234567*time.Nanosecond))
	if !strings.Contains(text, "|processing_time_ms=1.234567|") {
		t.Errorf("an answer after 1.234567 ms is %q", text)
	}
	for _, c := range []struct {
		name, from, to string
		same           bool
	}{
		{"itself", "", "", true},
		{"another time", "=1.234567|", "=99.000001|", true},
		{"whole milliseconds", "=1.234567|", "=1|", true},
		{"no time", "=1.234567|", "=|", false},
		{"a time that is none", "=1.234567|", "=1e3|", false},
		{"a negative time", "=1.234567|", "=-1.234567|", false},
		{"another size", "size=4", "size=5", false},
		{"another status", "status=OK", "status=KO", false},
		{"cut off", "\n", "", false},
		{"more than that", "\n", "\n\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Replace(text, c.from, c.to, 1); sameAnswer([]byte(got), want) != c.same {
				t.Errorf("%s: %q is the answer: %v, want %v", c.name, got, !c.same, c.same)
			}
		})
	}
	if sameAnswer([]byte("ACK|"), want) || sameAnswer(nil, want) {
		t.Error("what is shorter than an answer is taken for one")
	}
}

// FuzzAnswer: every line gets one line as its answer, specific to it.
func FuzzAnswer(f *testing.F) {
	for _, l := range recordedLines(1, 500) {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = line[:min(len(line), mostLine)]
		want := appendAnswer(nil, line)
		got := timed(nil, want, time.Duration(len(line))*time.Microsecond)
		if bytes.Count(got, []byte("\n")) != 1 || !bytes.HasSuffix(got, []byte("\n")) || !sameAnswer(got, want) {
			t.Errorf("the answer to %q is %q", line, got)
		}
	})
}
