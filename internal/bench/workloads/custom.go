package workloads

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var wallSeconds = &metric.Desc{Name: "wall_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
	Help: "Wall time of the command in seconds, on the harness's clock. It includes the launcher's own cost, which the workload null shows."}

var customOperations = &metric.Desc{Name: "operations_total", Unit: "operations", Kind: metric.Counter,
	Help: "Operations of the run; the run's counters are divided by this number. It is the number that the program prints, or 1 for the whole run."}

// custom is any command. By default a run's number is its wall time; a program
// that measures itself prints a number, which a pattern or a path finds.
//
// A program's own time comes from its own clock: inside a TEE prefer the wall time, and a run
// long enough that its start does not matter.
var custom = bench.Workload{
	Name:    "custom",
	Doc:     "Any command: the command's wall time, or a number from the command's output. The output can be checked.",
	Version: 1,
	Params: []bench.Param{
		{Name: "command", Text: true, Doc: "Command line to run, in the folder of the files. It is split into words as a shell does, with '...', \"...\" and \\; nothing else is special. {binary} is the program that is compared, {work} and {data} are folders, {host} is an address and {port} a free port. Any other text is passed on unchanged."},
		{Name: "shell", Default: "no", Values: []string{"no", "sh"}, Doc: "Whether the command runs through a shell. sh runs it with sh -c, for pipes and variables; the environment then needs a shell, and the measured time includes the shell's start."},
		{Name: "binary", Path: true, Subject: true, Doc: "A program on the harness's machine, copied into the environment. Environments may use different programs."},
		{Name: "files", Path: true, List: true, Doc: "Files to copy into the command's folder, separated by commas; PATH:NAME renames a file."},
		{Name: "pattern", Text: true, Doc: "Regular expression (RE2; ^ and $ match at lines) whose first group is the number in standard output. The expression must match exactly once."},
		{Name: "json", Text: true, Doc: "Path of the number, if standard output is one JSON document: for example jobs[0].read.iops, with [\"...\"] for a key that has dots."},
		{Name: "operations", Text: true, Doc: "Regular expression whose first group is the number of operations of the run (such as requests), with the syntax of pattern. Counters are divided by this number. Without it, the run is one operation."},
		{Name: "metric", Default: "result", Doc: "Name of the number that pattern or json finds, without its unit."},
		{Name: "unit", Default: "seconds", Doc: "Base unit of the number (seconds, bytes_per_second, requests_per_second, ...)."},
		{Name: "scale", Default: "1", Doc: "Factor that converts the number to base units: 0.001 if the program prints milliseconds."},
		{Name: "better", Default: "lower", Values: []string{"lower", "higher"}, Doc: "Which direction is better."},
		{Name: "expect", Text: true, Doc: "Regular expression as for pattern. If standard output does not match the expression, the run is refused."},
		{Name: "digest", Default: "none", Values: []string{"none", "stdout"}, Doc: "Comparison of the output between runs. none: no comparison. stdout: every run must print the same bytes to standard output."},
		{Name: "estimate", Default: "1s", Doc: "Approximate duration of a run, for the plan."},
	},
	Operations: customOperations,
	Metrics: func(p bench.Params) []*metric.Desc {
		if parsed := customDesc(p); parsed != nil {
			return []*metric.Desc{parsed, wallSeconds, customOperations}
		}
		return []*metric.Desc{wallSeconds, customOperations}
	},
	Primary: func(p bench.Params) *metric.Desc { return cmp.Or(customDesc(p), wallSeconds) },
	Estimate: func(p bench.Params) (time.Duration, int64) {
		d, err := p.Seconds("estimate")
		if err != nil {
			return time.Second, 0 // Job reports what is wrong
		}
		return d, 0
	},
	Job: customJob,
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		samples := []metric.Sample{{Desc: wallSeconds, Value: o.Inside.Wall.Seconds()}}
		var errs []error
		if n, err := customCount(o.Params, o.Inside.Stdout); err != nil {
			errs = append(errs, &bench.MetricError{Metric: customOperations.Name, Err: err})
		} else {
			samples = append(samples, metric.Sample{Desc: customOperations, Value: n})
		}
		if desc := customDesc(o.Params); desc != nil {
			if v, err := customValue(o.Params, o.Inside.Stdout); err != nil {
				errs = append(errs, &bench.MetricError{Metric: desc.Name, Err: err})
			} else {
				samples = append(samples, metric.Sample{Desc: desc, Value: v})
			}
		}
		return samples, errors.Join(errs...)
	},
	Check: func(o bench.Outcome) (string, error) {
		if o.Inside.Code != 0 {
			return "", fmt.Errorf("the command ended with status %d, want 0", o.Inside.Code)
		}
		if o.Params["expect"] != "" {
			re, err := customPattern(o.Params, "expect")
			if err != nil {
				return "", err
			}
			if !re.Match(o.Inside.Stdout) {
				return "", fmt.Errorf("standard output does not match the pattern %q; the output ends with %.80q", o.Params["expect"], tail(o.Inside.Stdout, 80))
			}
		}
		if o.Params["digest"] == "stdout" && o.Inside.Cut.Stdout > 0 {
			return "", fmt.Errorf("digest=stdout compares whole outputs, and this output is %d bytes too long: let the command print a checksum (sha256sum)", o.Inside.Cut.Stdout)
		}
		if o.Params["digest"] == "stdout" {
			return digest("custom", string(o.Inside.Stdout)), nil
		}
		return digest("custom", o.Params["command"], o.Params["expect"]), nil
	},
}

// customUnits are the scaled units that people write, and what to write instead.
var customUnits = map[string]string{
	"ms": "unit=seconds and scale=1e-3", "milliseconds": "unit=seconds and scale=1e-3",
	"us": "unit=seconds and scale=1e-6", "microseconds": "unit=seconds and scale=1e-6",
	"ns": "unit=seconds and scale=1e-9", "nanoseconds": "unit=seconds and scale=1e-9",
	"s": "unit=seconds", "percent": "unit=ratio and scale=0.01",
	"KiB": "unit=bytes and scale=1024", "MiB": "unit=bytes and scale=1048576",
}

// customDesc is the metric that the user describes, or nil for the wall time. Two calls with
// equal parameters give equal descriptions.
func customDesc(p bench.Params) *metric.Desc {
	if p["pattern"] == "" && p["json"] == "" {
		return nil
	}
	name := strings.TrimSuffix(p["metric"], "_"+p["unit"]) + "_" + p["unit"]
	d := &metric.Desc{Name: name, Unit: p["unit"], Kind: metric.Gauge, Better: metric.Lower,
		Help: "The number that the command printed, in " + strings.ReplaceAll(p["unit"], "_", " ") + "."}
	if p["better"] == "higher" {
		d.Better = metric.Higher
	}
	return quotient(d) // what a ratio of the user's is a share of is not known
}

// customJob also refuses what would only be noticed after a run.
func customJob(p bench.Params) (bench.Job, error) {
	if p["pattern"] != "" && p["json"] != "" {
		return bench.Job{}, errors.New("parameters pattern and json are both set: give only one of them")
	}
	for _, name := range []string{"pattern", "expect", "operations"} {
		re, err := customPattern(p, name)
		if err != nil {
			return bench.Job{}, err
		}
		if name != "expect" && p[name] != "" && re.NumSubexp() < 1 {
			return bench.Job{}, fmt.Errorf("parameter %s=%q: want a group, as in latency: ([0-9.]+)", name, p[name])
		}
	}
	if _, err := jsonPath(p["json"]); err != nil && p["json"] != "" {
		return bench.Job{}, err
	}
	if d := customDesc(p); d != nil {
		if _, scaled := customUnits[d.Unit]; scaled {
			return bench.Job{}, fmt.Errorf("parameter unit=%q: want a base unit, with %s", d.Unit, customUnits[d.Unit])
		}
		if err := d.Check(); err != nil || d.Unit == "" || d.Name == wallSeconds.Name {
			return bench.Job{}, fmt.Errorf("parameters metric=%q and unit=%q: want names like latency and seconds, and no %s", p["metric"], p["unit"], wallSeconds.Name)
		}
	}
	if _, err := customScale(p); err != nil {
		return bench.Job{}, err
	}
	if _, err := p.Seconds("estimate"); err != nil {
		return bench.Job{}, err
	}

	command, binary := p["command"], p["binary"]
	var argv []string
	if p["shell"] == "sh" {
		argv = []string{"sh", "-c", command}
	} else if split, err := words(command); err != nil {
		return bench.Job{}, fmt.Errorf("parameter command: %w", err)
	} else {
		argv = split
	}
	switch {
	case len(argv) == 0 || command == "":
		return bench.Job{}, errors.New("parameter command: want the command to run, as in --param command='sha256sum data.bin'")
	case binary == "" && strings.Contains(command, "{binary}"):
		return bench.Job{}, errors.New("parameter command names {binary}: give the parameter binary, the path of a program")
	case binary != "" && !strings.Contains(command, "{binary}"):
		return bench.Job{}, errors.New("parameter command: must contain {binary}, because the parameter binary is given")
	}

	job := bench.Job{Inside: host.Cmd{Argv: argv, Dir: "{work}"}}
	if binary != "" {
		job.Files = append(job.Files, bench.File{Name: path.Base(binary), From: binary, Exec: true})
		name := "{work}/" + path.Base(binary)
		if p["shell"] == "sh" {
			name = host.Quote(name)
		}
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "{binary}", name)
		}
	}
	for file := range strings.SplitSeq(p["files"], ",") {
		from, name, ok := strings.Cut(file, ":")
		if !ok {
			name = path.Base(from)
		}
		if from != "" {
			job.Files = append(job.Files, bench.File{Name: name, From: from, Exec: true})
		}
	}
	return job, nil
}

// words splits a command as a shell does: white space separates, '...' is literal, in "..." a
// backslash escapes " and \, elsewhere it escapes anything. Anything else that is special to a
// shell is refused unless quoted.
func words(s string) ([]string, error) {
	var out []string
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			word = append(word, c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\':
			if i++; i == len(s) {
				return nil, errors.New("the text ends in a backslash")
			}
			if quote == '"' && s[i] != '"' && s[i] != '\\' {
				word = append(word, '\\')
			}
			word, in = append(word, s[i]), true
		case c == '\'' || c == '"':
			quote, in = c, true
		case strings.IndexByte(" \t\n", c) >= 0:
			if in {
				out = append(out, string(word))
			}
			word, in = nil, false
		case strings.IndexByte("|&;<>()$`*?~#", c) >= 0:
			return nil, fmt.Errorf("%q has a special meaning in a shell: quote it, or set shell=sh", c)
		default:
			word, in = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c quote is not closed", quote)
	}
	if in {
		out = append(out, string(word))
	}
	return out, nil
}

// customValue finds the number in an output.
func customValue(p bench.Params, stdout []byte) (float64, error) {
	text := ""
	if p["json"] != "" {
		var err error
		if text, err = jsonNumber(p["json"], stdout); err != nil {
			return 0, err
		}
	} else {
		var err error
		if text, err = customMatch(p, "pattern", stdout); err != nil {
			return 0, err
		}
	}
	scale, err := customScale(p)
	if err != nil {
		return 0, err
	}
	v, err := metric.ParseNumber(text)
	if v *= scale; math.IsInf(v, 0) {
		err = fmt.Errorf("the number %.40q times the scale %g is too large", text, scale)
	}
	return v, err
}

// customCount is the number of operations that a run made.
func customCount(p bench.Params, stdout []byte) (float64, error) {
	if p["operations"] == "" {
		return 1, nil
	}
	text, err := customMatch(p, "operations", stdout)
	if err != nil {
		return 0, err
	}
	v, err := metric.ParseNumber(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("the pattern operations found %.40q, want a number above 0", text)
	}
	return v, err
}

// customMatch is the first group of a parameter's pattern, which must match once.
func customMatch(p bench.Params, name string, stdout []byte) (string, error) {
	re, err := customPattern(p, name)
	if err != nil {
		return "", err
	}
	found := re.FindAllSubmatch(stdout, 2)
	if len(found) != 1 || len(found[0]) < 2 {
		return "", fmt.Errorf("the pattern %q matches %s in standard output, want one match", p[name], []string{"nothing", "once", "more than once"}[len(found)])
	}
	return string(found[0][1]), nil
}

// customPattern compiles a parameter; ^ and $ match at lines.
func customPattern(p bench.Params, name string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("(?m)" + p[name])
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", name, err)
	}
	return re, nil
}

func customScale(p bench.Params) (float64, error) {
	return p.Number("scale", true)
}

// before names the place of a fault in a path.
func before(rest string) string {
	if rest == "" {
		return " at the end"
	}
	return fmt.Sprintf(" before %q", rest)
}

// jsonPath splits a.b[0]["c.d"] into keys (string) and places (int).
func jsonPath(s string) ([]any, error) {
	var steps []any
	for rest := s; rest != "" || steps == nil; {
		if inner, ok := strings.CutPrefix(rest, "["); ok {
			if key, err := strconv.QuotedPrefix(inner); err == nil && key[0] == '"' && strings.HasPrefix(inner[len(key):], "]") {
				text, _ := strconv.Unquote(key)
				steps, rest = append(steps, text), inner[len(key)+1:]
				continue
			}
			place, after, ok := strings.Cut(inner, "]")
			i, err := strconv.ParseUint(place, 10, 31)
			if !ok || err != nil {
				return nil, fmt.Errorf("parameter json=%q: want [0] or [\"key\"] in the place of %q, as in stats.latency[0]", s, rest)
			}
			steps, rest = append(steps, int(i)), after
			continue
		}
		if steps != nil {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, "."); !ok {
				return nil, fmt.Errorf("parameter json=%q: write a dot or a bracket before %q, as in stats.latency[0].p99", s, rest)
			}
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("parameter json=%q: a key is missing%s; want a path like stats.latency[0]", s, before(rest))
		}
		steps, rest = append(steps, rest[:end]), rest[end:]
	}
	return steps, nil
}

// jsonNumber returns the text of the number at a path of a document. A number in quotes counts
// too: some programs print all values that way.
func jsonNumber(at string, doc []byte) (string, error) {
	steps, err := jsonPath(at)
	if err != nil {
		return "", err
	}
	var v any
	one, err := document.One(doc)
	if err != nil {
		return "", fmt.Errorf("standard output is not a JSON document: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(one))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("standard output is not a JSON document: %w", err)
	}
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			if v = object[step]; v == nil {
				return "", fmt.Errorf("%s: the JSON document has no key %q at this place", at, step)
			}
		case int:
			array, _ := v.([]any)
			if step >= len(array) {
				return "", fmt.Errorf("%s: the JSON document has no element [%d] at this place", at, step)
			}
			v = array[step]
		}
	}
	switch v := v.(type) {
	case json.Number:
		return v.String(), nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("%s: the JSON document's value at this path is not a number", at)
}

// tail is the end of an output, at most n bytes.
func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
