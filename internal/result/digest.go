package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// A document has a digest of itself, so one that was changed after it was written, by a hand or by a disk, is told from one that was
// not. It proves nothing about who wrote it: that is what an attestation is for, and a document that has one needs no digest.

// digestKey is the member of a document that holds its digest, which leaves it out.
const digestKey = "digest"

// errChanged is the error of a document that its digest does not describe.
var errChanged = errors.New("the file has changed since teescope wrote it, because its digest does not match: use the original; if the change is meant to be, remove the member \"digest\"")

// seal writes the digest of a document into it.
func seal(e *Experiment) error {
	if e.Attestation != nil { // it is about the digest, too
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
	if !ok || doc[attestationKey] != nil || stated == contentDigest(doc) {
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

// writeValue writes a decoded value in one form: members by name, numbers as doubles.
func writeValue(w io.Writer, v any) {
	switch v := v.(type) {
	case map[string]any:
		fmt.Fprint(w, "{")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(w, "%q:", name)
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
		number := v.String()
		if f, err := v.Float64(); err == nil { // programs may write the same number otherwise
			number = strconv.FormatFloat(f, 'g', -1, 64)
		}
		fmt.Fprint(w, number)
	default: // a text, true, false or null
		fmt.Fprintf(w, "%#v", v)
	}
}
