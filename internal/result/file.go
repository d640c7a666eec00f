package result

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/quota"
)

// ErrNewer is wrapped by Read for a document of a newer major schema version.
var ErrNewer = errors.New("schema is newer than this program; use a newer teescope")

// Read reads a finished document, which may be compressed with gzip, and checks it against the schema.
func Read(path string) (*Experiment, error) {
	_, e, err := Document(path)
	return e, err
}

// Document is Read that also returns the text of the document, expanded.
func Document(path string) (text []byte, e *Experiment, err error) {
	return documentOf(path, func(path string) (*os.File, error) { return os.Open(path) }) // a user's own argument may be a pipe
}

func documentOf(path string, open func(string) (*os.File, error)) (text []byte, e *Experiment, err error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		switch _, e := os.Stat(partial(path)); {
		case e == nil && busy(partial(path)):
			return nil, nil, fmt.Errorf("read %s: the experiment still runs; wait for its end", path)
		case e == nil:
			return nil, nil, fmt.Errorf("read %s: the experiment is not finished; continue it with `teescope bench run --resume --out %s`", path, path)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	hold := memory().Growing()
	defer hold.Release()
	if text, err = unpacked(f, hold); err == nil {
		e, err = parsed(text, hold)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, e, nil
}

// mostUnpacked bounds what a small file may expand to.
const mostUnpacked = 1 << 30

// mostText is the longest text of a document in the memory of results: it is in memory twice, and then it is parsed.
func mostText() int64 { return min(mostUnpacked, memory().Limit/4) }

// memory is what documents may use together while they are read.
var memory = func() *quota.Share { return quota.Own().Results }

// parsedBytes is what reading a value of a document takes: its two forms, as any JSON and as a document, and what the schema's check
// makes of it; measured with numbers, empty lists and objects.
const parsedBytes = 120

// textBytes is what reading a byte of a document's text takes: it is read in pieces, which are then joined.
const textBytes = 2

// valuesBytes estimates what the values of a document take in bytes: a small file can have very many.
func valuesBytes(b []byte) int64 {
	values := int64(1)
	inText := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case !inText && (c == ',' || c == ':' || c == '[' || c == '{'):
			values++
		}
	}
	return values * parsedBytes
}

// unpacked reads a document, and expands it if it is compressed with gzip (RFC 1952). Its memory is reserved as it is read.
func unpacked(f io.Reader, hold *quota.Growing) ([]byte, error) {
	buffered := bufio.NewReader(f)
	magic, _ := buffered.Peek(2) // reading it again has the same error
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return all(buffered, hold)
	}
	r, err := gzip.NewReader(buffered)
	var b []byte
	if err == nil {
		b, err = all(r, hold)
	}
	var full *quota.Exceeded
	switch {
	case errors.As(err, &full), errors.Is(err, errTooLong):
		return nil, fmt.Errorf("expand it: %w", err)
	case err != nil:
		return nil, fmt.Errorf("expand it: %w; if the file was cut off, copy it again", err)
	}
	return b, nil
}

// errTooLong is wrapped by the error of a text longer than mostText.
var errTooLong = errors.New("it is too long")

// all reads a text to its end, within mostText and what hold may have.
func all(r io.Reader, hold *quota.Growing) ([]byte, error) {
	var parts [][]byte
	most, size := mostText(), int64(0)
	for {
		const piece = 64 << 10
		if err := hold.Add(piece * textBytes); err != nil {
			return nil, err
		}
		b := make([]byte, piece)
		n, err := 0, error(nil)
		for n < piece && err == nil {
			var got int
			got, err = r.Read(b[n:])
			n += got
		}
		parts = append(parts, b[:n])
		size += int64(n)
		switch {
		case size > most:
			return nil, fmt.Errorf("%w: it has more than %d bytes", errTooLong, most)
		case err == io.EOF: //nolint:errorlint // Read returns exactly this; a text that was cut off has another
			return bytes.Join(parts, nil), nil
		case err != nil:
			return nil, err
		}
	}
}

// Parse reads a document from memory and checks it against the schema.
func Parse(b []byte) (e *Experiment, err error) {
	hold := memory().Growing()
	defer hold.Release()
	if err := hold.Add(int64(len(b)) * textBytes); err != nil {
		return nil, err
	}
	return parsed(b, hold)
}

// parsed is Parse of a text whose memory is reserved.
func parsed(b []byte, hold *quota.Growing) (e *Experiment, err error) {
	if err := hold.Add(valuesBytes(b)); err != nil {
		return nil, err
	}
	err = contain.Call("reading a result", func() (err error) { e, err = parse(b); return err })
	return e, err
}

func parse(b []byte) (*Experiment, error) {
	size := len(b)
	b, err := document.One(b)
	var doc map[string]any
	if err == nil {
		doc, err = decoded(b)
	}
	if err != nil {
		return nil, fmt.Errorf("not a complete JSON document, %d bytes (%w); if the file was cut off, copy it again", size, err)
	}
	have, _ := doc["schema_version"].(string)
	if have == "" {
		return nil, errors.New("no schema_version: not a result of `teescope bench`")
	}
	major, ok := majorOf(have)
	own, _ := majorOf(SchemaVersion)
	switch {
	case !ok:
		return nil, fmt.Errorf("schema_version %q: want a version like %s", have, SchemaVersion)
	case major > own:
		return nil, fmt.Errorf("schema_version %s, this program knows %s: %w", have, SchemaVersion, ErrNewer)
	case major < own:
		return nil, fmt.Errorf("schema_version %s is older than %s and no longer read", have, SchemaVersion)
	}
	s, err := compiled()
	if err != nil {
		return nil, err
	}
	if err := s.Validate(doc); err != nil {
		return nil, fmt.Errorf("does not follow the schema (`teescope schema result`): %w", err)
	}
	if err := unchanged(doc); err != nil {
		return nil, err
	}
	var e Experiment
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, err
	}
	if err := whole(&e); err != nil {
		return nil, err
	}
	return withoutSecrets(&e), nil
}

// decoded returns a JSON text as values, numbers as they are written; nil for one that is not an object.
func decoded(b []byte) (map[string]any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err := d.Decode(&v)
	doc, _ := v.(map[string]any)
	return doc, err
}

// whole finds what a schema cannot: duplicate names, names that refer to nothing, and a run that would be counted
// twice.
func whole(e *Experiment) error {
	envs, cases, runs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range e.Environments {
		id := e.Environments[i].ID
		if envs[id] {
			return fmt.Errorf("environment %q is there twice", id)
		}
		envs[id] = true
	}
	for i := range e.Cases {
		id := e.Cases[i].ID
		if cases[id] {
			return fmt.Errorf("case %q is there twice", id)
		}
		cases[id] = true
	}
	for i := range e.Runs {
		switch r := &e.Runs[i]; {
		case !envs[r.Env]:
			return fmt.Errorf("run %s: there is no environment %q", r.ID, r.Env)
		case !cases[r.Case]:
			return fmt.Errorf("run %s: there is no case %q", r.ID, r.Case)
		case runs[r.ID]:
			return fmt.Errorf("run %s is there twice", r.ID)
		default:
			runs[r.ID] = true
		}
		if err := e.Runs[i].possible(e.Workload.Metrics); err != nil {
			return fmt.Errorf("run %s: %w; this version of `teescope bench` writes no such value: the file was changed, or made by an earlier version or something else", e.Runs[i].ID, err)
		}
	}
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		d := e.Desc(c.Metric)
		if d == nil {
			continue
		}
		for _, v := range []*float64{c.BaseMedian, c.TreatMedian} {
			if v == nil {
				continue
			}
			if why := d.impossibility(*v); why != "" {
				return fmt.Errorf("comparison of %s and %s: median of %s: it is %v, %s", c.Baseline, c.Treatment, c.Metric, *v, why)
			}
		}
	}
	if d := &e.Design; !(d.Margin >= 0 && d.Margin < 1) || !(d.Alpha >= 0 && d.Alpha < 1) {
		return fmt.Errorf("design: margin %v and alpha %v: want shares between 0 and 1", d.Margin, d.Alpha)
	}
	return nil
}

func majorOf(version string) (int, bool) {
	m, _, ok := strings.Cut(version, ".")
	n, err := strconv.Atoi(m)
	return n, ok && err == nil
}

// Write replaces a document as a whole, without secrets: a reader sees either the old or the new one. It fills in the digest.
func Write(path string, e *Experiment) error {
	shown := withoutSecrets(e)
	if err := seal(shown); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	e.Digest = shown.Digest
	b, err := json.MarshalIndent(shown, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := checkAttested(e, b); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replace(path, append(b, '\n'), 0o644)
}

// replace writes a file next to path, syncs it and renames it into place.
func replace(path string, data []byte, mode fs.FileMode) error {
	f, err := disk.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return disk.Rename(f.Name(), path)
}
