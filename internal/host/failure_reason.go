package host

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// How much a line of a program's output says about why it failed.
type weight int

const (
	noise weight = iota // how to call the program, hints, what an earlier line goes on with
	quiet               // warnings, notes
	plain
	problem
	deadly
)

var (
	usage = regexp.MustCompile(`(?i)^(usage\b|valid values\b|options:|try\b|see ['"` + "`" + `]|run ['"` + "`" + `]|use -|did you mean|for more information|hint:|\S+: hint:|-)|--help\b|copyright`)
	mild  = regexp.MustCompile(`(?i)\b(warn(ing)?|info|note|notice|debug|trace|deprecated)\b|^[IW]\d{4} |^  % Total|(\b(0|no) (errors?|failures?)|errors?["']?\s*[:=]\s*["']?0)\b`)
	wrong = regexp.MustCompile(`(?i)error\b|exception\b|\b(err|fail(ed|s|ure)?|cannot|can't|couldn't|(can|could|does|did|do) not|unable|invalid|illegal|unknown|unrecogni[sz]ed|unsupported|` +
		`not (found|supported|permitted|allowed|defined)|no such|denied|refused|missing|abort(ed|ing)?|killed|out of memory|time(d )?out|too (many|large|small|long)|undefined|must|bad|wrong)\b`)
	worst  = regexp.MustCompile(`(?i)\b(fatal|panic(ked)?|emerg|crit(ical)?|segmentation fault|assertion)\b|^F\d{4} `)
	escape = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	// message is the text in a line of a structured log, or of a document.
	message = regexp.MustCompile(`(?:\bmsg=|^"(?:error|message)":\s*)("(?:[^"\\]|\\.)*"|\S+)`)
)

// remark is a line of a program's output.
type remark struct {
	weight
	text string
}

// remarks weighs the lines of an output.
func remarks(out []byte) []remark {
	var all []remark
	calling := false // a text about how to call the program has begun
	for line := range strings.Lines(string(out)) {
		line = escape.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
		line = line[strings.LastIndexByte(line, '\r')+1:] // a progress line overwrites itself
		line = strings.Map(func(r rune) rune {
			if r != '\t' && !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(line, ""))
		text := strings.TrimSpace(line)
		if text == "" || len(all) > 0 && all[len(all)-1].text == text {
			continue
		}
		r := remark{plain, text}
		switch {
		case usage.MatchString(text):
			r.weight, calling = noise, calling || !strings.HasPrefix(text, "-")
		case mild.MatchString(text):
			r.weight = quiet
		case worst.MatchString(text):
			r.weight = deadly
		case wrong.MatchString(text) && !(calling && line != text):
			r.weight = problem
		case calling || unicode.IsSpace(rune(line[0])) || strings.Trim(text, "{}[],") == "":
			r.weight = noise
		}
		if m := message.FindStringSubmatch(text); m != nil {
			if r.text = m[1]; strings.HasPrefix(r.text, `"`) {
				_ = json.Unmarshal([]byte(m[1]), &r.text)
			}
		}
		all = append(all, r)
	}
	return all
}

// longestReason bounds a reason, in bytes.
const longestReason = 300

// reason is what remarks say about why their program failed, and how much that is.
func reason(all []remark) (string, weight) {
	top := noise
	for _, r := range all {
		top = max(top, r.weight)
	}
	var first []string // from the first of the weightiest on
	last := ""
	for _, r := range all {
		if r.weight == top {
			last = r.text
		}
		if r.weight == top || len(first) > 0 && r.weight >= plain {
			first = append(first, r.text)
		}
	}
	if top < plain && len(first) > 1 {
		first = first[:1]
	}
	text := strings.Join(first, "; ")
	switch {
	case len(text) <= longestReason:
	case top == plain: // then the end is likelier to say it
		text = "…" + strings.ToValidUTF8(text[len(text)-longestReason:], "")
	case last == first[0]:
		text = clip(text, longestReason)
	default:
		text = clip(text, longestReason/2) + " " + clip(last, longestReason/2)
	}
	return text, top
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// weighedReason is the reason that an output gives, "" for none.
func (o *Output) weighedReason() (string, weight) {
	text, w := reason(remarks(o.Stderr))
	if w < plain {
		if out, more := reason(remarks(o.Stdout)); more > w || text == "" {
			return out, more
		}
	}
	return text, w
}

// FailureReason is why a program failed in its own words, without what it prints besides: usage, progress, warnings; "" if it
// said nothing.
func (o Output) FailureReason() string {
	text, _ := o.weighedReason()
	return text
}

// WithReason adds to the error of programs the words of the one that says most.
func WithReason(err error, outputs ...Output) error {
	words, most, failed := "", noise, false
	for i := range outputs {
		o := &outputs[i]
		if text, w := o.weighedReason(); text != "" && (words == "" || w > most || w == most && !failed && o.Code > 0) {
			words, most, failed = text, w, o.Code > 0
		}
	}
	if err == nil || words == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, words)
}
