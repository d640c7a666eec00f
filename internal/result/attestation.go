package result

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"
)

// attestationKey is the member of a document that its digest leaves out.
const attestationKey = "attestation"

// Attestation binds a document to the quote of a TEE, or to a key. See
// docs/attested-results.md.
type Attestation struct {
	// Format is that of the evidence: "tdx_guest", "sev_guest", "nitro", "tpm2", "nvidia_gpu" or "simulated"; or
	// the kind of the key that signed: "ed25519" or "ecdsa-p256".
	Format string `json:"format"`
	// Digest is that of the document's canonical form (RFC 8785) without the member
	// attestation: "sha256:…".
	Digest string `json:"digest"`
	// MadeAt is the time by the clock of the machine that attested.
	MadeAt time.Time `json:"made_at"`
	// Nonce is hex that the verifier has chosen, to know that the evidence is newer.
	Nonce string `json:"nonce,omitempty"`
	// Quote is the evidence, Certificates those that came with it.
	Quote        []byte `json:"quote,omitempty"`
	Certificates []byte `json:"certificates,omitempty"`
	// Collateral is what the vendor's services said of the platform when it attested.
	Collateral []Collateral `json:"collateral,omitempty"`
	// PublicKey is that of a key that signed (PKIX, DER).
	PublicKey []byte `json:"public_key,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

// Collateral is an answer of a vendor's service.
type Collateral struct {
	URL string `json:"url"`
	// Header has the certificates of who signed the body, where the service sends them there.
	Header map[string][]string `json:"header,omitempty"`
	Body   []byte              `json:"body"`
}

// Canonical returns the canonical form of a document (RFC 8785) without its attestation. It
// refuses what two programs could read as two documents: duplicate keys, and integers that the form
// would round. RFC 8785 makes each number a double, so an integer beyond 2^53 is kept only if it is
// what that double is written as, such as 4611686018427388000 for 2^62.
func Canonical(doc []byte) ([]byte, error) {
	b, err := canonical(doc)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	delete(members, attestationKey)
	if b, err = json.Marshal(members); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return canonical(b)
}

// CanonicalAttestation returns the canonical form of the attestation as it stands in a
// document, "null" where there is none.
func CanonicalAttestation(doc []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	if members[attestationKey] == nil {
		return []byte("null"), nil
	}
	return canonical(members[attestationKey])
}

// CanonicalOf returns the canonical form of what a value is as JSON.
func CanonicalOf(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return canonical(b)
}

func canonical(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var at place
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("canonical form: %w", err)
		}
		if n, ok := t.(json.Number); ok {
			if read := rounded(n.String()); read != "" {
				return nil, fmt.Errorf("canonical form: the number %.40s at %s: JSON keeps integers up to 2^53 exactly, and programs may read this one as %s: write it as a string",
					n, at.pointer(), read)
			}
		}
		at.pass(t)
	}
	b, err := jcs.Transform(doc)
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return b, nil
}

// rounded returns what a program that reads numbers as doubles makes of an integer beyond 2^53, "" if that is the same
// digits, or the number is another one.
func rounded(number string) string {
	const exact = 1 << 53
	if strings.ContainsAny(number, ".eE") {
		return ""
	}
	if v, err := strconv.ParseInt(number, 10, 64); err == nil && v <= exact && v >= -exact {
		return ""
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return "none"
	}
	if read, err := jcs.NumberToJSON(v); err != nil || read != number {
		return cmp.Or(read, "none")
	}
	return ""
}

// place is where the next value of a document stands.
type place []level

// level is an object or an array that is open.
type level struct {
	array bool
	n     int    // of values, in an array
	key   string // of the next value, in an object
	named bool   // the key has been read
}

// pass moves behind a token.
func (p *place) pass(t json.Token) {
	if t == json.Delim('{') || t == json.Delim('[') {
		*p = append(*p, level{array: t == json.Delim('[')})
		return
	}
	if t == json.Delim('}') || t == json.Delim(']') {
		*p = (*p)[:len(*p)-1]
	}
	if len(*p) == 0 {
		return
	}
	switch l := &(*p)[len(*p)-1]; {
	case l.array:
		l.n++
	case l.named:
		l.named = false
	default:
		l.key, l.named = fmt.Sprint(t), true
	}
}

// pointer returns the place as a JSON pointer (RFC 6901); "the top" for the document itself.
func (p place) pointer() string {
	var b strings.Builder
	for _, l := range p {
		if l.array {
			fmt.Fprintf(&b, "/%d", l.n)
		} else {
			fmt.Fprintf(&b, "/%.80s", strings.NewReplacer("~", "~0", "/", "~1").Replace(l.key))
		}
	}
	return cmp.Or(b.String(), "the top")
}

// Digest returns the digest of a document that an attestation is about.
func Digest(doc []byte) (string, error) {
	b, err := Canonical(doc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Attach returns a document with an attestation, in place of one that it has. Every other
// byte stays as it is.
func Attach(doc []byte, a *Attestation) ([]byte, error) {
	before, last, err := cut(doc)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(a, " ", " ")
	if err != nil {
		return nil, fmt.Errorf("write the attestation: %w", err)
	}
	var out bytes.Buffer
	out.Write(before[:last])
	fmt.Fprintf(&out, ",\n %q: %s", attestationKey, b)
	out.Write(before[last:])
	return out.Bytes(), nil
}

// cut returns a document without its attestation, and where its last member ends.
func cut(doc []byte) (without []byte, last int64, err error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, errors.New("read the members of the document: it is not a JSON object")
	}
	var from, to int64 // of the attestation, with the comma before it
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, 0, fmt.Errorf("read the members of the document: %w", err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, 0, fmt.Errorf("read the members of the document: %w", err)
		}
		if key == attestationKey {
			from, to = last, d.InputOffset()
		}
		last = d.InputOffset()
	}
	switch {
	case to == 0:
		return doc, last, nil
	case from == 0:
		return nil, 0, errors.New("read the members of the document: the attestation is the first one, where this program does not write it")
	case to == last:
		last = from
	default:
		last -= to - from
	}
	return append(bytes.Clone(doc[:from]), doc[to:]...), last, nil
}

// Rewrite replaces the bytes of a finished document, unless it has changed since it was read.
func Rewrite(path string, was, now []byte) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	path = real
	have, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if !bytes.Equal(have, was) {
		return fmt.Errorf("write %s: another program has changed it since it was read; nothing was written, try again", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := replace(path, now, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write %s: %w; the file is unchanged", path, err)
	}
	return nil
}

// checkAttested reports whether a document that is about to be written is still what its attestation
// is about.
func checkAttested(e *Experiment, doc []byte) error {
	if e.Attestation == nil {
		return nil
	}
	digest, err := Digest(doc)
	if err != nil {
		return err
	}
	if digest != e.Attestation.Digest {
		return errors.New("the result is attested or signed, and this change would make the evidence invalid: change the result first, then attest it again")
	}
	return nil
}
