package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/store/repair"
)

// The data folder to be damaged: nine sessions of 80 rounds, 30 s apart, leave two blocks, a checkpoint, several
// segments of the log and files of head chunks. Three series are always there, and one begins in each session.

const (
	sessions  = 9
	perSess   = 80
	allRounds = sessions * perSess
)

func stepTime(i int) time.Time { return base.Add(time.Duration(i) * 30 * time.Second) }

// worth returns the value of a series in a round, which is unique.
func worth(series string, i int) float64 {
	n := 0
	for _, c := range series {
		n = n*31 + int(c)
	}
	return float64(n*10_000 + i)
}

func stepSamples(i int) (out []metric.Sample) {
	for _, name := range []string{"a", "b", "c"} {
		out = append(out, call(name, "read", worth(name, i)))
	}
	for s := 0; s <= i/perSess; s++ {
		name := "born" + strconv.Itoa(s)
		out = append(out, call(name, "read", worth(name, i)))
	}
	return out
}

func damageOptions(dir string) store.Options {
	o := store.DefaultOptions()
	o.Dir, o.Instance, o.Interval, o.Reserve, o.RuleInterval = dir, "here", 30*time.Second, 1<<20, time.Hour
	return o
}

// record appends rounds.
func record(t testing.TB, s *store.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, s.Append(stepTime(i), stepSamples(i)))
	}
}

// soundFolder makes the data folder.
func soundFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for n := range sessions {
		s, err := store.Open(t.Context(), damageOptions(dir))
		must(t, err)
		record(t, s, n*perSess, (n+1)*perSess)
		if n == 4 || n == 6 {
			want := map[int]int{4: 1, 6: 2}[n]
			eventually(t, "a block is written and the log is shortened", func() bool {
				record(t, s, (n+1)*perSess-1, (n+1)*perSess) // the same round once more may start what an earlier one could not
				return len(glob(t, dir, "0*/meta.json")) == want && len(glob(t, dir, "wal/checkpoint.0*")) == 1 && len(glob(t, dir, "wal/*.tmp")) == 0
			})
		}
		s.EachMinute()
		must(t, s.Close())
	}
	for _, what := range []string{"0*/index", "0*/chunks/000001", "wal/checkpoint.0*/0*", "chunks_head/0*"} {
		if len(glob(t, dir, what)) < 1 {
			t.Fatalf("the folder has no %s", what)
		}
	}
	if n := len(segments(t, dir)); n < 4 {
		t.Fatalf("the folder has %d segments", n)
	}
	return dir
}

func glob(t testing.TB, dir, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return out
}

// segments of the log that hold something.
func segments(t testing.TB, dir string) []string {
	return slices.DeleteFunc(glob(t, dir, "wal/0*"), func(name string) bool {
		fi, err := os.Stat(name)
		return err != nil || fi.Size() == 0
	})
}

// found returns the rounds of each series that a store answers; a wrong value is an error.
func found(t testing.TB, s *store.Store, rounds int) map[string]map[int]bool {
	t.Helper()
	out := map[string]map[int]bool{}
	const chunk = 500
	for from := 0; from < rounds; from += chunk {
		got, err := s.QueryRange(t.Context(), `last_over_time(tee_syscalls_total[1s])`, stepTime(from), stepTime(min(from+chunk, rounds)-1), 30*time.Second)
		must(t, err)
		for _, series := range got {
			name := series.Labels["process"]
			if out[name] == nil {
				out[name] = map[int]bool{}
			}
			for k, at := range series.At {
				i := int(at.Sub(base) / (30 * time.Second))
				if series.Values[k] != worth(name, i) {
					t.Fatalf("WRONG VALUE: %s in round %d is %v, want %v", name, i, series.Values[k], worth(name, i))
				}
				out[name][i] = true
			}
		}
	}
	return out
}

// damages are the kinds of damage done to a copy of the folder.
func damages() []damageCase {
	truncate := func(pattern string, which int, size func(int64) int64) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			name := pick(t, dir, pattern, which)
			fi, err := os.Stat(name)
			must(t, err)
			must(t, os.Truncate(name, size(fi.Size())))
		}
	}
	remove := func(pattern string, which int) func(testing.TB, string) {
		return func(t testing.TB, dir string) { must(t, os.RemoveAll(pick(t, dir, pattern, which))) }
	}
	write := func(pattern string, which int, at float64, with string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			name := pick(t, dir, pattern, which)
			b, err := os.ReadFile(name)
			must(t, err)
			off := int(at * float64(len(b)))
			if with == "flip" {
				b[off] ^= 0x10
			} else {
				copy(b[off:], with)
			}
			must(t, os.WriteFile(name, b, 0o644))
		}
	}
	garbage := func(pattern string, which int) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			must(t, os.WriteFile(pick(t, dir, pattern, which), []byte(strings.Repeat("garbage!", 500)), 0o644))
		}
	}
	device := func(pattern string, which int) func(testing.TB, string) { // it can be read without end
		return func(t testing.TB, dir string) {
			name := pick(t, dir, pattern, which)
			must(t, os.Remove(name))
			must(t, os.Symlink("/dev/full", name))
		}
	}
	empty := func(int64) int64 { return 0 }
	half := func(n int64) int64 { return n / 2 }
	short := func(int64) int64 { return 150 }                                      // files end with a page of zeros
	first, second, log := [2]int{0, 120}, [2]int{120, 360}, [2]int{360, allRounds} // the first block ends at 04:00, the second at 06:00
	none := [2]int{}
	return []damageCase{
		{"segment/missing", remove("wal/0*", 1), log, "log"},
		{"segment/first missing", remove("wal/0*", 0), log, "log"},
		{"segment/last missing", func(t testing.TB, dir string) {
			all := segments(t, dir)
			must(t, os.Remove(all[len(all)-1]))
		}, log, "?"},
		{"segment/wrong number", func(t testing.TB, dir string) {
			must(t, os.Rename(pick(t, dir, "wal/0*", 1), filepath.Join(dir, "wal", "00000099")))
		}, none, "log"},
		{"segment/number twice", func(t testing.TB, dir string) {
			name := pick(t, dir, "wal/0*", 1)
			must(t, os.Rename(name, filepath.Join(dir, "wal", strings.TrimLeft(filepath.Base(pick(t, dir, "wal/0*", 2)), "0"))))
		}, none, "log"},
		{"segment/damaged", write("wal/0*", 1, 0.03, "damaged!"), log, "log"},
		{"segment/flipped", write("wal/0*", 1, 0.02, "flip"), log, "log"},
		{"segment/last flipped", write("wal/0*", -1, 0.02, "flip"), log, "log"},
		{"segment/last cut", truncate("wal/0*", -1, func(n int64) int64 { return 999 }), log, "?"},
		{"segment/last garbage", garbage("wal/0*", -1), log, "log"},
		{"segment/garbage behind the last record", func(t testing.TB, dir string) {
			name := pick(t, dir, "wal/0*", -1)
			must(t, os.WriteFile(name, append(readFile(t, name), strings.Repeat("garbage!", 500)...), 0o644))
		}, log, "log"},
		{"segment/emptied", truncate("wal/0*", 1, empty), log, "?"},
		{"segment/garbage", garbage("wal/0*", 1), log, "log"},
		{"segment/a folder", func(t testing.TB, dir string) {
			must(t, os.Mkdir(filepath.Join(dir, "wal", "00000050"), 0o755))
		}, none, "log"},
		{"log/missing", remove("wal", 0), log, "head chunks"},
		{"log/all segments missing", func(t testing.TB, dir string) {
			for _, name := range glob(t, dir, "wal/0*") {
				must(t, os.Remove(name))
			}
		}, log, "log"},
		{"checkpoint/missing", remove("wal/checkpoint*", 0), log, "log"},
		{"checkpoint/empty folder", remove("wal/checkpoint*/0*", 0), log, "log"},
		{"checkpoint/empty", truncate("wal/checkpoint*/0*", 0, empty), log, "log"},
		{"checkpoint/cut", truncate("wal/checkpoint*/0*", 0, short), log, "log"},
		{"checkpoint/garbage", garbage("wal/checkpoint*/0*", 0), log, "log"},
		{"checkpoint/a file", func(t testing.TB, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "wal", "checkpoint.00000077"), nil, 0o644))
		}, none, "log"},
		{"head chunks/empty", truncate("chunks_head/0*", 0, empty), none, "head chunks"},
		{"head chunks/damaged header", write("chunks_head/0*", 0, 0, "damaged!"), none, "head chunks"},
		{"head chunks/garbage", garbage("chunks_head/0*", 0), none, "head chunks"},
		{"head chunks/flipped", write("chunks_head/0*", 0, 0.001, "flip"), none, "head chunks"},
		{"head chunks/cut", truncate("chunks_head/0*", 0, short), none, "head chunks"},
		{"head chunks/last one garbage", garbage("chunks_head/0*", -1), none, "head chunks"},
		{"head chunks/middle missing", remove("chunks_head/0*", 1), none, "?"},
		{"head chunks/missing", remove("chunks_head", 0), none, "?"},
		{"head chunks/a file", func(t testing.TB, dir string) {
			remove("chunks_head", 0)(t, dir)
			must(t, os.WriteFile(filepath.Join(dir, "chunks_head"), []byte("a file"), 0o644))
		}, none, "head chunks"},
		{"head chunks/a link to itself", func(t testing.TB, dir string) {
			remove("chunks_head", 0)(t, dir)
			must(t, os.Symlink("chunks_head", filepath.Join(dir, "chunks_head")))
		}, none, "?"}, // a link to itself cannot be looked at in the quarantine
		{"log/a file", func(t testing.TB, dir string) {
			remove("wal", 0)(t, dir)
			must(t, os.WriteFile(filepath.Join(dir, "wal"), []byte("a file"), 0o644))
		}, log, "log"},
		{"index/empty", truncate("0*/index", 0, empty), first, "block"},
		{"index/cut", truncate("0*/index", 0, half), first, "block"},
		{"index/garbage", garbage("0*/index", 0), first, "block"},
		{"index/missing", remove("0*/index", 1), second, "block"},
		{"index/flipped early", write("0*/index", 0, 0.2, "flip"), first, "?"},
		{"index/flipped in the middle", write("0*/index", 0, 0.5, "flip"), first, "?"},
		{"index/flipped late", write("0*/index", 0, 0.8, "flip"), first, "?"},
		{"chunks/empty", truncate("0*/chunks/000001", 0, empty), first, "block"},
		{"chunks/cut", truncate("0*/chunks/000001", 0, half), first, "skipped"},
		{"chunks/garbage", garbage("0*/chunks/000001", 0), first, "block"},
		{"chunks/missing", remove("0*/chunks/000001", 0), first, "skipped"},
		{"chunks/wrong number", func(t testing.TB, dir string) {
			name := pick(t, dir, "0*/chunks/000001", 0)
			must(t, os.Rename(name, filepath.Join(filepath.Dir(name), "000002")))
		}, first, "block"},
		{"chunks/one bit", write("0*/chunks/000001", 0, 0.5, "flip"), first, "skipped"},
		{"chunks/one bit of the second block", write("0*/chunks/000001", 1, 0.9, "flip"), second, "skipped"},
		{"tombstones/empty", truncate("0*/tombstones", 0, empty), none, "tombstones"},
		{"tombstones/cut", truncate("0*/tombstones", 0, half), none, "tombstones"},
		{"tombstones/the header", truncate("0*/tombstones", 0, func(int64) int64 { return 5 }), none, "tombstones"}, // at which the database's reader panics
		{"tombstones/garbage", garbage("0*/tombstones", 0), none, "tombstones"},
		{"meta/empty", truncate("0*/meta.json", 0, empty), none, "description"}, // the index says the same
		{"meta/garbage", garbage("0*/meta.json", 0), none, "description"},
		{"meta/missing", remove("0*/meta.json", 0), none, "?"},
		{"meta/a folder", func(t testing.TB, dir string) {
			remove("0*/meta.json", 0)(t, dir)
			must(t, os.Mkdir(filepath.Join(filepath.Dir(pick(t, dir, "0*/index", 0)), "meta.json"), 0o755))
		}, none, "description"},
		{"block/a file", func(t testing.TB, dir string) {
			block := filepath.Dir(pick(t, dir, "0*/index", 0))
			must(t, os.RemoveAll(block))
			must(t, os.WriteFile(block, []byte("a file"), 0o644))
		}, first, "block"},
		{"tombstones/a device", device("0*/tombstones", 0), none, "tombstones"},
		{"meta/a device", device("0*/meta.json", 0), none, "description"},
		{"head chunks/a device", device("chunks_head/0*", 0), none, "?"},
		{"lock/a folder", func(t testing.TB, dir string) {
			remove("lock", 0)(t, dir)
			must(t, os.Mkdir(filepath.Join(dir, "lock"), 0o755))
		}, none, "?"},
		{"lock/a device", device("lock", 0), none, "?"},
		{"quarantine/a file, index/empty", func(t testing.TB, dir string) {
			truncate("0*/index", 0, empty)(t, dir)
			must(t, os.RemoveAll(filepath.Join(dir, "quarantine")))
			must(t, os.WriteFile(filepath.Join(dir, "quarantine"), []byte("a file"), 0o644))
		}, first, "block"},
		{"meta and index/garbage", func(t testing.TB, dir string) {
			garbage("0*/meta.json", 0)(t, dir)
			garbage("0*/index", 0)(t, dir)
		}, first, "block"},
		{"several", func(t testing.TB, dir string) {
			remove("wal/0*", 1)(t, dir)
			truncate("chunks_head/0*", 0, empty)(t, dir)
			truncate("0*/index", 0, empty)(t, dir)
			truncate("0*/tombstones", 1, empty)(t, dir)
		}, [2]int{0, allRounds}, "log"},
	}
}

type damageCase struct {
	name string
	do   func(testing.TB, string)
	// mayMiss are the rounds of which samples may be missing; no other round may miss any.
	mayMiss [2]int
	// kind is the part that is moved away or skipped; "?" if none needs to be.
	kind string
}

func pick(t testing.TB, dir, pattern string, which int) string {
	t.Helper()
	all := glob(t, dir, pattern)
	if pattern == "wal/0*" {
		all = segments(t, dir)
	}
	if which < 0 {
		which += len(all)
	}
	if which >= len(all) {
		t.Fatalf("%s: %d files, want more than %d", pattern, len(all), which)
	}
	return all[which]
}

// TestDamagedFolder: for any damage, the store opens, answers correct values from the rest, reports the loss, and
// continues recording, also after the next start.
func TestDamagedFolder(t *testing.T) {
	sound := soundFolder(t)
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			c.do(t, dir)
			before := sizes(t, dir)
			var log bytes.Buffer
			o := damageOptions(dir)
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s, err := store.Open(t.Context(), o)
			if err != nil {
				t.Fatalf("it does not open: %v", err)
			}
			checkFound(t, c, found(t, s, allRounds), allRounds)
			checkLoss(t, c, s, dir, log.String())
			// Nothing is deleted, except an incomplete last record.
			if gone := before - sizes(t, dir); gone > 100 {
				t.Errorf("%d bytes of %d are gone", gone, before)
			}
			t.Log(s.Losses())
			const more = 200 // enough for chunks that go to disk
			for i := allRounds; i < allRounds+more; i++ {
				samples := stepSamples(min(i, allRounds-1))
				for k := range samples {
					samples[k].Value = worth(samples[k].Labels[0], i)
				}
				for k := range 20 {
					samples = append(samples, call("new"+strconv.Itoa(k), "read", worth("new"+strconv.Itoa(k), i)))
				}
				must(t, s.Append(stepTime(i), samples))
			}
			s.EachMinute()
			must(t, s.Close())
			for range 2 {
				s, err = store.Open(t.Context(), damageOptions(dir))
				must(t, err)
				if err := s.Err(); err != nil {
					t.Errorf("at a later start: %v", err)
				}
				got := found(t, s, allRounds+more)
				checkFound(t, c, got, allRounds+more)
				for k := range 20 {
					if n := len(got["new"+strconv.Itoa(k)]); n != more {
						t.Errorf("new%d: %d rounds, want %d", k, n, more)
					}
				}
				must(t, s.Close())
			}
		})
	}
}

// sizes is how many bytes the regular files hold.
func sizes(t testing.TB, dir string) (n int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Name() != "reserve" {
			n += fi.Size()
		}
		return err
	}))
	return n
}

// checkFound: only samples that may be missing are missing.
func checkFound(t *testing.T, c damageCase, got map[string]map[int]bool, rounds int) {
	t.Helper()
	missing, first, last := 0, math.MaxInt, 0
	for i := range rounds {
		for _, sample := range stepSamples(min(i, allRounds-1)) {
			name := sample.Labels[0]
			if got[name][i] {
				continue
			}
			if i < c.mayMiss[0] || i >= c.mayMiss[1] {
				if missing++; missing < 4 {
					t.Errorf("%s in round %d is missing", name, i)
				}
				continue
			}
			first, last = min(first, i), max(last, i)
		}
	}
	if missing > 0 {
		t.Errorf("%d samples are missing", missing)
	}
	if last > 0 {
		t.Logf("missing between rounds %d and %d", first, last)
	}
}

// checkLoss: the damaged part is in the quarantine with the reason, or skipped; the log, a metric, and the answers
// report it.
func checkLoss(t *testing.T, c damageCase, s *store.Store, dir, log string) {
	t.Helper()
	if c.kind == "?" {
		return
	}
	kind, state := c.kind, "quarantined"
	if kind == "skipped" {
		kind, state = "block", "skipped"
	}
	var loss *repair.Loss
	for _, l := range s.Losses() {
		if l.Kind == kind && l.Moved.IsZero() == (state == "skipped") {
			loss = &l
		}
	}
	if loss == nil {
		t.Fatalf("the store does not say that its %s is %s: %v", kind, state, s.Losses())
	}
	if loss.Reason == "" || loss.Lost == "" {
		t.Errorf("the loss has no reason or does not say what: %+v", loss)
	}
	if state == "quarantined" {
		note, err := os.ReadFile(filepath.Join(dir, "quarantine", loss.Part+".txt"))
		must(t, err)
		if _, err := os.Stat(filepath.Join(dir, "quarantine", loss.Part)); err != nil || !strings.Contains(string(note), "reason: "+loss.Reason) || !strings.Contains(string(note), "lost: "+loss.Lost) {
			t.Errorf("%v; the note:\n%s", err, note)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), loss.Part) {
			t.Errorf("the store's trouble is %v", err)
		}
	}
	if !strings.Contains(log, "stored data is damaged") || !strings.Contains(log, loss.Part) {
		t.Errorf("the log says %q", log)
	}
	said := false
	s.Collect(func(m metric.Sample) {
		said = said || m.Desc.Name == "teescope_store_damaged" && m.Labels[0] == loss.Part && m.Labels[2] == state && m.Labels[3] == loss.Lost
	})
	if !said {
		t.Error("no metric says so")
	}
	if loss.Lost == "nothing" {
		return
	}
	from, to := c.mayMiss[0], c.mayMiss[1]-1
	for i := from; i <= to; i++ { // everything missing lies within the reported loss
		if loss.From.After(stepTime(i)) || !loss.To.IsZero() && loss.To.Before(stepTime(i)) {
			continue
		}
		from = i
		break
	}
	if w := warnings(t, s, fmt.Sprintf("query_range?query=tee_syscalls_total&step=30&start=%d&end=%d", stepTime(from).Unix(), stepTime(from+100).Unix())); !strings.Contains(w, loss.Part) {
		t.Errorf("a query over the loss warns of %q", w)
	}
}

// warnings returns those of a call of the API, which must succeed.
func warnings(t testing.TB, s *store.Store, path string) string {
	t.Helper()
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	resp, err := http.Get(srv.URL + "/api/v1/" + path)
	must(t, err)
	defer resp.Body.Close()
	var a struct {
		Status, Error string
		Warnings      []string
	}
	must(t, json.NewDecoder(resp.Body).Decode(&a))
	if a.Status != "success" {
		t.Errorf("%s: %s %s", path, a.Status, a.Error)
	}
	return strings.Join(a.Warnings, "\n")
}
