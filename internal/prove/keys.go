package prove

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// store is a folder with the keys of set-ups, one file for each circuit. A set-up takes many times as long as a proof, and each
// run of a benchmark is a process of its own.
//
// A file has the proving key, the verifying key, a description of them in JSON, its length in four bytes, and a mark. It is written
// under another name and renamed when it is whole and on the disk. The description has the digest of the keys, which is
// checked before they are read, because a damaged key gives wrong proofs, or none.
type store struct {
	dir string
	// most is how many bytes all files may have together. The one used last is kept, whatever its size.
	most int64
}

// description is what a file says of its keys.
type description struct {
	Scheme  string `json:"scheme"`
	Circuit string `json:"circuit"`
	Library string `json:"library"`
	// Proving and Verifying are the sizes of the keys in bytes.
	Proving   int64  `json:"proving_key_bytes"`
	Verifying int64  `json:"verifying_key_bytes"`
	Digest    string `json:"digest"`
	// Seconds is how long the set-up took.
	Seconds float64 `json:"set_up_seconds"`
}

const (
	mark            = "teekeys1"
	mostDescription = 4096
	// Names of whole files and of those under way.
	whole, unfinished = ".keys", ".part"
)

// name is the file for a circuit, whose digest begins with "sha256:".
func (s store) name(sch *scheme, circuit string) string {
	return filepath.Join(s.dir, sch.name+"-"+strings.TrimPrefix(circuit, "sha256:")+whole)
}

// errNone means that the keys of a circuit are not in the store.
var errNone = errors.New("the keys are not there yet")

// load reads the keys of a circuit. The error wraps errNone if there are none, and says what is wrong with those that cannot be used.
func (s store) load(sch *scheme, circuit, library string) (proving, verifying key, d description, err error) {
	if s.dir == "" {
		return nil, nil, d, errNone
	}
	name := s.name(sch, circuit)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, d, errNone
	}
	if err != nil {
		return nil, nil, d, err
	}
	defer func() { _ = f.Close() }()
	if d, err = describe(f); err != nil {
		return nil, nil, d, fmt.Errorf("%s: %w", name, err)
	}
	if d.Scheme != sch.name || d.Circuit != circuit || d.Library != library {
		return nil, nil, d, fmt.Errorf("%s: its keys are of %s, circuit %s, made by %s", name, d.Scheme, d.Circuit, d.Library)
	}
	proving, verifying = sch.empty()
	for _, part := range []struct {
		key      key
		from, of int64
	}{{proving, 0, d.Proving}, {verifying, d.Proving, d.Verifying}} {
		r := io.NewSectionReader(f, part.from, part.of)
		if n, err := part.key.UnsafeReadFrom(bufio.NewReaderSize(r, 1<<20)); err != nil || n != part.of {
			return nil, nil, d, fmt.Errorf("%s: read %d of %d bytes of a key: %w", name, n, part.of, errors.Join(err, errDamaged))
		}
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // only the order in which files are dropped depends on it
	return proving, verifying, d, nil
}

var errDamaged = errors.New("the file is damaged")

// describe reads a file's description and checks the digest of its keys.
func describe(f *os.File) (d description, err error) {
	st, err := f.Stat()
	if err != nil {
		return d, err
	}
	end := make([]byte, 4+len(mark))
	at := st.Size() - int64(len(end))
	if at < 0 {
		return d, errDamaged
	}
	if _, err := f.ReadAt(end, at); err != nil {
		return d, err
	}
	size := int64(binary.BigEndian.Uint32(end))
	if string(end[4:]) != mark || size > mostDescription || size > at {
		return d, errDamaged
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, at-size); err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if d.Proving < 0 || d.Verifying < 0 || d.Proving > at || d.Verifying > at || d.Proving+d.Verifying != at-size || !(d.Seconds >= 0) {
		return d, errDamaged
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, at-size)); err != nil {
		return d, err
	}
	if hex.EncodeToString(h.Sum(nil)) != d.Digest {
		return d, errDamaged
	}
	return d, nil
}

// fill takes the sizes and the digest of keys.
func (d *description) fill(proving, verifying key) error {
	h := sha256.New()
	for _, part := range []struct {
		key  key
		size *int64
	}{{proving, &d.Proving}, {verifying, &d.Verifying}} {
		var err error
		if *part.size, err = part.key.WriteRawTo(h); err != nil {
			return fmt.Errorf("encode a key: %w", err)
		}
	}
	d.Digest = hex.EncodeToString(h.Sum(nil))
	return nil
}

// save writes the keys, and drops the files that were not used for the longest time while there is too much.
func (s store) save(sch *scheme, proving, verifying key, d description) (err error) {
	if s.dir == "" {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "*"+unfinished)
	if err != nil {
		return err
	}
	err = write(f, proving, verifying, d)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.name(sch, d.Circuit))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return s.drop(s.name(sch, d.Circuit))
}

// write writes a whole file to the disk.
func write(f *os.File, proving, verifying key, d description) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, k := range []key{proving, verifying} {
		if _, err := k.WriteRawTo(w); err != nil {
			return err
		}
	}
	end := binary.BigEndian.AppendUint32(text, uint32(len(text)))
	if _, err := w.Write(append(end, mark...)); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// drop evicts files, leftovers of killed processes included, until the others fit into the limit. It never evicts kept.
func (s store) drop(kept string) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	type file struct {
		name string
		size int64
		used time.Time
	}
	var others []file
	sum := int64(0)
	for _, e := range entries {
		name := filepath.Join(s.dir, e.Name())
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || filepath.Ext(name) != whole && filepath.Ext(name) != unfinished {
			continue // gone, or not ours
		}
		sum += st.Size()
		if name != kept {
			others = append(others, file{name, st.Size(), st.ModTime()})
		}
	}
	slices.SortFunc(others, func(a, b file) int { return a.used.Compare(b.used) })
	for _, f := range others {
		if sum <= s.most {
			break
		}
		if err := os.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= f.size
	}
	return nil
}
