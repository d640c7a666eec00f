package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/repair"
)

// TestDataFolderReplaced: once the folder, or the log in it, is gone or another, no sample is acknowledged and the store says so;
// when it is back, the store goes on and nothing that was acknowledged is lost.
func TestDataFolderReplaced(t *testing.T) {
	desc := &metric.Desc{Name: "tee_x", Help: "X.", Kind: metric.Gauge}
	for name, c := range map[string]struct{ remove, back func(dir, aside string) error }{
		"renamed": {os.Rename, func(dir, aside string) error { return os.Rename(aside, dir) }},
		"replaced": {func(dir, aside string) error {
			return errors.Join(os.Rename(dir, aside), os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, repair.LogName), 0o700))
		}, func(dir, aside string) error { return errors.Join(os.RemoveAll(dir), os.Rename(aside, dir)) }},
		"log": {func(dir, aside string) error { return os.Rename(filepath.Join(dir, repair.LogName), aside) }, func(dir, aside string) error { return os.Rename(aside, filepath.Join(dir, repair.LogName)) }},
		"other log": {func(dir, aside string) error {
			return errors.Join(os.Rename(filepath.Join(dir, repair.LogName), aside), os.Mkdir(filepath.Join(dir, repair.LogName), 0o700))
		}, func(dir, aside string) error {
			return errors.Join(os.Remove(filepath.Join(dir, repair.LogName)), os.Rename(aside, filepath.Join(dir, repair.LogName)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			o := DefaultOptions()
			o.Dir, o.SyncInterval = filepath.Join(above, "data"), time.Hour
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Now().Truncate(time.Second)
			keep := func() error {
				at = at.Add(time.Second)
				return s.Append(at, []metric.Sample{{Desc: desc, Value: 1}})
			}
			if err := errors.Join(keep(), s.Err(), c.remove(o.Dir, filepath.Join(above, "aside"))); err != nil {
				t.Fatal(err)
			}
			if err := keep(); !errors.Is(err, ErrReplaced) {
				t.Errorf("a round is stored: %v", err)
			}
			if err := s.Err(); !errors.Is(err, ErrReplaced) || !errors.Is(s.Refusing(), ErrReplaced) {
				t.Errorf("the store says %v", err)
			}
			if err := s.putInOrder(); !errors.Is(err, ErrReplaced) {
				t.Errorf("the store is put in order: %v", err)
			}
			if err := errors.Join(c.back(o.Dir, filepath.Join(above, "aside")), keep(), s.Err(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			points, err := s.Query(t.Context(), "count_over_time(tee_x[1h])", at)
			if err := errors.Join(err, s.Close()); err != nil || len(points) != 1 || points[0].Value != 2 {
				t.Errorf("after a restart: %v, %v; want 2 samples", points, err)
			}
		})
	}
}
