package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// A document has a digest of itself, so one that was changed after it was written, by a hand or by a disk, is told from one that was
// not. It proves nothing about who wrote it: that is what an attestation is for, which the digest leaves out.

// digestKey is the member of a document that holds its digest, which leaves it out.
const digestKey = "digest"

// errChanged is the error of a document that its digest does not describe.
var errChanged = errors.New("the file has changed since teescope wrote it, because its digest does not match: use the original; if the change is meant to be, remove the member \"digest\"")

// seal writes the digest of a document into it.
func seal(e *Experiment) error {
	if e.Attestation != nil { // it is about the digest, too, so that stays
		return nil
	}
	e.Digest = ""
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	v, err := decoded(b)
	if err != nil {
		return err
	}
	e.Digest = contentDigest(v)
	return nil
}

// unchanged returns errChanged for the decoded form of a document that has another digest than it states.
func unchanged(doc map[string]any) error {
	stated, ok := doc[digestKey].(string)
	if !ok || stated == contentDigest(doc) {
		return nil
	}
	return errChanged
}

// contentDigest returns the SHA-256 of a document's values, whatever their layout, without its digest and attestation.
func contentDigest(doc map[string]any) string {
	h := sha256.New()
	own := maps.Clone(doc)
	delete(own, digestKey)
	delete(own, attestationKey)
	writeValue(h, own)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// writeValue writes a decoded value in one form: members by name, texts as their length and bytes.
func writeValue(w io.Writer, v any) {
	switch v := v.(type) {
	case map[string]any:
		fmt.Fprint(w, "{")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			writeValue(w, name)
			writeValue(w, v[name])
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "}")
	case []any:
		fmt.Fprint(w, "[")
		for _, e := range v {
			writeValue(w, e)
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "]")
	case json.Number:
		fmt.Fprint(w, numberForm(v))
	case string:
		fmt.Fprintf(w, "%d:%s", len(v), v)
	default: // true, false or null
		fmt.Fprint(w, v)
	}
}

// numberForm returns a number in one form, because programs may write the same one otherwise. A 64-bit integer stays as it is, also one
// that a double would round.
func numberForm(n json.Number) string {
	text := n.String()
	_, signed := strconv.ParseInt(text, 10, 64)
	_, unsigned := strconv.ParseUint(text, 10, 64)
	f, err := n.Float64()
	switch {
	case signed == nil, unsigned == nil, err != nil:
		return text
	case f == math.Trunc(f) && math.Abs(f) <= 1<<53:
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
