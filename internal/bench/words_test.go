package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestPassable: what no launcher could pass on is refused with the reason, and all else is not.
func TestPassable(t *testing.T) {
	inside := func(argv ...string) Job { return Job{Inside: host.Cmd{Argv: argv}} }
	variable := inside("a")
	variable.Inside.Env = map[string]string{"LONG": strings.Repeat("x", mostWord-len("LONG=")+1)}
	folder := inside("a")
	folder.Inside.Dir = "/\xff"
	load := inside("a")
	load.Outside = &host.Cmd{Argv: []string{"b", "\x00"}}
	most := inside("a", strings.Repeat("x", mostWord))
	most.Inside.Env = map[string]string{"LONG": strings.Repeat("x", mostWord-len("LONG="))}
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"plain":             {inside("./-x", "-x", "", "\n", "{{", "\u202e", "\x7f"), ""},
		"as long as may be": {most, ""},
		"a zero byte":       {inside("a", "b\x00c"), `pass "b\x00c" to a: the argument contains a zero byte`},
		"other than UTF-8":  {inside("a", "\xff"), `pass "\xff" to a: the text is not UTF-8`},
		"a folder":          {folder, "the text is not UTF-8"},
		"a load's":          {load, `pass "\x00" to b`},
		"a long word":       {inside("a", strings.Repeat("x", mostWord+1)), "the argument has 131072 bytes, but the kernel passes at most 131071"},
		"a long variable":   {variable, "the argument has 131072 bytes"},
		"no program":        {inside(""), `run ""`},
		"an option":         {inside("--help"), `run "--help": the program's name is empty or looks like an option: give its path, ./NAME`},
		"no command":        {inside(), "empty command"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.job.passable(); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		})
	}
}

// TestMostWord: the kernel passes a word of that length, and no longer one.
func TestMostWord(t *testing.T) {
	if size := os.Getpagesize(); size != 4<<10 {
		t.Skipf("pages of %d bytes: the kernel here passes more", size)
	}
	for length, want := range map[int]bool{mostWord: true, mostWord + 1: false} {
		if _, err := host.Local().Exec(t.Context(), host.Cmd{Argv: []string{"true", strings.Repeat("x", length)}}); (err == nil) != want {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestUnrecordable: a parameter that neither a program nor a result can hold is refused by its name.
func TestUnrecordable(t *testing.T) {
	params := []Param{{Name: "command", Text: true}}
	for value, want := range map[string]string{
		"a\x00b": `workload custom: parameter command="a\x00b": the argument contains a zero byte`,
		"\xff":   `workload custom: parameter command="\xff": the text is not UTF-8`,
	} {
		t.Run(value, func(t *testing.T) {
			if _, err := Complete("workload custom", params, Params{"command": value}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", value, err, want)
			}
		})
	}
}

// TestPlainIdentity: in the path of a key, ssh replaces what has a percent sign or a variable.
func TestPlainIdentity(t *testing.T) {
	for path, want := range map[string]bool{"": true, "/root/.ssh/a key $x {y}": true, "/a%d": false, "/a%%": false, "/${HOME}/a": false} {
		t.Run(path, func(t *testing.T) {
			if err := PlainIdentity(path); (err == nil) != want {
				t.Errorf("%q: %v", path, err)
			}
		})
	}
	if _, err := ParseClient("ssh:a,identity=/b%h"); err == nil || !strings.Contains(err.Error(), "ssh replaces %") {
		t.Error(err)
	}
}
