package launchers

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

func template1(t *testing.T, name string) *bench.Launcher {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := FromFile(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t *testing.T, l *bench.Launcher, given bench.Params) bench.Environment {
	t.Helper()
	p, err := bench.Complete(l.Name, l.Params, given)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check(host.Local(), p); err != nil {
		t.Skip(err)
	}
	env, err := l.Open(t.Context(), host.Local(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return env
}

// TestUserTemplate wraps real commands as the documentation shows.
func TestUserTemplate(t *testing.T) {
	env := open(t, template1(t, "wrapper.yaml"), nil)
	show := bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", `echo "$FOO $OWN $(nice) $PWD {params.level} $1"`, "{work}", "two words"},
		Env: map[string]string{"OWN": "{data}"}, Dir: "{data}"}}
	out, err := env.Run(t.Context(), show)
	raw, failed := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // 20 less the niceness of this process, to which the template adds
	if failed != nil {
		t.Fatal(failed)
	}
	f := strings.Fields(string(out.Inside.Stdout))
	if err != nil || len(f) != 7 || f[0] != "1" || f[1] != f[3] || f[2] != strconv.Itoa(min(19, 20-raw+5)) || f[4] != "{params.level}" || f[5] != "two" {
		t.Fatalf("%v: %q %q", err, out.Inside.Stdout, out.Inside.Stderr)
	}
	if got := strings.Join(out.Processes, " "); got != "sh" {
		t.Errorf("processes %q, want the program's name", got)
	}
	if micro.Program != nil {
		out, err = env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "null"}},
			Files: []bench.File{{Name: "micro", Data: micro.Program, Exec: true}}})
		if err != nil || string(out.Inside.Stdout) != "done\n" {
			t.Errorf("null worker: %v: %q %q", err, out.Inside.Stdout, out.Inside.Stderr)
		}
	}
	out, err = env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", "exit 3"}}})
	if err == nil || out.Inside.Code != 3 {
		t.Errorf("a failing job: %v, %d", err, out.Inside.Code)
	}
}

// TestTemplateSteps runs every step of a template with a service, and reads its reports.
func TestTemplateSteps(t *testing.T) {
	state := t.TempDir()
	l := template1(t, "service.yaml")
	for debug, want := range map[string]string{"yes": "true", "no": "false", "silent": "unknown"} {
		t.Run(debug, func(t *testing.T) {
			var d result.Environment
			env := open(t, l, bench.Params{"state": state, "debug": debug})
			if err := env.Describe(t.Context(), &d); err != nil || d.Missing["tee.active"] == "" || d.TEE.Active {
				t.Errorf("before a job: %v, %+v, %v", err, d.TEE, d.Missing)
			}
			job := bench.Job{Inside: host.Cmd{Argv: []string{"cat", "{work}/input"}, Env: map[string]string{"GREETING": `a "b" 'c'`}},
				Files: []bench.File{{Name: "input", Data: []byte("in\n")}}}
			for range 2 {
				out, err := env.Run(t.Context(), job)
				if err != nil || string(out.Inside.Stdout) != "service up\nprepared once for cat\na \"b\" 'c'\nin\n" {
					t.Fatalf("%v: %q %q", err, out.Inside.Stdout, out.Inside.Stderr)
				}
			}
			d = result.Environment{}
			if err := env.Describe(t.Context(), &d); err != nil {
				t.Fatal(err)
			}
			if d.TEE.Type != "sgx" || !d.TEE.Declared || !d.TEE.Active || d.TEE.Debug != (debug == "yes") || d.TEE.Settings["debug"] != want {
				t.Errorf("TEE %+v", d.TEE)
			}
			if _, said := d.Missing["tee.debug"]; said != (debug == "silent") {
				t.Errorf("missing %v", d.Missing)
			}
			if d.TEE.Settings["size"] != "64M" || d.Missing["tee.settings.threads"] == "" || d.Missing["tee.evidence.absent"] == "" {
				t.Errorf("settings %v, missing %v", d.TEE.Settings, d.Missing)
			}
			if len(d.TEE.Evidence) != 1 || d.TEE.Evidence[0].Source != "config: {job 1}/config" {
				t.Errorf("evidence %+v", d.TEE.Evidence)
			}
			if d.Software.Versions["service"] != "service 1.2" || d.Missing["software.versions.none"] == "" {
				t.Errorf("versions %v, missing %v", d.Software.Versions, d.Missing)
			}
			if err := env.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			left, err := os.ReadDir(state)
			if err != nil || len(left) != 0 {
				t.Errorf("stop left %v (%v)", left, err)
			}
		})
	}
}

func TestTemplateThatNeverGetsReady(t *testing.T) {
	tries, second := filepath.Join(t.TempDir(), "tries"), filepath.Join(t.TempDir(), "second")
	if err := unix.Mkfifo(second, 0o600); err != nil {
		t.Fatal(err)
	}
	// The first attempt is answered, and the second is running when the user gives up.
	ready := "echo >>" + tries + "; test $(wc -l <" + tries + ") = 1 || { echo on >" + second + "; exec sleep 6000; }; echo not yet >&2; false"
	for name, want := range map[string]string{
		"start: {argv: [sh, -c, 'echo no luck >&2; exit 4']}\nready: {argv: ['false']}": "no luck",
		"start: {argv: [sleep, '6000']}\nready: {argv: [sh, -c, '" + ready + "']}":      "not yet",
	} {
		l, err := FromFile("t.yaml", []byte("name: t\ndoc: A test.\nrun: {argv: ['{argv}']}\ntee: {kind: none}\n"+name))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if want == "not yet" {
			go func() {
				_, _ = os.ReadFile(second) // waits for the second attempt
				cancel()
			}()
		}
		env, err := l.Open(ctx, host.Local(), bench.Params{"data": ""})
		cancel()
		if env != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTemplateErrors reads files with one fault each. Their first line is a
// comment with what the error must say.
func TestTemplateErrors(t *testing.T) {
	const good = "name: t\ndoc: A test.\nrun: {argv: ['{argv}']}\ntee: {kind: none}\n"
	if _, err := FromFile("t.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                     "EOF",
		good + "colour: red\n":                 "line 5: field colour not found",
		good + "start: {argv: [a], cwd: /}\n":  "line 5: field cwd not found",
		good + "---\nname: u\n":                "a second document",
		good + "prepare: [{argv: ['{jobs}']}]": "line 5: {jobs}: no such placeholder",
		good + "prepare: [{argv: [a, 'x{params.size}']}]":                            "line 5: {params.size}: no such parameter",
		good + "prepare: [{argv: ['a{argv}']}]":                                      "line 5: {argv}: this placeholder expands to several words",
		good + "prepare: [{dir: /}]":                                                 "a step without argv",
		good + "start: {argv: ['{program}']}":                                        "line 5: {program}: start, ready, stop and versions do not belong to a job",
		good + "start: {argv: ['{argv}']}":                                           "line 5: {argv}: this placeholder expands to several words",
		good + "ready: {argv: [a]}":                                                  "also needs start",
		good + "params: [{name: data, doc: Again.}]":                                 `parameter "data"`,
		good + "params: [{name: a, doc: None., values: [b]}]":                        `the default "" is not one of its values`,
		good + "check: [{command: a}]":                                               "and a hint",
		good + "check: [{command: a, path: /b, hint: c}]":                            "a command or a path",
		good + "files: [{name: ../a, text: b}]":                                      "line 5: file \"../a\" is outside the job's folder: write a name relative to that folder",
		good + "files: [{name: /a, text: b}]":                                        "is outside the job's folder",
		good + "files: [{name: a/.., text: b}]":                                      "is outside the job's folder",
		good + "files: [{name: '{job}/a', text: b}]":                                 "is outside the job's folder",
		good + "files: [{name: a, text: '<% .Nothing %>'}]":                          "line 5: text of file a",
		good + "files: [{name: a, text: '<% if %>'}]":                                "line 5: text of file a",
		good + "evidence: [{name: a}]":                                               "argv or file",
		good + "evidence: [{name: a, file: /b, settings: {c: '('}}]":                 "line 5: pattern",
		good + "evidence: [{name: a, file: /b, settings: {c: 'd'}}]":                 "has no group",
		strings.Replace(good, "kind: none", "kind: sgx, debug: {from: a, on: b}", 1): "name of evidence",
		strings.Replace(good, "kind: none", "", 1):                                   "want the kind",
		strings.Replace(good, "name: t", "name: a/b", 1):                             "name \"a/b\"",
		strings.Replace(good, "A test.", "", 1):                                      "doc:",
		strings.Replace(good, "['{argv}']", "[]", 1):                                 "want the argv of a run",
		strings.Replace(good, "['{argv}']", "{a: b}", 1):                             "line 3: cannot unmarshal",
		"\x00": "t.yaml:",
	} {
		l, err := FromFile("t.yaml", []byte(text))
		if err == nil || l != nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t.yaml: ") {
			t.Errorf("%s\n\tgives %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "launchers.") {
			t.Errorf("%v: names a Go type", err)
		}
	}
}
