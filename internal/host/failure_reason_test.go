package host

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

// TestSaid: what programs print when they fail, as they printed it, and what of it is the reason. The archive's comment
// says where it is from.
func TestSaid(t *testing.T) {
	a, err := txtar.ParseFile("testdata/said.txtar")
	if err != nil {
		t.Fatal(err)
	}
	outputs, want := map[string]*Output{}, map[string]string{}
	for _, f := range a.Files {
		name, kind, _ := strings.Cut(f.Name, "/")
		o := outputs[name]
		if o == nil {
			o = &Output{Code: 1}
			outputs[name] = o
		}
		switch kind {
		case "stdout":
			o.Stdout = f.Data
		case "stderr":
			o.Stderr = f.Data
		case "want":
			want[name] = strings.TrimSuffix(string(f.Data), "\n")
		}
	}
	for name, o := range outputs {
		if got := o.FailureReason(); got != want[name] {
			t.Errorf("%s: %q\nwant %q", name, got, want[name])
		}
	}
}

// TestSaidIsBounded: whatever is printed, a reason is one line of text that fits into a message.
func TestSaidIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for name, s := range map[string]string{
		"nothing": "", "blank": "\n \n\t\n", "no text": "\xff\xfe\x00\x01\n", "escapes": "\x1b[31merror\x1b[0m: no",
		"one line": "error: " + long, "many": strings.Repeat("error: "+long+"\n", 5) + "error: end\n", "plain": strings.Repeat(long+"\n", 5) + "end\n",
		"progress": "1 %\r2 %\r3 %\rerror: disk full\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := Output{Stderr: []byte(s)}.FailureReason()
			if len(got) > longestReason+20 || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b\x00") {
				t.Errorf("%s: %q", name, got)
			}
			if name == "progress" && got != "error: disk full" || name == "escapes" && got != "error: no" ||
				(name == "many" || name == "plain") && !strings.HasSuffix(got, "end") {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// TestBecause: of two programs, the one that says what is wrong is quoted, and before that the one that failed.
func TestBecause(t *testing.T) {
	failed := errors.New("exit status 1")
	server, load := Output{Stderr: []byte("listening\n")}, Output{Stderr: []byte("load: connection refused\n"), Code: 1}
	stopped := Output{Stderr: []byte("error: a client has gone\n"), Code: -1}
	for _, c := range []struct {
		outs []Output
		want string
	}{
		{nil, "exit status 1"},
		{[]Output{{}, {}}, "exit status 1"},
		{[]Output{server, load}, "exit status 1: load: connection refused"},
		{[]Output{server, {}}, "exit status 1: listening"},
		{[]Output{stopped, load}, "exit status 1: load: connection refused"},
		{[]Output{stopped, server}, "exit status 1: error: a client has gone"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if err := WithReason(failed, c.outs...); err.Error() != c.want || !errors.Is(err, failed) {
				t.Errorf("%q, want %q", err, c.want)
			}
		})
	}
	if err := WithReason(nil, load); err != nil {
		t.Error(err)
	}
}
