package result

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCanonical has the examples of RFC 8785, and what has no canonical form.
func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"order and spaces", "{ \"b\" : 1,\n\t\"a\":[ true , null ] }", `{"a":[true,null],"b":1}`},
		{"RFC 8785, section 3.2.2", `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			"{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"},
		{"RFC 8785, section 3.2.3", "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\",\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\",\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"the attestation is left out", `{"a":"<&>","attestation":{"x":1},"b":{"attestation":2}}`, `{"a":"<&>","b":{"attestation":2}}`},
		{"the largest integer", `{"a":9007199254740992}`, `{"a":9007199254740992}`},
		{"a rounded integer", `{"a":[9007199254740993]}`, ""},
		{"2^62 as programs write it", `{"a":4611686018427388000}`, `{"a":4611686018427388000}`},
		{"2^62 with other digits, for which the form has these", `{"a":4611686018427387904}`, ""},
		{"2^62 as a double", `{"a":4.611686018427387904e18}`, `{"a":4611686018427388000}`},
		{"all digits of an integer below 1e21", `{"a":-100000000000000000000}`, `{"a":-100000000000000000000}`},
		{"digits where the form has an exponent", `{"a":1000000000000000000000}`, ""},
		{"more than a double holds", `{"a":1` + strings.Repeat("0", 400) + `}`, ""},
		{"an integer beyond 64 bits", `{"a":-99999999999999999999}`, ""},
		{"a key twice", `{"a":1,"a":1}`, ""},
		{"a key twice, deep and escaped", `{"x":{"a":1,"\u0061":1}}`, ""},
		{"two documents", `{} {}`, ""},
		{"half a character", `{"a":"\ud800"}`, ""},
		{"not UTF-8", "{\"a\":\"\xff\"}", ""},
		{"no document", "", ""},
		{"cut off", `{"a":1`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Canonical([]byte(tc.in))
			if (err == nil) != (tc.want != "") || string(got) != tc.want {
				t.Errorf("%s: %s, %v; want %q", tc.name, got, err, tc.want)
			}
		})
	}
}

// TestCanonicalSaysWhere: a number that is refused is named with its place and as it was written.
func TestCanonicalSaysWhere(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":[1,{"b/c~d":9007199254740993}]}`:                                   "the number 9007199254740993 at /a/1/b~1c~0d: JSON keeps integers up to 2^53 exactly, and programs may read this one as 9007199254740992",
		`{"x":{},"a":{"b":{"c":[[],"s",2]},"d":-1e3,"e":-99999999999999999999}}`: "the number -99999999999999999999 at /a/e: JSON keeps integers up to 2^53 exactly, and programs may read this one as -100000000000000000000",
		`9007199254740993`: "the number 9007199254740993 at the top: ",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := Canonical([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", in, err, want)
			}
		})
	}
}

// TestCanonicalOfFloats: what Go writes for a number has a canonical form, which is the same.
func TestCanonicalOfFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		v := math.Float64frombits(r.Uint64())
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if r.IntN(2) == 0 {
			v = math.Trunc(math.Ldexp(v/math.Pow(2, math.Floor(math.Log2(math.Abs(v)))), r.IntN(80)))
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := CanonicalOf(v); err != nil || string(got) != string(b) && v != 0 {
			t.Fatalf("%s: %s, %v", b, got, err)
		}
	}
}

// TestAttach: a document keeps its bytes and digest whether an attestation is added or replaced.
func TestAttach(t *testing.T) {
	plain, err := json.MarshalIndent(sample(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	plain = append(plain, '\n')
	want, err := Digest(plain)
	if err != nil {
		t.Fatal(err)
	}
	a := &Attestation{Format: "ed25519", Digest: want, MadeAt: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), Signature: []byte{1, 2}}
	once, err := Attach(plain, a)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(plain, '}')
	if !bytes.HasPrefix(once, bytes.TrimRight(plain[:last], "\n ")) || !bytes.HasSuffix(once, []byte("\n}\n")) {
		t.Errorf("the document is not as it was:\n%s", once)
	}
	a.Signature = []byte{3}
	twice, err := Attach(once, a)
	if err != nil {
		t.Fatal(err)
	}
	// An attestation that another program wrote elsewhere.
	middle := []byte(strings.Replace(string(plain), `"name":`, `"attestation": {"format": "x"}, "name":`, 1))
	moved, err := Attach(middle, a)
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string][]byte{"once": once, "twice": twice, "moved": moved} {
		t.Run(name, func(t *testing.T) {
			digest, err := Digest(doc)
			if err != nil || digest != want {
				t.Errorf("%s: digest %s, %v, want %s", name, digest, err, want)
			}
			e, err := Parse(doc)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if n := len(e.Attestation.Signature); n != map[string]int{"once": 2}[name]+map[string]int{"twice": 1, "moved": 1}[name] {
				t.Errorf("%s: a signature of %d bytes", name, n)
			}
			if n := bytes.Count(doc, []byte(`"attestation"`)); n != 1 {
				t.Errorf("%s: %d attestations", name, n)
			}
		})
	}
	for name, doc := range map[string]string{"a list": "[]", "nothing": "", "cut off": `{"a": 1`, "first": `{"attestation": {}, "a": 1}`} {
		t.Run(name, func(t *testing.T) {
			if out, err := Attach([]byte(doc), a); err == nil && name != "cut off" {
				t.Errorf("%s: %s", name, out)
			}
		})
	}
}

// TestWriteKeepsAttestation: a document is not written under an attestation that is about another one.
func TestWriteKeepsAttestation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	e := sample()
	if err := Write(path, e); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e.Attestation = &Attestation{Format: "ed25519"}
	if e.Attestation.Digest, err = Digest(was); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, e); err != nil {
		t.Errorf("what is attested is not written: %v", err)
	}
	e.Name = "another"
	if err := Write(path, e); err == nil || !strings.Contains(err.Error(), "attest it again") {
		t.Errorf("another document under the same attestation: %v", err)
	}
	if err := Rewrite(path, was, []byte("{}")); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a document that has changed: %v", err)
	}
	if _, err := Read(path); err != nil {
		t.Errorf("the document is lost: %v", err)
	}
}
