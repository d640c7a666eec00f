// Package benchtest has what every environment must pass on to a job unchanged. Only tests import it.
package benchtest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// words mean something to one of the notations that a job passes on its way: shells, Jinja, Go's and teescope's own templates,
// JSON, TOML, YAML, Kubernetes, systemd, printf, QEMU, command lines, terminals.
var words = []string{
	"", " ", "two words", " at both ends ", "\ttab", "line\nbreak", "\n", "carriage\rreturn\r",
	"'", `"`, `'"'"'`, `"quoted"`, `back\slash`, `\`, `\\n`, `\u0041`, `\x41`, "`id`", "$HOME", "${HOME}", "$(id)", "$", "$$", "$(POD_IP)", "$$(POD_IP)", "${#x}", "${x%%y}",
	"{{1}}", "{{ env.HOME }}", "{{ ldd('/bin/sh') }}", "{{", "}}", "{{{{", "{%", "{% if x %}", "%}", "{#", "{# gone #}", "{ {", "{", "}", "{{'", "<% .Work %>", "<%", "%>",
	"{argv}", "{args}", "{program}", "{name}", "{job}", "{params.level}", "{own}", "{teescope}", "{pod}", "{image}", "{a,b}", "{1..3}",
	"%", "%%", "%s%n", "%h", "%i", "%20", "*", "?", "[x]", "~", "~root", "!", "!!", "^", "#", "# comment", ";", "&", "|", "<", ">", "<>", "(", ")",
	"=", "a=b", "A=b", ",", "a,b", ",,", ":", "a:b", "@file", "+x", "-", "--", "-x", "--help", "--env=A=b", "null", "true", "~", "0x10", "1e3", `["a"]`, `{"a":"b"}`, "&anchor", "*alias", "- item", "key: value",
	"ünïcödé", "日本", "🦀", "e\u0301", "\u202eright to left", "\u2028", "\u0085", "\u00a0", "\ufffd", "\ufeff", "\x01", "\x1b[31m", "\x7f",
	strings.Repeat("very long ", 10_000),
	crlf,
}

// crlf is no variable's value: podman run drops its carriage return, so the launcher refuses it.
const crlf = "two lines\r\nof DOS\r\n"

// variable is the name of the environment's variable with words[i].
func variable(i int) string { return fmt.Sprintf("WORD_%d", i) }

// WordsJob prints the words that it gets as arguments and in its environment.
func WordsJob() bench.Job {
	job := bench.Job{Inside: host.Cmd{Argv: append([]string{"sh", "-c", `printf '%s\0' "$@" && exec env -0`, "sh"}, words...), Env: map[string]string{}}, Programs: []string{"env"}}
	for i, w := range words {
		if w != crlf {
			job.Inside.Env[variable(i)] = w
		}
	}
	return job
}

// CheckWords returns an error that names the words of WordsJob which its output lacks or has otherwise.
func CheckWords(stdout []byte) error {
	got := bytes.Split(bytes.TrimSuffix(stdout, []byte{0}), []byte{0})
	if len(got) < len(words) {
		return fmt.Errorf("%d words arrived, want %d arguments and the environment: %.200q", len(got), len(words), stdout)
	}
	var wrong []string
	for i, want := range words {
		if string(got[i]) != want {
			wrong = append(wrong, fmt.Sprintf("argument %.60q arrived as %.60q", want, got[i]))
		}
	}
	env := map[string]string{}
	for _, kv := range got[len(words):] {
		name, value, _ := strings.Cut(string(kv), "=")
		env[name] = value
	}
	for i, want := range words {
		if value, there := env[variable(i)]; want != crlf && (value != want || !there) {
			wrong = append(wrong, fmt.Sprintf("variable %.60q arrived as %.60q (there: %v)", want, value, there))
		}
	}
	if wrong != nil {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}
