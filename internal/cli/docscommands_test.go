package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// shown is a command as a page or a help shows it.
type shown struct {
	where  string // the page or the command
	words  []string
	beside string // what the reader sees with it: the comment on its line, or the paragraph in which it stands
	inText bool   // in a sentence, which may name a command without its arguments
}

func (s *shown) String() string { return s.where + ": " + strings.Join(s.words, " ") }

var (
	inCode  = regexp.MustCompile("`([^`]+)`")
	starter = regexp.MustCompile(`^(teescope|make|go) `)
	setting = regexp.MustCompile(`(?s)^([a-z]+)=(.*)$`)
)

// commandsOf are the commands of a page: the lines of its blocks of shell commands and of indented code, and what stands in
// backquotes and begins with a program of ours.
func commandsOf(where, text string) (out []shown) {
	var fence, joined string
	var paragraph []string
	variables := map[string]string{}
	sentence := func() {
		whole := strings.ReplaceAll(strings.Join(paragraph, " "), `\|`, "|")
		for _, m := range inCode.FindAllStringSubmatch(whole, -1) {
			if !starter.MatchString(m[1]) {
				continue
			}
			for _, words := range shellCommands(m[1]) {
				out = append(out, shown{where, words, whole, true})
			}
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "```"); ok {
			if fence == "" {
				sentence()
				fence = "of " + rest
				variables = map[string]string{}
			} else {
				fence = ""
			}
			continue
		}
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence == "of sh", fence == "of " && (joined != "" || starter.MatchString(line)):
			code = line
		case fence != "":
			continue
		case !indented || joined == "" && !starter.MatchString(code):
			if line == "" || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|") {
				sentence()
			}
			paragraph = append(paragraph, line)
			continue
		}
		if before, more := strings.CutSuffix(joined+code, `\`); more {
			joined = before
			continue
		}
		code, joined = joined+code, ""
		_, comment, _ := strings.Cut(code, " #")
		for _, words := range shellCommands(code) {
			if m := setting.FindStringSubmatch(words[0]); m != nil {
				variables["$"+m[1]] = m[2]
				continue
			}
			for i, word := range slices.Backward(words) {
				if value, ok := variables[word]; ok {
					words = slices.Replace(words, i, i+1, strings.Fields(value)...)
				}
			}
			out = append(out, shown{where, words, comment, false})
		}
	}
	sentence()
	return out
}

// shellCommands splits a line at what separates a shell's commands, and those into words. It leaves out comments and
// redirections, and the brackets around what is optional.
func shellCommands(line string) (out [][]string) {
	var words []string
	var word strings.Builder
	in, skip := false, false
	quote := rune(0)
	end := func() {
		if in && !skip {
			words = append(words, word.String())
		}
		if in {
			skip = false
		}
		in = false
		word.Reset()
	}
	runes := []rune(line)
scan:
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == '\\' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			in = true
		case c == '#' && !in:
			break scan
		case c == ' ' || c == '\t':
			end()
		case c == '|' || c == ';' || c == '&':
			end()
			if words != nil {
				out, words = append(out, words), nil
			}
		case c == '>' || c == '<':
			if strings.Trim(word.String(), "0123456789") == "" { // of a descriptor
				in = false
			}
			end()
			skip = true
		case c == '[' || c == ']':
		default:
			word.WriteRune(c)
			in = true
		}
	}
	end()
	if words != nil {
		out = append(out, words)
	}
	return out
}

// TestCommandsOf finds commands where pages have them.
func TestCommandsOf(t *testing.T) {
	page := "Run `teescope bench run a --env b\n--param 'c=d e'` (needs f), `go`, and `make g | h`.\n- `make i`\n\n    teescope j   # needs k\n    {l: m}\n\n" +
		"```sh\nn=\"o p\"\nteescope $n \\\n  q >r.json 2>s; t [--u]   # needs v\n```\n```\nno command\nmake w\n```\n```yaml\nmake: x\n```\n"
	var got []string
	for _, s := range commandsOf("page", page) {
		told := ""
		if m := needed.FindStringSubmatch(s.beside); m != nil {
			told = m[1]
		}
		got = append(got, fmt.Sprintf("%s (%s, %v)", strings.Join(s.words, "·"), told, s.inText))
	}
	want := []string{"teescope·bench·run·a·--env·b·--param·c=d e (f, true)", "make·g (f, true)", "h (f, true)", "make·i (, true)", "teescope·j (k, false)",
		"teescope·o·p·q (v, false)", "t·--u (v, false)", "make·w (, false)"}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// others are programs that pages show and that are not ours. Those with a package are named by the page, after "needs".
var others = map[string]struct{ why, needs string }{
	"curl":    {why: "asks a server, here through its Unix socket", needs: "curl"},
	"git":     {"the README's first line, and examples of bench commits", ""},
	"cd":      {"a shell's own", ""},
	"export":  {"a shell's own", ""},
	"podman":  {"takes the image", "podman"},
	"skopeo":  {"takes the image", "skopeo"},
	"kubectl": {"prepares a cluster for the chart", "kubectl"},
	"helm":    {"installs the chart", "Helm"},
	"java":    {"runs the Java workloads", "JDK"},

	"tar":       {"unpacks a release", ""},
	"sudo":      {"installs a package of a release", ""},
	"base64":    {"decodes the signature of a release", ""},
	"sha256sum": {"checks a release", ""},
	"openssl":   {"checks the signature of a release", "openssl"},
	"cosign":    {"signs the checksums of a release", "cosign"},
}

// noCommands begin like commands and are none.
var noCommands = map[string]string{
	"teescope attested result": "what a TEE's evidence is bound to",
	"teescope signed result":   "what a signature is bound to",
	"teescope channel 1":       "what a handshake is bound to",
}

// forms are words of a command's form. Only its flags are checked.
var forms = []string{"NAME", "NAME...", "…", "..."}

// readers are things of the reader's own that examples name, with what stands for them here.
var readers = strings.NewReplacer("./old", "/bin/sh", "./new", "/bin/sh", "./wrapper.yaml", "../bench/launchers/testdata/wrapper.yaml")

// TestCommandsOfPages tries what pages and helps show: commands, flags, targets and packages exist, and each benchmark runs on a
// fresh machine after make run, or the text beside it says what it needs.
func TestCommandsOfPages(t *testing.T) {
	var all []shown
	for file, text := range pages(t) {
		if filepath.Base(file) != "CHANGELOG.md" { // it says what was
			all = append(all, commandsOf(file, text)...)
		}
	}
	all = append(all, examplesOf(rootCommand(Env{}))...)
	if len(all) < 250 {
		t.Errorf("only %d commands in all pages", len(all))
	}
	used := map[string]bool{}
	for _, s := range all {
		name := strings.Join(s.words[:min(3, len(s.words))], " ")
		switch _, none := noCommands[name]; {
		case none:
			used[name] = true
		case s.words[0] == "teescope":
			checkTeescope(t, &s)
		case s.words[0] == "make":
			checkMake(t, &s)
		case s.words[0] == "go":
			checkGo(t, &s)
		default:
			other, known := others[s.words[0]]
			if used[s.words[0]] = true; !known {
				t.Errorf("%s: a program that is not in the list of others", &s)
			}
			if page, err := os.ReadFile(s.where); other.needs != "" && (err != nil || !regexp.MustCompile(`(?i)\bneeds?\b[^.\n]*`+other.needs).Match(page)) {
				t.Errorf("%s: the page does not say that it needs %s (%v)", &s, other.needs, err)
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(others)), slices.Collect(maps.Keys(noCommands))) {
		if !used[name] {
			t.Errorf("no page shows %q, which a list of this test has", name)
		}
	}
}

// examplesOf are the commands in the help of a command and of those below it.
func examplesOf(c *cobra.Command) (out []shown) {
	out = commandsOf(c.CommandPath()+" --help", c.Long)
	for line := range strings.Lines(c.Example) {
		_, comment, _ := strings.Cut(line, " #")
		for _, words := range shellCommands(strings.TrimSpace(line)) {
			if words[0] != "jq" {
				out = append(out, shown{c.CommandPath() + " --help", words, comment, false})
			}
		}
	}
	for _, below := range c.Commands() {
		out = append(out, examplesOf(below)...)
	}
	return out
}

func checkTeescope(t *testing.T, s *shown) {
	t.Helper()
	c, rest, err := rootCommand(Env{Stdout: io.Discard, Stderr: io.Discard}).Find(s.words[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s: %v", s, err)
		return
	}
	args := c.Flags().Args()
	if !s.inText || len(args) > 0 {
		if err := c.ValidateArgs(args); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	switch c.CommandPath() {
	case "teescope bench run", "teescope bench calibrate", "teescope bench plan":
	default:
		return
	}
	resumed, _ := c.Flags().GetBool("resume")
	if resumed || len(args) == 0 || slices.ContainsFunc(s.words, func(w string) bool { return slices.Contains(forms, w) }) {
		return
	}
	checkBenchmark(t, s, c.Name(), rest)
}

// checkBenchmark makes a dry run, and compares what a fresh machine lacks with what the reader is told.
func checkBenchmark(t *testing.T, s *shown, verb string, words []string) {
	t.Helper()
	words = slices.Clone(words)
	for i := range words {
		words[i] = readers.Replace(words[i])
	}
	argv := append([]string{"bench", verb}, words...)
	if verb != "plan" {
		argv = append(argv, "--dry-run")
	}
	if _, said, code := run(t, argv...); code != exitOK && !strings.Contains(said, " cannot run here: ") {
		t.Errorf("%s: exit status %d: %s", s, code, said)
		return
	}
	if verb == "plan" {
		return // it prints commands for other machines
	}
	var told strings.Builder
	for _, m := range needed.FindAllStringSubmatch(s.beside, -1) {
		told.WriteString(m[1] + "\n")
	}
	for env, why := range lackedBy(t, words) {
		if names := lackedNames(why); !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(told.String(), name) }) {
			t.Errorf("%s: on a fresh machine %s lacks one of %q; the text beside it says that it needs %q", s, env, names, told.String())
		}
	}
}

// needed is what a text says after "needs", to the end of the sentence or the brackets.
var needed = regexp.MustCompile(`\bneeds ((?:[^;).]|\.\S)*)`)

// lackedNames are the programs, packages, files and targets that are named by the reason why an environment cannot run.
func lackedNames(why string) (names []string) {
	for _, m := range regexp.MustCompile("(?:missing on this machine: |; )([^ ;]+) \\(|package ([\\w.+-]+)|needs (\\S+) on this machine|file (\\S+) of the job|`(make [^`]*)`|find (\\S+):|/opt/([A-Za-z]+)").FindAllStringSubmatch(why, -1) {
		names = append(names, strings.Join(m[1:], ""))
	}
	return names
}

// lackedBy returns the environments of a benchmark that a machine lacks that has only what make run leaves there, with the reasons.
func lackedBy(t *testing.T, words []string) map[string]string {
	t.Helper()
	var f benchFlags
	c := &cobra.Command{}
	f.add(c)
	if err := c.ParseFlags(words); err != nil {
		t.Fatal(err)
	}
	choices, err := f.choices(c.Flags().Args(), false)
	if err != nil {
		t.Fatal(err)
	}
	fresh := *host.At(t.TempDir())
	fresh.Exec = func(context.Context, host.Cmd) (host.Output, error) { return host.Output{}, fs.ErrNotExist }
	for _, program := range []string{"sh", "env", "cp", "tar", "nice", "taskset", "unshare", "teescope", "teescope-work", "teescope-prove"} { // of essential packages, and ours
		if err := fresh.Install("/usr/bin/"+program, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := fresh.Install("/bin/sh", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin")
	lacks, arms := map[string]string{}, 0
	for _, choice := range choices {
		plans, err := bench.NewPlans(choice, lists())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plans {
			p.LoadElsewhere = f.client != ""
			arms += len(p.Arms)
			for _, x := range p.Lacking(&fresh) {
				lacks[x.Env] = x.Why
			}
		}
	}
	if !f.all(false) && len(lacks) < arms { // an experiment runs without them
		return nil
	}
	return lacks
}

// checkMake: the target exists, in the page's folder if there are targets.
func checkMake(t *testing.T, s *shown) {
	t.Helper()
	makefile := filepath.Join(filepath.Dir(s.where), "Makefile")
	if _, err := os.Stat(makefile); err != nil || slices.Contains(s.words, "-C") {
		makefile = "../../Makefile"
	}
	var targets []string
	for i := 1; i < len(s.words); i++ {
		switch word := s.words[i]; {
		case word == "-C":
			i++
			makefile = filepath.Join("../..", s.words[i], "Makefile")
		case !strings.Contains(word, "="):
			targets = append(targets, word)
		}
	}
	for _, file := range []string{makefile, "../../Makefile"} { // a page of a workload also names the targets of all
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			return
		}
		targets = slices.DeleteFunc(targets, func(target string) bool {
			return regexp.MustCompile(`(?m)^[^#\t\n:=]*\b` + regexp.QuoteMeta(target) + `\b[^=\n:]*:`).Match(text)
		})
	}
	if len(targets) > 0 {
		t.Errorf("%s: no target %q", s, targets)
	}
}

// checkGo: the packages are there, and so are the flags of a program that is run.
func checkGo(t *testing.T, s *shown) {
	t.Helper()
	for i, word := range s.words {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		dir := filepath.Join("../..", word)
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if s.words[1] != "run" {
			continue
		}
		text, err := fs.Glob(os.DirFS(dir), "*.go")
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, name := range text {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			code.Write(b)
		}
		for _, flag := range s.words[i+1:] {
			if name, ok := strings.CutPrefix(flag, "-"); ok && !regexp.MustCompile(`flag\.\w+\([^"\n]*`+fmt.Sprintf("%q", name)).MatchString(code.String()) {
				t.Errorf("%s: no flag %s", s, flag)
			}
		}
	}
}
