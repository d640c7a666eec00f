package printable

import (
	"encoding/json"
	"io"
	"log"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\n":               "a\tb\n",
		"\x1b]0;x\a":           `\u001b]0;x\u0007`,
		"\u202eabc\u2066":      `\u202eabc\u2066`,
		"a\u0085b\u2028":       `a\u0085b\u2028`,
		"\xff\x9b31m":          "\ufffd\ufffd31m",
		"a\r\nb\rc":            "a\nb" + `\u000d` + "c",
		"\U000e0001":           `\udb40\udc01`,
		"ünï 日本 🦀 12\u202f000": "ünï 日本 🦀 12\u202f000",
	} {
		t.Run(in, func(t *testing.T) {
			if got := Text(in); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		})
	}
}

// TestTextOfJSON: a JSON document keeps its value.
func TestTextOfJSON(t *testing.T) {
	for _, v := range []string{"\u202e", "\U000e0001 \u0085", "\x1b\x7f"} {
		t.Run(v, func(t *testing.T) {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if err := json.Unmarshal([]byte(Text(string(b))), &got); err != nil || got != v {
				t.Errorf("%q: got %q, %v", v, got, err)
			}
		})
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "-1.5": "-1.5", "+1e-7": "+1e-7", "1": "1", "-": "'-", "=1+1": "'=1+1", "+SUM(A1)": "'+SUM(A1)", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx",
		"-2+3+cmd|x": "'-2+3+cmd|x", "--1": "'--1", "+1+1": "'+1+1",
	} {
		t.Run(in, func(t *testing.T) {
			if got := Cell(in); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		})
	}
}

// TestRedact: MARKER is the secret in each text, and Redact leaves the rest as it is.
func TestRedact(t *testing.T) {
	for _, in := range []string{
		"ask https://user:M@host:1/x?a=b&token=M&c=d#e: refused",
		"https://M@github.example/x",
		"http://user:M@a/,http://b/x,http://user:M@c/",
		"http://h/?key=M&page=2",
		"http://h/?sig=M;b=2",
		"parse \"http://user:M@h\": no host",
		`url="http://user:M@h/?key=M" level=warn`,
		"redis-cli -h host -a M ping",
		"redis-benchmark -n 100 -a M | tee x",
		"curl -u M https://host/",
		"mysql -pM -h host",
		"teescope bench run --param 'command=/usr/bin/redis-cli -a M'",
		"sshpass -p M ssh host",
		"prog --password M --size 3",
		"prog --password=M --size 3",
		"prog -password M",
		"prog --password 'M' --size 3",
		`prog --password "M" --size 3`,
		"--requirepass M",
		"PASSWORD=M prog --size 3",
		`env PGPASSWORD="M" prog`,
		"env API_KEY=M HF_TOKEN=M AWS_SECRET_ACCESS_KEY=M prog",
		"curl -H 'Authorization: Bearer M' http://host/",
		`"Authorization: Basic M"`,
		"authorization: M",
		"X-Api-Key: M",
		`{"a":1,"password":"M","b":[1]}`,
		`{"argv": ["prog", "--password", "M", "--size", "3"]}`,
		"[\n  \"--password\",\n  \"M\",\n  \"x\"\n]",
		`{"text": "prog --password \"M\" x"}`,
		`["--password" "M" "x"]`,
		"db:\n  password: M\n  user: a\n",
		"- token: M\n",
		"the answer is 401: Bearer M",
		"docker://user:M@registry/alpine:3.18@sha256:0a1b",
		"prog -pass M --private-key M --signing-key=M PRIVATE_KEY=M",
		`{"private_key": "M"}`,
		"GET /x?page=2&sig=M", "GET /x?signature=M", "GET /x?sid=M", "GET /x?jwt=M", "GET /x?hmac=M", "GET /x?auth=M",
		"http://h/?code=M&session=M",
		`{"url":"http://h/?a=b\u0026token=M\u0026page=2"}`,
		`{"url":"http://h/?key=M\u0026page=2#x"}`,
		"dbPassword=M", "apiKey=M", "password2=M",
		"(see http://u:M@h) and --token=M",
	} {
		t.Run(in, func(t *testing.T) {
			const secret = "s3cret,(4711"
			plain := secret
			if strings.Contains(in, "-pM") || strings.Contains(in, "://") || strings.Contains(in, "M,") {
				plain = "s3cret4711"
			}
			got, want := Redact(strings.ReplaceAll(in, "M", plain)), strings.ReplaceAll(in, "M", Redacted)
			if got != want {
				t.Errorf("%q:\n got %q\nwant %q", in, got, want)
			}
			if again := Redact(got); again != got {
				t.Errorf("%q: redacted twice %q", got, again)
			}
		})
	}
	if got := Redact("Cookie: a=s3cret; b=s3cret\nnext line"); strings.Contains(got, "s3cret") || !strings.HasSuffix(got, "\nnext line") {
		t.Errorf("cookies: %q", got)
	}
	if got := Redact("Server=x;Password=s3cret;Port=3"); strings.Contains(got, "s3cret") || !strings.HasPrefix(got, "Server=x;") {
		t.Errorf("a connection string: %q", got)
	}
	for _, in := range []string{ // a password that was not encoded
		"http://u:s3/cret@h/", "http://u:s3?cret@h/", "http://u:s3@cret@h/",
	} {
		t.Run(in, func(t *testing.T) {
			if got := Redact(in); got != "http://u:xxxxx@h/" {
				t.Errorf("%q: got %q", in, got)
			}
		})
	}
}

// TestRedactKeeps: texts without secrets stay as they are.
func TestRedactKeeps(t *testing.T) {
	for _, in := range []string{
		"", "http://127.0.0.1:9780/?page=findings&subject=a", "https://host/@scope/name", "ssh://root@host", "image@sha256:abc", "http://[::1]:80/x@y",
		"--password-file FILE", "password_file: /run/x", "--max-tokens 128 --key-size 32 --keys 4", "time_per_output_token=0.02 first_token=3",
		"--server http://USER:PASSWORD@host", "give --password PASSWORD", "a password: want text", "a monitor's token is not here",
		`"tokens": 5, "token": 5`, "it's the user's password, isn't it", "redis-server -a", "key=value page_token_bytes=1",
		"ffmpeg -i in.mp4 -pass 2 out.mp4", "x264 --pass 1 in", "ffmpeg -x265-params pass=2", `{"argv": ["ffmpeg", "-pass", "2"]}`,
		"sign --private-key ./k.pem", "sign --private-key=k.pem x", "sign --signing-key /run/k --encryption-key ~/k", "PRIVATE_KEY=../k.pem prog",
		`{"private_key": "/run/k.pem"}`, "private_key: k.pem\n", `["--signing-key", "ca.key", "x"]`, "private-key=`./k.pem`",
		"load /kv?key=7", "POST /x?code=3&session=4", "docker://alpine:3.18@sha256:0a1b", "docker://host:5000/alpine:3.18@sha256:0a1b",
		"https://git@host/x", "https://x-access-token@host/x",
		"curl http://127.0.0.1/metrics", "passes=3", "bearer of news", "authority: x",
	} {
		t.Run(in, func(t *testing.T) {
			if got := Redact(in); got != in {
				t.Errorf("%q: got %q", in, got)
			}
		})
	}
}

func TestRedactWords(t *testing.T) {
	in := []string{"env", "PASSWORD=a b", "redis-cli", "-a", "c d", "-h", "host", "--password", "e", "-H", "Authorization: Bearer f1", "sh", "-c", "prog --token 'g h' x", "-pass", "2", "--private-key", "./k.pem", "--private-key", "a/b+c=", "http://u:i@h/?a=b"}
	want := []string{"env", "PASSWORD=xxxxx", "redis-cli", "-a", "xxxxx", "-h", "host", "--password", "xxxxx", "-H", "Authorization: Bearer xxxxx", "sh", "-c", "prog --token 'xxxxx' x", "-pass", "2", "--private-key", "./k.pem", "--private-key", "xxxxx", "http://u:xxxxx@h/?a=b"}
	if got := RedactWords(in); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWriter: how a text is divided into writes changes nothing of what is passed on.
func TestWriter(t *testing.T) {
	const in = "a\x1b[31m ü\nhttp://u:secret@h/ --token secret\n\u202ethe end"
	want := Text(Redact(in))
	for n := 1; n < len(in); n++ {
		var b strings.Builder
		w := NewWriter(&b)
		for part := in; part != ""; {
			k := min(n, len(part))
			if written, err := w.Write([]byte(part[:k])); written != k || err != nil {
				t.Fatal(written, err)
			}
			part = part[k:]
		}
		if strings.HasSuffix(b.String(), "the end") {
			t.Error("an unfinished line was written")
		}
		if err := w.Flush(); err != nil || b.String() != want {
			t.Errorf("parts of %d: got %q, %v; want %q", n, b.String(), err, want)
		}
	}
}

// TestWriterIsBounded: an unfinished line that is too long is passed on by the write that makes it so.
func TestWriterIsBounded(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	for _, n := range []int{longest, 1} {
		if b.Len() != 0 {
			t.Errorf("%d bytes were passed on before the bound", b.Len())
		}
		if written, err := w.Write([]byte(strings.Repeat("a", n))); written != n || err != nil {
			t.Fatal(written, err)
		}
	}
	if b.Len() != longest+1 || len(w.line) != 0 {
		t.Errorf("%d bytes were passed on, %d are kept", b.Len(), len(w.line))
	}
}

// TestRun: a program's unfinished lines are written, and the log has its own writer again, also after a panic.
func TestRun(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var out, errs strings.Builder
		before := log.Writer()
		defer log.SetOutput(before)
		log.SetOutput(&errs)
		func() {
			defer func() {
				if v := recover(); (v != nil) != panics {
					t.Errorf("panic %v", v)
				}
			}()
			status := Run(&out, &errs, func(stdout, stderr io.Writer) int {
				_, _ = io.WriteString(stdout, "out --token s3cret")
				_, _ = io.WriteString(stderr, "errs \x1b")
				if log.Writer() != stderr {
					t.Error("the log does not pass the writer")
				}
				if panics {
					panic("x")
				}
				return 3
			})
			if status != 3 {
				t.Errorf("status %d", status)
			}
		}()
		if out.String() != "out --token xxxxx" || errs.String() != `errs \u001b` {
			t.Errorf("panics %v: wrote %q and %q", panics, &out, &errs)
		}
		if log.Writer() != io.Writer(&errs) {
			t.Errorf("panics %v: the log still writes to the ended program's writer", panics)
		}
	}
	r, w := io.Pipe()
	r.Close()
	var errs strings.Builder
	if status := Run(w, &errs, func(stdout, _ io.Writer) int { _, _ = io.WriteString(stdout, "x"); return 0 }); status != 4 || !strings.Contains(errs.String(), "write the output: ") {
		t.Errorf("an output that cannot be written: status %d, %q", status, &errs)
	}
}

// TestNamed: the name alone says that a value is a secret; of the parameters that a scrape asks with, more names do.
func TestNamed(t *testing.T) {
	for _, name := range []string{"password", "api_key", "cluster_token", "private_key",
		"__param_key", "__param_sig", "__param_signature", "__param_code", "__param_auth", "__param_sid", "__param_session", "__param_jwt", "__param_hmac", "__param_token"} {
		t.Run(name, func(t *testing.T) {
			if got := Named(name, "M"); got != Redacted {
				t.Errorf("%s: got %q", name, got)
			}
		})
	}
	for name, value := range map[string]string{"key": "M", "code": "M", "session": "M", "pass": "2", "private_key": "/run/k.pem", "__param_page": "2", "token": ""} {
		t.Run(name, func(t *testing.T) {
			if got := Named(name, value); got != value {
				t.Errorf("%s=%s: got %q", name, value, got)
			}
		})
	}
}

// BenchmarkRedact shows that no text takes more than a time in proportion to its length.
func BenchmarkRedact(b *testing.B) {
	for _, part := range []string{"a", "://", "http://u:p@", "\"", "\\\"", "a'", "'", "`\"'", "password: ", "Bearer ", "=", "a=b&", `\u0026=`, "mysql -p", "{\"token\": ", "\\", "\n", "--token "} {
		in := "token " + strings.Repeat(part, (1<<20)/len(part))
		b.Run(part, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				Redact(in)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	for _, in := range []string{"http://u:p@h/?token=x", `"--password", "x"`, "Authorization: Bearer x1", "\\\"--token\\\" \\\"", "Bearer \\'", "mysql -p", "a=?&password=#;", `?a=b\u0026key=x`, "-pass 2 --private-key ./k", "'\n'`"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := Text(Redact(in))
		for _, r := range out {
			if escaped(r) {
				t.Errorf("%q: %q", in, out)
			}
		}
		if !utf8.ValidString(out) {
			t.Errorf("%q: %q", in, out)
		}
		if got := Redact(in + "\nhttp://u:S3CRET@h/"); strings.Contains(got, "S3CRET") {
			t.Errorf("%q: %q", in, got)
		}
	})
}
