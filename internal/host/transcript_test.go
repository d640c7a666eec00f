package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestKept: the beginning and the end of a stream are kept, whatever the lengths of its parts, and what is between is
// counted.
func TestKept(t *testing.T) {
	const half = MostKept / 2
	stream := func(n int) []byte { // no two places of it are alike
		b := make([]byte, 0, n+16)
		for i := 0; len(b) < n; i++ {
			b = fmt.Appendf(b, "%07d,", i)
		}
		return b[:n]
	}
	longest := stream(3*MostKept + 5)
	for _, n := range []int{0, 1, half, half + 1, MostKept - 1, MostKept, MostKept + 1, MostKept + half, len(longest)} {
		all := longest[:n]
		want, cut := all, max(0, n-MostKept)
		if cut > 0 {
			want = fmt.Appendf(bytes.Clone(all[:half]), "\n[%d bytes are left out here]\n%s", cut, all[n-half:])
		}
		for _, part := range []int{1<<15 - 1, half, half + 1, 4 * MostKept} {
			var k Kept
			for b := all; len(b) > 0; {
				m := min(part, len(b))
				if got, err := k.Write(b[:m]); got != m || err != nil {
					t.Fatalf("%d bytes are taken as %d: %v", m, got, err)
				}
				b = b[m:]
			}
			if k.Cut() != int64(cut) || !bytes.Equal(k.Bytes(), want) {
				t.Errorf("%d bytes in parts of %d: %d are left out, want %d; %d are there, want %d", n, part, k.Cut(), cut, len(k.Bytes()), len(want))
			}
		}
	}
}

// TestEndlessOutput: each byte is looked at once, memory does not grow, and lines are timed by their ends.
func TestEndlessOutput(t *testing.T) {
	now := time.Duration(0)
	tr := NewTranscript(0, func() time.Duration { now++; return now })
	looked := 0
	tr.lines.Lock().split.find = func(b []byte, c byte) int {
		i := bytes.IndexByte(b, c)
		looked += i + 1
		if i < 0 {
			looked += len(b)
		}
		return i
	}
	tr.lines.Unlock()
	part := bytes.Repeat([]byte("0123456789abcdef"), 1<<11)
	given := 0
	write := func(b []byte) {
		_, _ = tr.Stdout(b)
		given += len(b)
	}
	write([]byte("first\n"))
	for range 3 * MostKept / len(part) {
		write(part)
	}
	if n := testing.AllocsPerRun(100, func() { write(part) }); n != 0 {
		t.Errorf("%v allocations for %d bytes more", n, len(part))
	}
	last := tr.LinePrinted("last")
	write([]byte("\nlast\nrest"))
	select {
	case <-last:
	default:
		t.Error("the line after a long one was not noticed")
	}
	var o Output
	tr.FillOutput(&o, time.Hour)
	if looked != given {
		t.Errorf("%d bytes were looked at, of %d", looked, given)
	}
	if cut := int64(given - MostKept); o.Cut != (Cut{Stdout: cut, Lines: 1}) || !strings.Contains(o.Cut.String(), fmt.Sprint(cut)) {
		t.Errorf("left out is %+v: %s", o.Cut, o.Cut)
	}
	if l := o.Lines; len(l) != 4 || l[0] != (Line{1, "first"}) || len(l[1].Text) != mostLine || l[2].Text != "last" || l[1].At != l[2].At || l[3] != (Line{time.Hour, "rest"}) {
		t.Errorf("%d lines", len(l))
	}
}

// TestManyLines: the text of lines is bounded too.
func TestManyLines(t *testing.T) {
	tr := NewTranscript(0, func() time.Duration { return 0 })
	write := func(line string, n int) {
		for range n {
			_, _ = tr.Stdout([]byte(line))
		}
	}
	write(strings.Repeat("x", 1<<16)+"\n", MostKept>>16+3)
	ready := tr.LinePrinted("ready")
	write("ready\n", 1)
	select {
	case <-ready:
	default:
		t.Error("a line was not noticed because it is not kept")
	}
	var o Output
	tr.FillOutput(&o, 0)
	if len(o.Lines) != MostKept>>16 || o.Cut.Lines != 4 {
		t.Errorf("%d lines, %d left out", len(o.Lines), o.Cut.Lines)
	}
	tr = NewTranscript(0, func() time.Duration { return 0 })
	write("\n", maxLines+7)
	tr.FillOutput(&o, 0)
	if len(o.Lines) != maxLines || o.Cut != (Cut{Lines: 7}) {
		t.Errorf("%d lines, left out %v", len(o.Lines), o.Cut)
	}
}

// TestEndless: a real program, without a line end, on both streams; and lines of any length are heard once, up to a
// bound.
func TestEndless(t *testing.T) {
	const n = 40_000_000
	var heard []string
	o, err := Local().Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2; printf '\nlast\n' >&2", n, n)},
		Heard: func(line string) string { heard = append(heard, line); return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if o.Cut.Stdout != n-MostKept || o.Cut.Stderr != n+6-MostKept || len(o.Stdout) > MostKept+100 || !bytes.HasSuffix(o.Stderr, []byte("\nlast\n")) {
		t.Errorf("%d and %d bytes, left out %v", len(o.Stdout), len(o.Stderr), o.Cut)
	}
	if len(heard) != 2 || len(heard[0]) != mostLine || heard[1] != "last" {
		t.Errorf("heard %d lines", len(heard))
	}
}

// BenchmarkStdout is what a job's output costs this process.
func BenchmarkStdout(b *testing.B) {
	for name, text := range map[string]string{"endless": "0123456789abcdef", "lines": "0123456789abcde\n"} {
		b.Run(name, func(b *testing.B) {
			tr := NewTranscript(0, func() time.Duration { return 0 })
			part := bytes.Repeat([]byte(text), 1<<11)
			b.SetBytes(int64(len(part)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = tr.Stdout(part)
			}
		})
	}
}
