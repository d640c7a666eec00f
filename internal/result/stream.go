package result

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/printable"
)

// Stream is an experiment in progress on disk. The file PATH.partial, next to the document's path, holds one JSON
// record per line. Each is synced when written, so a crash loses at most the run in progress. Finish replaces it with
// the document.
type Stream struct {
	path string
	f    *disk.File
	end  int64 // length of the complete records
}

// record is one line of the file; one field is set.
type record struct {
	Experiment  *Experiment  `json:"experiment,omitempty"`
	Environment *Environment `json:"environment,omitempty"`
	Run         *Run         `json:"run,omitempty"`
}

func partial(path string) string { return path + ".partial" }

// rawDir returns the folder with the raw outputs of a document's runs.
func rawDir(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".raw" }

// Create starts a new document at path with everything known before the first run. It fails if a document or an
// unfinished experiment is there.
func Create(path string, e *Experiment) (*Stream, error) {
	if _, err := disk.Stat(path); err == nil {
		return nil, fmt.Errorf("write %s: the file exists already; name another with --out", path)
	}
	if err := disk.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("write %s: %w; name another file with --out", path, err)
	}
	f, err := disk.OpenFile(partial(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if busy(partial(path)) {
			return nil, fmt.Errorf("write %s: another teescope is writing it; name another file with --out", path)
		}
		return nil, fmt.Errorf("write %s: an experiment stopped here before its end; continue it with --resume, or remove %s", path, partial(path))
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w; name another file with --out", path, err)
	}
	s := &Stream{path: path, f: f}
	if err := errors.Join(s.lock(), s.append(record{Experiment: e})); err != nil {
		f.Close()
		return nil, errors.Join(err, disk.Remove(partial(path)))
	}
	return s, nil
}

// The reasons why an experiment cannot be resumed.
var (
	ErrFinished = errors.New("the experiment is finished")
	ErrNotBegun = errors.New("no experiment was started there")
)

// Resume opens an experiment that stopped before its end. It drops a record that a crash cut off.
func Resume(path string) (*Experiment, *Stream, error) {
	f, err := disk.OpenFile(partial(path), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := disk.Stat(path); e == nil {
			return nil, nil, fmt.Errorf("resume %s: %w", path, ErrFinished)
		}
		return nil, nil, fmt.Errorf("resume %s: %w", path, ErrNotBegun)
	}
	if err != nil {
		return nil, nil, err
	}
	s := &Stream{path: path, f: f}
	var e *Experiment
	if err := contain.Call("reading an experiment", func() (err error) { e, err = s.load(); return err }); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("resume %s: %w", partial(path), err)
	}
	return e, s, nil
}

// busy reports whether the experiment at a path is still running.
func busy(path string) bool {
	f, err := disk.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return lockFile(f.File, false) != nil
}

func (s *Stream) lock() error {
	if err := lockFile(s.f.File, true); err != nil {
		return fmt.Errorf("%s: another teescope is writing it: %w", partial(s.path), err)
	}
	return nil
}

func (s *Stream) load() (*Experiment, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	var e *Experiment
	in := bufio.NewReaderSize(s.f, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // cut off: it has no line end
		}
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			if _, more := in.Peek(1); errors.Is(more, io.EOF) {
				break // the last one may have been cut off within a block
			}
			return nil, fmt.Errorf("record %d is damaged: %w", n, err)
		}
		if (n == 1) != (r.Experiment != nil) {
			return nil, fmt.Errorf("record %d is out of place", n)
		}
		switch {
		case r.Experiment != nil:
			if major, ok := majorOf(r.Experiment.SchemaVersion); !ok || major != mustMajor() {
				return nil, fmt.Errorf("schema_version %q, this program writes %s: finish it with the program that started it", r.Experiment.SchemaVersion, SchemaVersion)
			}
			e = r.Experiment
		case r.Environment != nil:
			if old := e.Environment(r.Environment.ID); old != nil {
				*old = *r.Environment
			} else {
				e.Environments = append(e.Environments, *r.Environment)
			}
		case r.Run != nil:
			e.Runs = append(e.Runs, *r.Run)
		}
		s.end += int64(len(line))
	}
	if e == nil {
		return nil, errors.New("the interrupted benchmark wrote nothing to this file; remove the file and start again")
	}
	if err := s.f.Truncate(s.end); err != nil {
		return nil, err
	}
	_, err := s.f.Seek(s.end, io.SeekStart)
	return e, err
}

func mustMajor() int {
	n, _ := majorOf(SchemaVersion)
	return n
}

func (s *Stream) append(r record) error {
	b, err := json.Marshal(withoutSecrets(r))
	if err != nil {
		return fmt.Errorf("write %s: %w", partial(s.path), err)
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return fmt.Errorf("write %s: a record has a line end", partial(s.path))
	}
	_, err = s.f.Write(append(b, '\n'))
	if err = errors.Join(err, s.f.Sync()); err != nil {
		// A half-written record would damage the next one.
		_, seek := s.f.Seek(s.end, io.SeekStart)
		return errors.Join(err, s.f.Truncate(s.end), seek)
	}
	s.end += int64(len(b)) + 1
	return nil
}

// Environment adds an arm, or replaces its description.
func (s *Stream) Environment(e *Environment) error { return s.append(record{Environment: e}) }

// Run adds a run. Once it returns nil, a crash cannot lose the run.
func (s *Stream) Run(r *Run) error { return s.append(record{Run: r}) }

// Raw stores an output of a run next to the document, without secrets, and returns its reference.
func (s *Stream) Raw(run, name string, data []byte) (RawFile, error) {
	if utf8.Valid(data) {
		data = []byte(printable.Redact(string(data)))
	}
	dir := rawDir(s.path)
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return RawFile{}, err
	}
	file := filepath.Join(dir, fileName(run)+"."+fileName(name))
	if err := disk.WriteFile(file, data, 0o644); err != nil {
		return RawFile{}, errors.Join(err, disk.Remove(file))
	}
	rel, err := filepath.Rel(filepath.Dir(s.path), file)
	sum := sha256.Sum256(data)
	return RawFile{Path: filepath.ToSlash(rel), Digest: "sha256:" + hex.EncodeToString(sum[:])}, err
}

// fileName keeps the characters of a run's name that every file system accepts.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == 0 || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// Finish writes the document and removes the stream.
func (s *Stream) Finish(e *Experiment) error {
	if err := Write(s.path, e); err != nil {
		return fmt.Errorf("%w; all runs are kept in %s: free space and continue with --resume", err, partial(s.path))
	}
	return errors.Join(s.f.Close(), disk.Remove(partial(s.path)))
}

// Discard removes a stream that holds nothing worth keeping.
func (s *Stream) Discard() error { return errors.Join(s.f.Close(), disk.Remove(partial(s.path))) }

// Close closes the stream; the experiment can be resumed.
func (s *Stream) Close() error { return s.f.Close() }
