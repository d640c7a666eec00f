package launchers

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

//go:generate go test -count=1 -run ^TestTemplateSchema$ . -update

// TemplateSchema is the JSON Schema (draft 2020-12) of a command template, made from the
// type template.
//
//go:embed template.schema.json
var TemplateSchema []byte

// template is a command template: a launcher as data, for TEEs that wrap a
// command line.
//
// In the words of a step {work} and {data} are the job's folders, {job} is a
// folder of this job's own for what is generated and built, {program} is the
// job's first word, {name} that without its folders, {params.NAME} a parameter.
// A word that is {argv} or {args} becomes all of the job's words, or all but the
// first. Generated files, whose names have the same placeholders, are
// text/template with <% and %> around the actions (braces are common in the
// files to be made), given .Work .Data .Job .Program .Argv .Dir .Env .Files
// .Own .Params and the functions json and shell, which quote, number, which
// accepts digits only, and paths, which splits a list at its colons.
type template struct {
	// Name of the launcher in --env and in results.
	Name string `yaml:"name"`
	// Doc is a sentence on what it does.
	Doc string `yaml:"doc"`
	// Untried: written from documentation and never run by the authors of teescope. The
	// launcher's doc and every result say so.
	Untried bool `yaml:"untried"`
	// LibraryOS: the runtime itself answers most of what a program asks the kernel for, so
	// what is read inside says nothing about the machine's kernel.
	LibraryOS bool `yaml:"library_os"`
	// OwnPrograms: it runs only programs built for it, so teescope's worker is refused instead of
	// run outside the TEE.
	OwnPrograms bool `yaml:"own_programs"`
	// Params can be set in --env, and stand as {params.NAME} in words.
	Params []templateParam `yaml:"params"`
	// Check lists what the machine must have.
	Check []templateNeed `yaml:"check"`
	// Inside is where the job finds its folders; by default under the paths that they have
	// outside.
	Inside struct {
		Work string `yaml:"work"`
		Data string `yaml:"data"`
	} `yaml:"inside"`
	// Files are made in {job} before the first run of each job.
	Files []templateFile `yaml:"files"`
	// Prepare runs after that, once for each job.
	Prepare []step `yaml:"prepare"`
	// Start runs for as long as the environment is open; it cannot use the placeholders of a job.
	Start *step `yaml:"start"`
	// Ready is repeated until it succeeds: then Start is ready.
	Ready *step `yaml:"ready"`
	// Run is the command of a run; it ends when the job ends.
	Run step `yaml:"run"`
	// Stop runs at the end, before Start is ended.
	Stop []step `yaml:"stop"`
	// TEE is what the template declares of the environment.
	TEE templateTEE `yaml:"tee"`
	// Evidence is kept in the result, and says whether the TEE is on.
	Evidence []templateReading `yaml:"evidence"`
	// Versions are commands whose first line of output is a version, by name.
	Versions map[string]step `yaml:"versions"`
	// Processes are the names under which the host's kernel sees a run; by
	// default that of Run's first word.
	Processes []string `yaml:"processes"`
}

type templateParam struct {
	Name    string   `yaml:"name"`
	Doc     string   `yaml:"doc"`
	Default string   `yaml:"default"`
	Values  []string `yaml:"values"`
}

type templateNeed struct {
	Command string `yaml:"command"`
	Path    string `yaml:"path"`
	Hint    string `yaml:"hint"` // package, or how to get it
}

type templateFile struct {
	Name words `yaml:"name"`
	Text words `yaml:"text"`
}

type step struct {
	Argv []words          `yaml:"argv"`
	Dir  words            `yaml:"dir"`
	Env  map[string]words `yaml:"env"`
}

// templateTEE is what the template declares. Rules read the state from the evidence: the TEE is
// active if all of Active are on; debug is unknown if Debug is neither on nor off.
type templateTEE struct {
	Kind   string         `yaml:"kind"`
	Active []templateRule `yaml:"active"`
	Debug  *templateRule  `yaml:"debug"`
}

// templateRule searches a piece of evidence, by its name, for patterns.
type templateRule struct {
	From string  `yaml:"from"`
	On   pattern `yaml:"on"`
	Off  pattern `yaml:"off"`
}

// templateReading is evidence: a command's output or a file, and the settings
// that its lines show (the first group of a pattern), by name.
type templateReading struct {
	Name     string             `yaml:"name"`
	Argv     []words            `yaml:"argv"`
	Env      map[string]words   `yaml:"env"`
	File     words              `yaml:"file"`
	Settings map[string]pattern `yaml:"settings"`
}

// words is text with placeholders, and the line where it stands.
type words struct {
	text string
	line int
}

func (w *words) UnmarshalYAML(n *yaml.Node) error {
	w.line = n.Line
	return n.Decode(&w.text)
}

// pattern is a regular expression over lines.
type pattern struct{ *regexp.Regexp }

func (p *pattern) UnmarshalYAML(n *yaml.Node) error {
	var s string
	if err := n.Decode(&s); err != nil {
		return err
	}
	re, err := regexp.Compile("(?m)" + s)
	if err != nil {
		return fmt.Errorf("line %d: pattern %q: %w", n.Line, s, err)
	}
	p.Regexp = re
	return nil
}

//go:embed templates/*.yaml
var shipped embed.FS

// templates are the shipped ones, in the order of their file names. A test proves that they
// parse.
func templates() []*bench.Launcher {
	names, err := shipped.ReadDir("templates")
	if err != nil {
		panic(err) // the folder is in the program
	}
	var out []*bench.Launcher
	for _, n := range names {
		data, err := shipped.ReadFile("templates/" + n.Name())
		if err != nil {
			panic(err)
		}
		l, err := FromFile(n.Name(), data)
		if err != nil {
			panic(err)
		}
		out = append(out, l)
	}
	return out
}

// FromFile reads a command template. name is what errors call the file; the
// launcher's own name is in it. Unknown keys and placeholders are errors that
// name the line.
func FromFile(name string, data []byte) (*bench.Launcher, error) {
	var t template
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil {
		var te *yaml.TypeError
		if errors.As(err, &te) { // its text names Go's types
			return nil, fmt.Errorf("%s: %s", name, notInType.ReplaceAllString(strings.Join(te.Errors, "; "), ""))
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: a second document; want one template per file", name)
	}
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t.launcher(), nil
}

// notInType removes the names of Go types from the libraries' errors.
var notInType = regexp.MustCompile(` (in|into) (type )?(\[\]|map\[string\])*launchers\.\w+`)

func (t *template) launcher() *bench.Launcher {
	doc := strings.Join(strings.Fields(t.Doc), " ")
	if t.Untried {
		doc += " The authors of teescope never ran this: they wrote it from the documentation."
	}
	params := []bench.Param{dataParam}
	for _, p := range t.Params {
		params = append(params, bench.Param{Name: p.Name, Doc: p.Doc, Default: p.Default, Values: p.Values})
	}
	return &bench.Launcher{
		Name: t.Name, Doc: doc, Params: params,
		Check: func(h *host.Host, p bench.Params) error {
			var needs []need
			for _, n := range t.Check {
				needs = append(needs, need(n))
			}
			if p["data"] != "" {
				needs = append(needs, dataFolder(p["data"]))
			}
			return missing(h, needs...)
		},
		Refuses: func(p bench.Params, job bench.Job) error {
			if t.OwnPrograms && slices.ContainsFunc(job.Files, func(f bench.File) bool {
				return f.Data != nil && (bytes.Equal(f.Data, micro.Program) || bytes.Equal(f.Data, micro.In(micro.Dynamic)))
			}) {
				return fmt.Errorf("%s runs only programs that were built for this runtime, and teescope's worker was not", t.Name)
			}
			_, err := t.commands(p, job) // what the generated files cannot hold
			return err
		},
		LibraryOS: t.LibraryOS,
		Elsewhere: func(bench.Params) bool { return t.Inside.Work != "" },
		Commands:  t.commands,
		Open:      t.open,
	}
}

var dataParam = bench.Param{Name: "data", Path: true, Doc: "Folder on the disk under test; teescope makes its own folder in it and removes it at the end. Empty: the temporary folder."}

// validate checks what the types cannot express, and expands every text once.
func (t *template) validate() error {
	switch {
	case t.Name == "" || strings.ContainsAny(t.Name, " =,./"):
		return fmt.Errorf("name %q: want a word without spaces, \"=\", \",\", \".\" and \"/\"", t.Name)
	case !strings.HasSuffix(strings.TrimSpace(t.Doc), "."):
		return errors.New("doc: want sentences that describe the environment")
	case len(t.Run.Argv) == 0:
		return errors.New("run: want the argv of a run")
	case t.TEE.Kind == "":
		return errors.New("tee: want the kind of TEE that the template declares: none, sgx, …")
	case t.Ready != nil && t.Start == nil:
		return errors.New("ready: also needs start, the program that ready waits for")
	}
	params := bench.Params{"data": ""}
	for _, p := range t.Params {
		if _, twice := params[p.Name]; twice || p.Name == "" || strings.ContainsAny(p.Name, " =,.{}") || !strings.HasSuffix(p.Doc, ".") {
			return fmt.Errorf("parameter %q: want an unused name and a doc", p.Name)
		}
		if p.Values != nil && !slices.Contains(p.Values, p.Default) {
			return fmt.Errorf("parameter %s: the default %q is not one of its values", p.Name, p.Default)
		}
		params[p.Name] = p.Default
	}
	for _, n := range t.Check {
		if (n.Command == "") == (n.Path == "") || n.Hint == "" {
			return fmt.Errorf("check: %s%s: want a command or a path, and a hint", n.Command, n.Path)
		}
	}
	names := map[string]bool{}
	for _, r := range t.Evidence {
		if r.Name == "" || names[r.Name] || (r.File.text == "") == (r.Argv == nil) {
			return fmt.Errorf("evidence %q: want a name of its own, and argv or file", r.Name)
		}
		names[r.Name] = true
		for name, p := range r.Settings {
			if p.Regexp == nil || p.NumSubexp() < 1 {
				return fmt.Errorf("evidence %s: setting %s: the pattern has no group", r.Name, name)
			}
		}
	}
	rules := slices.Clone(t.TEE.Active)
	if t.TEE.Debug != nil {
		rules = append(rules, *t.TEE.Debug)
	}
	for _, r := range rules {
		if !names[r.From] || r.On.Regexp == nil {
			return fmt.Errorf("tee: a rule of %q: want from (the name of evidence) and on (a pattern)", r.From)
		}
	}
	s := t.scope("{work}", "{data}", "{job}", params, bench.Job{Inside: host.Cmd{Argv: []string{"program"}}})
	_, err := t.everything(s)
	if _, err2 := s.files(t.Files); err == nil {
		err = err2
	}
	return err
}

// everything expands all steps, in the order in which they run.
func (t *template) everything(s scope) ([]host.Cmd, error) {
	var out []host.Cmd
	before := s.withoutJob()
	steps := func(s scope, list ...*step) error {
		for _, st := range list {
			if st == nil {
				continue
			}
			c, err := s.step(*st)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return nil
	}
	pointers := func(list []step) (out []*step) {
		for i := range list {
			out = append(out, &list[i])
		}
		return out
	}
	err := steps(before, t.Start, t.Ready)
	for _, name := range slices.Sorted(maps.Keys(t.Versions)) {
		v := t.Versions[name]
		err = errors.Join(err, steps(before, &v))
	}
	err = errors.Join(err, steps(s, pointers(t.Prepare)...))
	for _, r := range t.Evidence {
		if r.Argv != nil {
			err = errors.Join(err, steps(s, &step{Argv: r.Argv, Env: r.Env}))
		} else if _, err2 := s.expand(r.File); err2 != nil {
			err = errors.Join(err, err2)
		}
	}
	run, err2 := t.run(s)
	out = append(out, run)
	return out, errors.Join(err, err2, steps(before, pointers(t.Stop)...))
}

// run is the command of a run. A wrapper passes its environment and folder on to the job; for an
// enclave that does not, the generated files hold them.
func (t *template) run(s scope) (host.Cmd, error) {
	c, err := s.step(t.Run)
	for k, v := range s.Env {
		if _, taken := c.Env[k]; !taken {
			c.Env = withEntry(c.Env, k, v)
		}
	}
	if c.Dir == "" && t.Inside.Work == "" {
		c.Dir = s.inside.Dir
	}
	c.Stdin, c.Ready, c.Ask = s.inside.Stdin, s.inside.Ready, s.inside.Ask
	return c, err
}

func (t *template) commands(p bench.Params, job bench.Job) ([]host.Cmd, error) {
	s := t.scope("{work}", "{data}", "{job}", p, job)
	files, err := s.files(t.Files)
	if err != nil {
		return nil, err
	}
	var out []host.Cmd
	for _, f := range files { // as a shell would make them
		out = append(out, host.Cmd{Argv: []string{"tee", "{job}/" + f.Name}, Stdin: f.Data})
	}
	steps, err := t.everything(s)
	return append(out, steps...), err
}

// scope holds the values of placeholders.
type scope struct {
	Work, Data, Job string
	Program         string
	Argv            []string
	Dir             string
	Env             map[string]string
	Files           []string
	Own             bool // the program is one of the job's files
	Params          bench.Params
	jobless         bool
	inside          host.Cmd
}

// scope returns the values of placeholders in a job's steps. Folders have their paths on this
// machine; the job's own words have those inside.
func (t *template) scope(work, data, folder string, p bench.Params, job bench.Job) scope {
	in := struct{ work, data string }{work, data}
	if t.Inside.Work != "" {
		in.work = t.Inside.Work
	}
	if t.Inside.Data != "" {
		in.data = t.Inside.Data
	}
	c := place(job.Inside, in.work, in.data)
	s := scope{Work: work, Data: data, Job: folder, Argv: c.Argv, Dir: c.Dir, Env: c.Env, Params: p, inside: c}
	if s.Dir == "" {
		s.Dir = in.work
	}
	if len(c.Argv) > 0 {
		s.Program = c.Argv[0]
	}
	s.Own = !usesMachine(job.Inside)
	for _, f := range job.Files {
		s.Files = append(s.Files, path.Clean(f.Name))
	}
	return s
}

// withoutJob returns the scope without a job.
func (s scope) withoutJob() scope {
	return scope{Work: s.Work, Data: s.Data, Params: s.Params, jobless: true}
}

var placeholder = regexp.MustCompile(`\{[a-z]+(\.[a-z0-9-]+)?\}`)

// expand replaces the placeholders of a text; replacements are not expanded again.
func (s scope) expand(w words) (string, error) {
	var err error
	out := placeholder.ReplaceAllStringFunc(w.text, func(p string) string {
		name := p[1 : len(p)-1]
		if param, ok := strings.CutPrefix(name, "params."); ok {
			if v, ok := s.Params[param]; ok {
				return v
			}
			err = fmt.Errorf("line %d: %s: no such parameter", w.line, p)
			return p
		}
		switch name {
		case "work":
			return s.Work
		case "data":
			return s.Data
		case "job", "program", "name":
			if s.jobless {
				err = fmt.Errorf("line %d: %s: start, ready, stop and versions do not belong to a job, so they cannot use this placeholder", w.line, p)
			}
			switch name {
			case "job":
				return s.Job
			case "name":
				return path.Base(s.Program)
			}
			return s.Program
		case "argv", "args":
			err = fmt.Errorf("line %d: %s: this placeholder expands to several words, so it must be a separate argument, in an argv that knows the job", w.line, p)
		default:
			err = fmt.Errorf("line %d: %s: no such placeholder; the placeholders are {work} {data} {job} {program} {name} {argv} {args} {params.NAME}", w.line, p)
		}
		return p
	})
	return out, err
}

func (s scope) step(st step) (host.Cmd, error) {
	if len(st.Argv) == 0 {
		return host.Cmd{}, errors.New("a step without argv")
	}
	var c host.Cmd
	for _, w := range st.Argv {
		switch {
		case w.text == "{argv}" && !s.jobless:
			c.Argv = append(c.Argv, s.Argv...)
			continue
		case w.text == "{args}" && !s.jobless:
			c.Argv = append(c.Argv, s.Argv[min(1, len(s.Argv)):]...)
			continue
		}
		text, err := s.expand(w)
		if err != nil {
			return c, err
		}
		c.Argv = append(c.Argv, text)
	}
	var err error
	if c.Dir, err = s.expand(st.Dir); err != nil {
		return c, err
	}
	for k, w := range st.Env {
		text, err := s.expand(w)
		if err != nil {
			return c, err
		}
		c.Env = withEntry(c.Env, k, text)
	}
	return c, nil
}

// files are the generated files.
func (s scope) files(list []templateFile) ([]bench.File, error) {
	var out []bench.File
	for _, f := range list {
		name, err := s.expand(f.Name)
		if err == nil && leavesJob(f.Name.text, name) {
			err = fmt.Errorf("line %d: file %q is outside the job's folder: write a name relative to that folder, such as conf/x.toml; it may not begin with / and may not contain .., {job}, {work} or {data}", f.Name.line, name)
		}
		if err != nil {
			return nil, err
		}
		tt, err := texttemplate.New("").Delims("<%", "%>").Option("missingkey=error").Funcs(fileFuncs).Parse(f.Text.text)
		var b bytes.Buffer
		if err == nil {
			err = tt.Execute(&b, s)
		}
		if unfit := new(unfitError); errors.As(err, &unfit) {
			return nil, fmt.Errorf("file %s %w", name, unfit)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: text of file %s: %s", f.Text.line, name, notInType.ReplaceAllString(err.Error(), ""))
		}
		out = append(out, bench.File{Name: name, Data: b.Bytes()})
	}
	return out, nil
}

// leavesJob reports whether a generated file, whose name was expanded, would not lie below the job's folder. The folders of
// the job are absolute where it runs, but not yet where the template is read or only shown.
func leavesJob(text, name string) bool {
	folder := slices.ContainsFunc([]string{"{job}", "{work}", "{data}"}, func(p string) bool { return strings.Contains(text, p) })
	return folder || !filepath.IsLocal(name) || filepath.Clean(name) == "."
}

// fileFuncs are the functions of generated files. A value that goes through one of them stays a value there.
var fileFuncs = texttemplate.FuncMap{"json": toJSON, "shell": host.Quote, "number": toNumber, "paths": filepath.SplitList}

// unfitError says that a value cannot stand in a generated file.
type unfitError struct{ value, why string }

func (e *unfitError) Error() string { return fmt.Sprintf("cannot hold %.60q: %s", e.value, e.why) }

// toJSON writes strings, or lists of them, in a form that TOML 1.0 and JSON (RFC 8259) read alike, also after Jinja, with which
// gramine-manifest renders the whole file first: it acts on {{, {% and {# wherever they stand, and finds none, because the brace is
// written as an escape. So is DEL, which TOML allows in no other form.
func toJSON(v any) (string, error) {
	if text := fmt.Sprint(v); !utf8.ValidString(text) {
		return "", &unfitError{text, "it is not UTF-8"}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	b.Reset()
	for i := range len(text) { // a brace of JSON's own is followed by a name in quotes, or by a brace that closes
		switch c := text[i]; {
		case c == '{' && i+1 < len(text) && strings.IndexByte("{%#", text[i+1]) >= 0, c == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// toNumber accepts a whole number; other text would become part of the file's own notation.
func toNumber(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 63); err != nil {
		return "", &unfitError{s, "want a whole number"}
	}
	return s, nil
}
