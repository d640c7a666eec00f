package printable

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Redacted stands in the place of a secret; net/url uses the same word.
const Redacted = "xxxxx"

// Redact returns a text without its secrets: passwords and lone names in URLs (https://user:x@host), values of parameters,
// options, variables and keys whose names say that they are secret (?token=x, --password x, PASSWORD=x, "password": "x"), headers
// (Authorization: Bearer x), and passwords of programs whose options have one letter (redis-cli -a x). Names of files that hold
// secrets stay (--password-file x, --private-key ./k.pem), and so do names of users (https://git@host). Redacting twice changes
// nothing more.
func Redact(s string) string {
	if !suspicious(s) {
		return s
	}
	var r redactor
	r.scan(s)
	return r.out.String()
}

// RedactWords is Redact for the words of a command line.
func RedactWords(words []string) []string {
	r := redactor{}
	out := make([]string, len(words))
	for i, w := range words {
		r.out.Reset()
		r.word(w, true)
		out[i] = r.out.String()
	}
	return out
}

// URL returns a URL without its secrets.
func URL(u *url.URL) string { return Redact(u.String()) }

// Named is Redact for a value whose name is known: it is a secret if its name says so.
func Named(name, value string) string {
	if value != "" && (isSecret(name) && !isHarmless(name, value) || strings.HasPrefix(name, "__param_") && isSecretParameter(name, true)) {
		return Redacted
	}
	return Redact(value)
}

// suspicious reports whether a text may have a secret. Most texts have none, and this is faster than a scan.
func suspicious(s string) bool {
	lower := strings.ToLower(s)
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(lower, sign) })
}

// signs are parts of each text that has a secret which Redact finds.
var signs = []string{"://", "pass", "pwd", "token", "secret", "key", "auth", "cookie", "credential", "bearer",
	"redis", "valkey", "memtier", "curl", "mysql", "mariadb", "mongo", "sig=", "signature=", "sid=", "jwt=", "hmac="}

// lettered are programs with an option of one letter whose value is a secret. Where joined, the value may follow it directly.
var lettered = map[string]struct {
	option string
	joined bool
}{
	"redis-cli": {"-a", false}, "redis-benchmark": {"-a", false}, "valkey-cli": {"-a", false}, "valkey-benchmark": {"-a", false},
	"memtier_benchmark": {"-a", false}, "curl": {"-u", true}, "sshpass": {"-p", true},
	"mysql": {"-p", true}, "mysqladmin": {"-p", true}, "mysqlslap": {"-p", true}, "mysqldump": {"-p", true}, "mariadb": {"-p", true},
	"mongosh": {"-p", false}, "mongo": {"-p", false}, "mongodump": {"-p", false}, "mongoimport": {"-p", false},
}

// placeholders are words of help texts, which stand in the place of a secret.
var placeholders = []string{"PASSWORD", "TOKEN", "SECRET", "KEY", "FILE", "VALUE", Redacted}

// redactor copies a text word by word. What it has read decides whether the next word is a secret.
type redactor struct {
	out     strings.Builder
	program string // whose options are read
	next    state
	label   string // names the secret that next is
	name    bool   // the word before was in quotes, and names a secret
	within  bool   // a word was on the line
}

// state says what the next word is.
type state int

const (
	usual   state = iota
	secret        // a secret, unless it is another option
	quoted        // a secret, if it is in quotes
	header        // a secret, or the name of a scheme before it
	cookies       // all words of the line are secrets
)

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// scan reads a text.
func (r *redactor) scan(s string) {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case r.next == secret && i > 0 && isSpace(s[i-1]) && !isSpace(c) && !isQuote(c) && c != '\\':
			n := wordLength(s[i:], true)
			r.plain(s, i, n)
			i += n
		case c == '\n':
			// A list of words may have one on each line; then a comma is before the line's end.
			if !strings.HasSuffix(strings.TrimRight(s[:i], " \t\r"), ",") {
				r.program, r.next = "", usual
			}
			r.within = false
			r.copy(s, &i, 1)
		case isSpace(c) || c == ',':
			r.copy(s, &i, 1)
		case c == '\\' && i+1 < len(s) && isQuote(s[i+1]):
			r.quote(s, &i, s[i:i+2])
		case isQuote(c):
			r.quote(s, &i, s[i:i+1])
		case strings.IndexByte("()[]{}<>|;", c) >= 0:
			if c == '|' || c == ';' || c == '(' || c == ')' {
				r.program, r.next = "", usual
			}
			r.copy(s, &i, 1)
		case c == ':' && r.name: // a key and its value
			r.next, r.name = quoted, false
			r.copy(s, &i, 1)
		default:
			n := max(1, wordLength(s[i:], r.next != usual))
			r.plain(s, i, n)
			i += n
		}
	}
}

// copy copies n bytes.
func (r *redactor) copy(s string, i *int, n int) {
	r.out.WriteString(s[*i : *i+n])
	*i += n
}

// quote reads a text in quotes, where the quote at i begins one.
func (r *redactor) quote(s string, i *int, mark string) {
	rest := s[*i+len(mark):]
	end := closing(rest, mark)
	if end < 0 || mark == "'" && *i > 0 && unicode.IsLetter(rune(s[*i-1])) && r.next == usual { // an apostrophe
		r.copy(s, i, len(mark))
		return
	}
	inner := rest[:end]
	r.out.WriteString(mark)
	r.word(inner, false)
	r.out.WriteString(mark)
	*i += 2*len(mark) + end
}

// closing returns where the quote ends that was opened, -1 if it does not end on its line.
func closing(s, mark string) int {
	for i := 0; i < len(s) && s[i] != '\n'; i++ {
		switch {
		case strings.HasPrefix(s[i:], mark):
			return i
		case s[i] == '\\' && len(mark) == 1 && mark != "'":
			i++
		}
	}
	return -1
}

// word reads one word as a whole: what is in quotes, or a word of a command line.
func (r *redactor) word(s string, ofCommand bool) {
	named := isSecret(s) && !strings.HasPrefix(s, "-")
	switch {
	case r.secret(s):
	case named && !ofCommand:
		r.out.WriteString(s)
		r.name, r.label = true, s
		return
	case !strings.ContainsFunc(s, unicode.IsSpace) || ofCommand && isAssignment(s):
		r.plain(s, 0, len(s))
	default: // a text of several words, such as a command in the word of another
		inner := redactor{}
		inner.scan(s)
		r.out.WriteString(inner.out.String())
		r.next = usual
	}
	r.name = false
}

// isAssignment reports whether a whole word gives a secret its value, which may have spaces.
func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && isSecret(name) && !strings.ContainsFunc(name, unicode.IsSpace)
}

// secret writes the mark in the place of a word, if it is a secret.
func (r *redactor) secret(s string) bool {
	was := r.next
	if was != cookies {
		r.next = usual
	}
	switch {
	case was == usual || s == "":
		return false
	case was == header && slices.Contains(schemes, strings.ToLower(s)):
		r.out.WriteString(s)
		r.next, r.label = secret, ""
		return true
	case was == secret && len(s) > 1 && s[0] == '-', slices.Contains(placeholders, s), (was == secret || was == quoted) && isHarmless(r.label, s):
		return false
	}
	r.out.WriteString(Redacted)
	return true
}

// schemes are those of HTTP's authentication (https://www.iana.org/assignments/http-authschemes), and what else stands there.
var schemes = []string{"basic", "bearer", "digest", "negotiate", "token", "apikey", "scram-sha-256"}

// wordLength is the length of the word at the begin of a text. The words of a URL, an assignment to a secret and a secret end at
// white space or a quote alone.
func wordLength(s string, isValue bool) int {
	isURL := false
	for i := range len(s) {
		switch c := s[i]; {
		case isSpace(c) || isQuote(c) && !(i > 0 && s[i-1] == '\\'):
			return i
		case isQuote(c):
			return i - 1
		case c == ':' && strings.HasPrefix(s[i:], "://"), c == '?' && s[0] == '/':
			isURL = true
		case c == '=' && isSecret(s[:i]):
			isValue = true
		case c == '<' || c == '>':
			return max(i, 1)
		case strings.IndexByte(",()[]{}|;", c) >= 0 && !isURL && !isValue:
			return i
		}
	}
	return len(s)
}

// plain reads a word without quotes, of n bytes from a place of a text.
func (r *redactor) plain(s string, at, n int) {
	w, rest, wasWithin := s[at:at+n], s[at+n:], r.within
	r.name, r.within = false, r.within || w != "-"
	if r.next == quoted {
		r.next = usual
	}
	if r.secret(w) {
		return
	}
	if name, value, ok := strings.Cut(w, ":"); ok && isHeader(name) {
		r.out.WriteString(name + ":")
		r.next = header
		if strings.HasSuffix(strings.ToLower(name), "cookie") {
			r.next = cookies
		}
		if value != "" && !r.secret(value) {
			r.out.WriteString(value)
		}
		return
	}
	if name, ok := strings.CutSuffix(w, ":"); ok && isSecret(name) {
		r.out.WriteString(w)
		r.next, r.label = quoted, name
		if !wasWithin && isLastWord(rest) {
			r.next = secret
		}
		return
	}
	if base := path.Base(w[strings.LastIndexByte(w, '=')+1:]); lettered[base].option != "" {
		r.program = base
	}
	known := lettered[r.program]
	switch {
	case w == "Bearer":
		if v := strings.TrimLeft(rest, " "); strings.ContainsAny(v[:wordLength(v, true)], "0123456789") {
			r.next, r.label = secret, ""
		}
	case known.option != "" && w == known.option && !(known.joined && strings.HasPrefix(r.program, "m")),
		strings.HasPrefix(w, "-") && !strings.Contains(w, "=") && isSecret(w):
		r.next, r.label = secret, w
	case known.joined && strings.HasPrefix(w, known.option) && len(w) > 2:
		r.out.WriteString(known.option + Redacted)
		return
	}
	r.out.WriteString(redactParts(w))
	if name, ok := strings.CutSuffix(w, "="); ok && isSecret(name) {
		r.next, r.label = secret, name // in the quotes that follow
	}
}

// isLastWord reports whether a text begins with the last word of its line, of a usual length.
func isLastWord(s string) bool {
	line, _, _ := strings.Cut(s[:min(len(s), 1000)], "\n")
	return len(strings.Fields(line)) == 1
}

// redactParts redacts the URL and the assignments of a word.
func redactParts(w string) string {
	scheme := strings.Contains(w, "://")
	if scheme {
		w = redactUsers(w)
	}
	var b strings.Builder
	isParameter := false
	for {
		i, n := separator(w, "?&#;=")
		if n == 0 {
			break
		}
		name, mark := w[:i], w[i:i+n]
		b.WriteString(w[:i+n])
		w = w[i+n:]
		if mark != "=" {
			isParameter = true
			continue
		}
		if !isSecret(name) && !(isParameter && isSecretParameter(name, scheme)) {
			continue
		}
		end := len(w)
		if scheme || b.Len() > len(name)+1 {
			end, _ = separator(w, "&#;")
		}
		if end > 0 && !slices.Contains(placeholders, w[:end]) && !isHarmless(name, w[:end]) {
			b.WriteString(Redacted)
			w = w[end:]
		}
	}
	return b.String() + w
}

// separator returns where the first of some separators is and its length, which is 0 if there is none. Encoders of JSON write & as \u0026.
func separator(s, separators string) (at, length int) {
	const ampersand = `\u0026`
	for i := range len(s) {
		if strings.IndexByte(separators, s[i]) >= 0 {
			return i, 1
		}
		if s[i] == '\\' && strings.HasPrefix(s[i:], ampersand) {
			return i, len(ampersand)
		}
	}
	return len(s), 0
}

// redactUsers redacts what stands before the hosts of the URLs in a word.
func redactUsers(w string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(w, "://")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("://")
		next := strings.Index(after, "://")
		if next < 0 {
			next = len(after)
		}
		this := after[:next]
		isWeb := strings.HasSuffix(before, "http") || strings.HasSuffix(before, "https")
		if at := userLength(this); at >= 0 && (isWeb || !strings.HasPrefix(this[at:], "@sha256:")) { // the digest of an image has no user before it
			b.WriteString(redactUser(this[:at], isWeb))
			this = this[at:]
		}
		w = after[next-len(this):]
	}
}

// userLength is the length of what stands before the @ of the host of a URL without its scheme, -1 without one.
func userLength(s string) int {
	host := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		host = s[:i]
	}
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return at
	}
	// A port is a number, so this is a password that was not encoded.
	if port := strings.LastIndexByte(host, ':'); port > strings.LastIndexByte(host, ']') && strings.Trim(host[port+1:], "0123456789") != "" {
		return strings.LastIndexByte(s, '@')
	}
	return -1
}

// redactUser redacts the user and password of a URL. A lone name may be a token, as GitHub's, in URLs of the web.
func redactUser(user string, isWeb bool) string {
	name, password, ok := strings.Cut(user, ":")
	switch {
	case ok && !slices.Contains(placeholders, password):
		return name + ":" + Redacted
	case !ok && isWeb && !isUserName(name):
		return Redacted
	}
	return user
}

// isUserName reports whether a lone name in a URL is that of a user, such as git, and no token: tokens have digits or are longer.
func isUserName(name string) bool {
	return len(name) <= 16 && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !strings.ContainsRune("-_.", r) })
}

// isHeader reports whether a header of HTTP has a secret.
func isHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "set-cookie"}, name) ||
		strings.HasPrefix(name, "x-") && (isSecret(name) || strings.HasSuffix(name, "-key"))
}

// isSecret reports whether a name says that its value is a secret.
func isSecret(name string) bool {
	before, last := lastWords(name)
	switch last {
	case "password", "passwd", "passphrase", "passcode", "pwd", "pass", "secret", "credential", "credentials", "apikey", "requirepass", "masterauth", "authenticate":
		return true
	case "token": // not the units of language models
		return !slices.Contains([]string{"per", "first", "output", "input", "prompt", "generated", "next", "last", "inter", "each", "eos", "bos", "pad", "unk", "sep", "mask"}, before)
	case "key":
		return slices.Contains([]string{"api", "access", "secret", "private", "auth", "account", "signing", "encryption", "shared", "master"}, before)
	}
	return strings.HasSuffix(last, "password") || strings.HasSuffix(last, "secret")
}

// isHarmless reports whether a value is not a secret although its name says so: the number of a pass (ffmpeg -pass 2), and the name of a
// file with a key. A secret in base64 may have slashes, so such a name begins like a path or ends like that of a file with a key.
func isHarmless(name, value string) bool {
	switch before, last := lastWords(name); {
	case last == "pass":
		return len(value) <= 2 && strings.Trim(value, "0123456789") == ""
	case last == "key" && slices.Contains([]string{"private", "signing", "encryption"}, before):
		begins := func(with string) bool { return strings.HasPrefix(value, with) }
		return slices.Contains([]string{".pem", ".key", ".crt"}, path.Ext(value)) ||
			slices.ContainsFunc([]string{"/", "./", "../", "~/"}, begins) && !strings.ContainsAny(value, "+=")
	}
	return false
}

// isSecretParameter is isSecret for the parameter of a URL. Commands without a URL have parameters of these names that are no secrets
// (/kv?key=7).
func isSecretParameter(name string, ofURL bool) bool {
	_, last := lastWords(name)
	return isSecret(name) || slices.Contains([]string{"sig", "signature", "auth", "sid", "jwt", "hmac"}, last) ||
		ofURL && slices.Contains([]string{"key", "code", "session"}, last)
}

// lastWords returns the last two words of a name, in lower case and without digits at the end: words end at - _ . / [ ] and before a
// capital letter. Both are "" for what is not a name.
func lastWords(name string) (before, last string) {
	const ends = "-_./[]"
	if len(name) > 200 || strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(ends, r)
	}) {
		return "", ""
	}
	var words []string
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune(ends, r) }) {
		start := 0
		for i := 1; i < len(part); i++ {
			if unicode.IsUpper(rune(part[i])) && unicode.IsLower(rune(part[i-1])) {
				words, start = append(words, part[start:i]), i
			}
		}
		words = append(words, part[start:])
	}
	words = append([]string{"", ""}, words...)
	at := len(words) - 2
	return strings.ToLower(words[at]), strings.ToLower(strings.TrimRight(words[at+1], "0123456789"))
}
