package launchers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/benchtest"
	"github.com/teescope/teescope/internal/host"
)

// opening is how TestArguments opens a launcher.
type opening func(*testing.T, *bench.Launcher) bench.Environment

// asHere opens a launcher where it lacks nothing.
func asHere(given bench.Params) opening {
	return func(t *testing.T, l *bench.Launcher) bench.Environment { return open(t, l, given) }
}

// on opens a launcher whatever it lacks, since stand-ins have it.
func on(h func(*testing.T) *host.Host, given bench.Params) opening {
	return func(t *testing.T, l *bench.Launcher) bench.Environment {
		p, err := bench.Complete(l.Name, l.Params, given)
		if err != nil {
			t.Fatal(err)
		}
		env, err := l.Open(t.Context(), h(t), p)
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
}

func local(*testing.T) *host.Host { return host.Local() }

// inPython opens a launcher whose stand-ins are programs in Python with these modules.
func inPython(modules string, given bench.Params) opening {
	return func(t *testing.T, l *bench.Launcher) bench.Environment {
		if out, err := exec.Command("python3", "-c", "import "+modules).CombinedOutput(); err != nil {
			t.Skipf("python3 with %s (package python3-jinja2): %v: %s", modules, err, out)
		}
		return on(local, given)(t, l)
	}
}

// TestArguments sends the same words through every launcher of the list: as arguments and as variables, they arrive byte for byte.
// What is not here is replaced by a stand-in of testdata/standins, which reads the generated files by their own grammar and runs
// the program natively. Gramine itself refuses words with escape characters,
// which its own reader of TOML does not accept. e2e sends the words through a real guest and a real sshd.
// stand-in: runtimes
func TestArguments(t *testing.T) {
	standins, err := filepath.Abs("testdata/standins")
	if err != nil {
		t.Fatal(err)
	}
	here := os.Getenv("PATH")
	not := map[string]string{"qemu": "e2e boots a guest", "dmcrypt": "it is native, on a device that e2e makes", "fake": "it runs nothing"}
	openings := map[string]map[string]opening{
		"native":    {"": asHere(nil), "pinned": asHere(bench.Params{"cpus": "0"})},
		"beside":    {"": asHere(bench.Params{"program": "sleep 6000", "settle": "1ms"})},
		"container": {"": asHere(nil), "kept": asHere(bench.Params{"fresh": "false"})},
		"runsc":     {"": asHere(nil)},
		"ssh":       {"": on(local, bench.Params{"host": "elsewhere"})},
		"pod":       {"": on((&cluster{}).host, nil)},
		"gramine-direct": {"": inPython("jinja2, tomllib", nil),
			"folders": inPython("jinja2, tomllib", bench.Params{"folders": "/etc/{{1}}:/usr/{# a #}\"b"})},
		"gramine-sgx": {"": inPython("jinja2, tomllib", nil), "folders": inPython("jinja2, tomllib", bench.Params{"folders": "/etc/{{1}}:/usr/{# a #}\"b"})},
		"ego":         {"": inPython("json", nil)},
		"occlum-run":  {"": inPython("json", nil)},
		"scone":       {"": on(local, nil)},
		"sgx-lkl":     {"": on(local, nil)},
	}
	for _, l := range All {
		if not[l.Name] != "" {
			continue
		}
		if openings[l.Name] == nil {
			t.Errorf("%s: name here how its environment is opened", l.Name)
		}
		for what, open := range openings[l.Name] {
			t.Run(filepath.Join(l.Name, what), func(t *testing.T) {
				t.Setenv("PATH", standins+":"+here)
				folder, err := os.MkdirTemp("", `{{1}"# a`) // t.TempDir's is too long for podman
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := os.Remove(folder); err != nil {
						t.Errorf("the launcher left something: %v", err)
					}
				})
				t.Setenv("TMPDIR", folder)
				out, err := open(t, l).Run(t.Context(), benchtest.WordsJob())
				if err != nil {
					t.Fatalf("%v: %.2000s", err, out.Inside.Stderr)
				}
				if err := benchtest.CheckWords(out.Inside.Stdout); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestToJSON: what generated files hold is read back as it was, and has no beginning of Jinja's actions in it.
func TestToJSON(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"plain {x} } }} %} #}", `"plain {x} } }} %} #}"`},
		{"{{1}}", `"\u007b{1}}"`},
		{"{{{{", `"\u007b\u007b\u007b{"`},
		{"{% x %}{# y #}", `"\u007b% x %}\u007b# y #}"`},
		{"${#x}", `"$\u007b#x}"`},
		{`\{{`, `"\\\u007b{"`},
		{"a\tb\nc\"<&>\u2028\x7f", `"a\tb\nc\"<&>\u2028\u007f"`},
		{[]string{"{", "{"}, `["{","{"]`},
		{[]string{}, `[]`},
		{map[string]string{"{{": "{%"}, `{"\u007b{":"\u007b%"}`},
	} {
		t.Run(c.want, func(t *testing.T) {
			got, err := toJSON(c.value)
			if err != nil || got != c.want {
				t.Errorf("%q: %s, %v, want %s", c.value, got, err, c.want)
			}
			var back any
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Errorf("%q: %v", c.value, err)
			}
			if text, ok := c.value.(string); ok && back != text {
				t.Errorf("%q is read back as %q", text, back)
			}
			if begins := strings.NewReplacer("{{", "", "{%", "", "{#", "").Replace(got); begins != got {
				t.Errorf("%s begins an action", got)
			}
		})
	}
	for _, value := range []any{"\xff", []string{"a", "\xc3"}} {
		if got, err := toJSON(value); err == nil || !strings.Contains(err.Error(), "it is not UTF-8") {
			t.Errorf("%q: %s, %v", value, got, err)
		}
	}
}

// TestUnfit: what an engine or a generated file cannot hold is refused before anything runs, with the reason.
func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		launcher string
		given    bench.Params
		want     string
	}{
		{"container", nil, `pass the variable DOS="a\r\nb": podman run drops a carriage return at the end of a line; use fresh=false`},
		{"container", bench.Params{"fresh": "false"}, ""},
		{"gramine-sgx", bench.Params{"max-threads": "4\nsgx.debug = true"}, `file micro.manifest.template cannot hold "4\nsgx.debug = true": want a whole number`},
		{"ego", bench.Params{"heap-mb": `1, "debug": true`}, "file enclave.json cannot hold"},
		{"ego", bench.Params{"heap-mb": "-1"}, "want a whole number"},
	} {
		t.Run(c.launcher, func(t *testing.T) {
			for _, l := range All {
				if l.Name != c.launcher {
					continue
				}
				p, err := bench.Complete(l.Name, l.Params, c.given)
				if err != nil {
					t.Fatal(err)
				}
				job := job()
				job.Inside.Env = map[string]string{"DOS": "a\r\nb"}
				got := ""
				if err := l.Refuses(p, job); err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
					t.Errorf("%s %v: %q, want %q", l.Name, c.given, got, c.want)
				}
			}
		})
	}
}

// TestFoldersInNotations: a folder whose path would mean something to what names it is refused, and nothing is left of it; others
// are named so that they arrive.
func TestFoldersInNotations(t *testing.T) {
	for _, c := range []struct {
		launcher *bench.Launcher
		folder   string
		want     string
	}{
		{&native, "it's", "has a quote or a line break, which the scripts of jobs do not support: set TMPDIR to another folder"},
		{&native, "two\nlines", "has a quote or a line break"},
		{&container, "a:b", "the engine ends a volume's path at a colon: choose other folders with TMPDIR and data="},
	} {
		t.Run(c.folder, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), c.folder)
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", folder)
			p, err := bench.Complete(c.launcher.Name, c.launcher.Params, nil)
			if err != nil {
				t.Fatal(err)
			}
			env, err := c.launcher.Open(t.Context(), host.Local(), p)
			if err == nil || env != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s in %q: %v, want %q", c.launcher.Name, c.folder, err, c.want)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%s in %q left %v (%v)", c.launcher.Name, c.folder, left, err)
			}
		})
	}
}

// TestEntry: podman reads JSON as the entry point, docker does not.
func TestEntry(t *testing.T) {
	for _, c := range []struct{ engine, program, want string }{
		{"podman", "null", `["null"]`},
		{"podman", `["a"]`, `["[\"a\"]"]`},
		{"docker", "null", "null"},
	} {
		t.Run(c.engine, func(t *testing.T) {
			option, rest := engine{command: c.engine}.entry([]string{c.program, "x"})
			if got := strings.Join(option, " ") + " " + strings.Join(rest, " "); got != "--entrypoint "+c.want+" x" {
				t.Errorf("%s %s: %s", c.engine, c.program, got)
			}
		})
	}
}

// TestRequestWord: debugfs writes an image's files into a folder whose path has spaces and quotes.
func TestRequestWord(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if out, err := exec.Command("mkfs.ext4", "-q", disk, "2M").CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4 (package e2fsprogs): %v: %s", err, out)
	}
	into := filepath.Join(t.TempDir(), `a "b" c\d`)
	folder, err := imageFolder(t.Context(), host.Local(), disk, into)
	if err != nil || folder != into {
		t.Fatalf("%q, %v", folder, err)
	}
	if _, err := os.Stat(filepath.Join(into, "lost+found")); err != nil {
		t.Error(err)
	}
}
