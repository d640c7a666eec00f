package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/store/repair"
)

// describe changes the description of a block.
func describe(which int, change func(t testing.TB, dir string, m map[string]any)) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		name := pick(t, dir, "0*/meta.json", which)
		m := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(readFile(t, name)))
		d.UseNumber()
		must(t, d.Decode(&m))
		change(t, dir, m)
		b, err := json.Marshal(m)
		must(t, err)
		must(t, os.WriteFile(name, b, 0o644))
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

// number changes a number in the description of a block; of names the fields that lead to it.
func number(which int, by int64, of ...string) func(testing.TB, string) {
	return describe(which, func(t testing.TB, _ string, m map[string]any) {
		for _, f := range of[:len(of)-1] {
			m = m[f].(map[string]any)
		}
		last := of[len(of)-1]
		n, err := m[last].(json.Number).Int64()
		must(t, err)
		m[last] = n + by
	})
}

// compaction sets a field of a block's compaction.
func compaction(which int, field string, value func(t testing.TB, dir string) any) func(testing.TB, string) {
	return describe(which, func(t testing.TB, dir string, m map[string]any) {
		m["compaction"].(map[string]any)[field] = value(t, dir)
	})
}

// blockOf names a block.
func blockOf(t testing.TB, dir string, which int) string {
	return filepath.Base(filepath.Dir(pick(t, dir, "0*/meta.json", which)))
}

// swap exchanges the names of two files.
func swap(t testing.TB, a, b string) {
	t.Helper()
	must(t, os.Rename(a, a+".swap"))
	must(t, os.Rename(b, a))
	must(t, os.Rename(a+".swap", b))
}

// checkpoint returns the path of the checkpoint with its number changed.
func checkpoint(t testing.TB, dir string, by int) (from, to string) {
	from = pick(t, dir, "wal/checkpoint*", 0)
	n, err := strconv.Atoi(from[len(from)-8:])
	must(t, err)
	return from, fmt.Sprintf("%s%08d", from[:len(from)-8], n+by)
}

// flipAllPostings damages the list of all series of an index: its place is the fifth number of the table at the end.
func flipAllPostings(t testing.TB, name string) {
	t.Helper()
	b := readFile(t, name)
	b[binary.BigEndian.Uint64(b[len(b)-52+4*8:])+9] ^= 0x10
	must(t, os.WriteFile(name, b, 0o644))
}

// lies are files that are sound but for what they say about their times, sizes and names.
func lies() []damageCase {
	var out []damageCase
	add := func(name, kind string, do func(testing.TB, string)) {
		out = append(out, damageCase{name: name, do: do, kind: kind})
	}
	minute, hour := time.Minute.Milliseconds(), time.Hour.Milliseconds()
	for which, block := range []string{"first", "last"} {
		for _, by := range []int64{-20 * 24 * hour, -hour, -minute, minute, 17 * minute, 2 * hour, 20 * 24 * hour, 1 << 61} {
			kind := "description"
			if by == -minute && which == 0 {
				kind = "?" // the last sample of the block is half a minute before its end
			}
			add(fmt.Sprintf("meta/%s block ends %+d min", block, by/minute), kind, number(which, by, "maxTime"))
			if kind = "description"; by < hour && (by > -hour || which == 0) {
				kind = "?" // the block begins at 03:00, in the span that begins at 02:00
			}
			add(fmt.Sprintf("meta/%s block begins %+d min", block, by/minute), kind, number(which, by, "minTime"))
		}
		add("meta/"+block+" block has the other's name", "description", describe(which, func(t testing.TB, dir string, m map[string]any) { m["ulid"] = blockOf(t, dir, 1-which) }))
		add("meta/"+block+" block has a format of its own", "description", number(which, 1, "version"))
		add("meta/"+block+" block says fewer series", "description", number(which, -1, "stats", "numSeries"))
		add("meta/"+block+" block says more chunks", "description", number(which, 1e9, "stats", "numChunks"))
		add("meta/"+block+" block says more samples", "?", number(which, 1e9, "stats", "numSamples"))
		add("meta/"+block+" block says another level", "?", number(which, 98, "compaction", "level"))
		add("meta/"+block+" block says that it can be deleted", "description", compaction(which, "deletable", func(testing.TB, string) any { return true }))
		add("meta/"+block+" block says that it came out of order", "?", compaction(which, "hints", func(testing.TB, string) any { return []string{"from-out-of-order"} }))
		add("meta/"+block+" block says that it comes from the other", "?", compaction(which, "sources", func(t testing.TB, dir string) any { return []string{blockOf(t, dir, 1-which)} }))
		for whose, other := range []string{"the first", "the last"} {
			add("meta/"+block+" block says that it replaces "+other, "description", compaction(which, "parents", func(t testing.TB, dir string) any {
				return []map[string]any{{"ulid": blockOf(t, dir, whose), "minTime": 0, "maxTime": 1}}
			}))
		}
	}
	add("meta/both blocks say that they replace the other", "description", func(t testing.TB, dir string) {
		for which := range 2 {
			compaction(which, "parents", func(t testing.TB, dir string) any {
				return []map[string]any{{"ulid": blockOf(t, dir, 1-which), "minTime": 0, "maxTime": 1}}
			})(t, dir)
		}
	})
	add("meta/last block says that it replaces the first, and its list of all series is damaged", "description", func(t testing.TB, dir string) {
		compaction(1, "parents", func(t testing.TB, dir string) any {
			return []map[string]any{{"ulid": blockOf(t, dir, 0), "minTime": 0, "maxTime": 1}}
		})(t, dir)
		flipAllPostings(t, pick(t, dir, "0*/index", 1))
	})
	add("meta/last block ends -60 min, and its list of all series is damaged", "description", func(t testing.TB, dir string) {
		number(1, -hour, "maxTime")(t, dir)
		flipAllPostings(t, pick(t, dir, "0*/index", 1))
	})
	add("block/another name", "description", func(t testing.TB, dir string) {
		name := filepath.Dir(pick(t, dir, "0*/meta.json", 0))
		must(t, os.Rename(name, filepath.Join(dir, "7"+filepath.Base(name)[1:])))
	})
	add("block/swapped", "description", func(t testing.TB, dir string) {
		swap(t, filepath.Dir(pick(t, dir, "0*/meta.json", 0)), filepath.Dir(pick(t, dir, "0*/meta.json", 1)))
	})

	for name, which := range map[string]int{"first": 0, "middle": 1, "last": -1} {
		add("segment/"+name+" has a number before the checkpoint", "log", func(t testing.TB, dir string) {
			must(t, os.Rename(pick(t, dir, "wal/0*", which), filepath.Join(dir, "wal", "00000000")))
		})
		add("segment/"+name+" has a later number", "?", func(t testing.TB, dir string) {
			must(t, os.Rename(pick(t, dir, "wal/0*", which), filepath.Join(dir, "wal", "00000099")))
		})
	}
	add("segment/swapped", "?", func(t testing.TB, dir string) { swap(t, pick(t, dir, "wal/0*", 0), pick(t, dir, "wal/0*", 1)) })
	for _, by := range []int{-1, 1, 2, 50} {
		add(fmt.Sprintf("checkpoint/number %+d", by), "log", func(t testing.TB, dir string) {
			from, to := checkpoint(t, dir, by)
			must(t, os.Rename(from, to))
		})
	}
	add("checkpoint/second one, empty", "log", func(t testing.TB, dir string) {
		_, to := checkpoint(t, dir, 2)
		must(t, os.Mkdir(to, 0o755))
		must(t, os.WriteFile(filepath.Join(to, "00000000"), nil, 0o644))
	})
	add("head chunks/swapped", "?", func(t testing.TB, dir string) {
		swap(t, pick(t, dir, "chunks_head/0*", 0), pick(t, dir, "chunks_head/0*", 1))
	})
	add("head chunks/first has the last number", "head chunks", func(t testing.TB, dir string) {
		must(t, os.Rename(pick(t, dir, "chunks_head/0*", 0), filepath.Join(dir, "chunks_head", "000099")))
	})
	add("head chunks/first missing", "head chunks", func(t testing.TB, dir string) { must(t, os.Remove(pick(t, dir, "chunks_head/0*", 0))) })

	add("head chunks/a reference flipped", "head chunks", func(t testing.TB, dir string) {
		name := pick(t, dir, "chunks_head/0*", -1)
		b := readFile(t, name)
		b[8+3] ^= 0x10 // after the header
		must(t, os.WriteFile(name, b, 0o644))
	})

	zeros := func(pattern string, n int64) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			name := pick(t, dir, pattern, 0)
			fi, err := os.Stat(name)
			must(t, err)
			must(t, os.Truncate(name, fi.Size()+n))
		}
	}
	for _, pattern := range []string{"0*/chunks/000001", "wal/0*", "wal/checkpoint*/0*", "chunks_head/0*"} {
		add(pattern+"/zeros after it", "?", zeros(pattern, 32<<10))
	}
	add("0*/tombstones/zeros after it", "tombstones", zeros("0*/tombstones", 32<<10))
	add("0*/chunks/000001/a terabyte of nothing after it", "?", zeros("0*/chunks/000001", 1<<40)) // more than the store may have
	return out
}

// TestLies: whatever a file says about its times, sizes and names, every sample that the files hold is answered, also after
// later starts, and nothing is deleted.
func TestLies(t *testing.T) {
	sound := soundFolder(t)
	for _, c := range lies() {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			c.do(t, dir)
			before := contentsOf(t, dir)
			var log bytes.Buffer
			o := damageOptions(dir)
			o.MaxBytes = 1 << 30
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s, err := store.Open(t.Context(), o)
			must(t, err)
			checkFound(t, c, found(t, s, allRounds), allRounds)
			checkLoss(t, c, s, dir, log.String())
			checkKept(t, before, contentsOf(t, dir))
			for _, l := range s.Losses() {
				if l.Lost != "nothing" && !strings.HasPrefix(c.name, "segment/") && !strings.HasPrefix(c.name, "checkpoint/") {
					t.Errorf("the store says that it lost %s, and has all: %+v", l.Lost, l)
				}
			}
			const more = 200
			for i := allRounds; i < allRounds+more; i++ {
				samples := stepSamples(allRounds - 1)
				for k := range samples {
					samples[k].Value = worth(samples[k].Labels[0], i)
				}
				must(t, s.Append(stepTime(i), samples))
			}
			s.EachMinute()
			must(t, s.Close())
			for range 2 {
				s, err := store.Open(t.Context(), o)
				must(t, err)
				checkFound(t, c, found(t, s, allRounds+more), allRounds+more)
				must(t, s.Close())
			}
		})
	}
}

// contentsOf are the contents of the files of a folder, without the blanks that the database removes or adds.
func contentsOf(t testing.TB, dir string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "reserve" || d.Name() == "lock" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, 4<<20)
		n, _ := f.Read(b)
		if b = bytes.TrimRight(b[:n], "\x00"); len(b) > 0 {
			out = append(out, string(b))
		}
		return nil
	}))
	return out
}

// checkKept: each file is there still, anywhere.
func checkKept(t *testing.T, before, after []string) {
	t.Helper()
	for _, b := range before {
		if !slices.Contains(after, b) {
			t.Errorf("a file of %d bytes is gone", len(b))
		}
	}
}

// TestBitsOfTimes: any bit of the times of any block may be wrong: then they are those of the block's samples.
func TestBitsOfTimes(t *testing.T) {
	sound := soundFolder(t)
	rounds := [][2]int{{0, 120}, {120, 360}}
	for which := range rounds {
		for i, field := range []string{"minTime", "maxTime"} {
			was := readFile(t, pick(t, sound, "0*/meta.json", which))
			at := bytes.Index(was, []byte(`"`+field+`": `)) + len(field) + 4
			end := at + bytes.IndexByte(was[at:], ',')
			// Each fifth, others for each field: every bit of a byte, and every byte, in a few seconds.
			for bit := 2*which + i; bit < 8*(end-at); bit += 5 {
				dir := filepath.Join(t.TempDir(), "data")
				must(t, os.CopyFS(dir, os.DirFS(sound)))
				name := pick(t, dir, "0*/meta.json", which)
				b := bytes.Clone(was)
				b[at+bit/8] ^= 1 << (bit % 8)
				must(t, os.WriteFile(name, b, 0o644))
				before := contentsOf(t, dir)
				must(t, store.CheckFolder(damageOptions(dir)))
				var m struct {
					ULID             string
					MinTime, MaxTime int64
				}
				must(t, json.Unmarshal(readFile(t, name), &m))
				first, next := stepTime(rounds[which][0]), stepTime(rounds[which][1])
				if from, to := time.UnixMilli(m.MinTime), time.UnixMilli(m.MaxTime); m.ULID != filepath.Base(filepath.Dir(name)) || from.After(first) || first.Sub(from) >= 2*time.Hour || to.After(next) || !to.After(next.Add(-30*time.Second)) {
					t.Errorf("%s, bit %d: %s: the block is from %s to %s", field, bit, b[at:end], from.UTC(), to.UTC())
				}
				checkKept(t, before, contentsOf(t, dir))
				must(t, os.RemoveAll(dir))
			}
		}
	}
}

// TestDiscard: a block and a log are deleted only if blocks hold all of their samples.
func TestDiscard(t *testing.T) {
	sound := soundFolder(t)
	for name, c := range map[string]struct {
		part string
		by   []int // blocks of a copy of the folder
		kept bool
	}{
		"a block that another one holds":                {"0*/meta.json", []int{0}, false},
		"a block that two hold":                         {"0*/meta.json", []int{1, 0}, false},
		"a block that none holds":                       {"0*/meta.json", nil, true},
		"a block of other times":                        {"0*/meta.json", []int{1}, true},
		"a log that none holds":                         {"wal/0*", []int{0, 1}, true},
		"a log that a block holds":                      {"wal/0*", []int{0, 1, 2}, false},
		"a log that none holds, with what a crash left": {"wal/0*", []int{0, 1}, true},
		"a log with what a crash left":                  {"wal/0*", []int{0, 1, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			must(t, os.CopyFS(other, os.DirFS(sound)))
			must(t, os.WriteFile(filepath.Join(other, "wal", "00000099"), nil, 0o644)) // a hole: what is left becomes a block
			must(t, store.CheckFolder(damageOptions(other)))
			var by []string
			for _, i := range c.by {
				by = append(by, filepath.Dir(pick(t, other, "0*/meta.json", i)))
			}
			part := filepath.Dir(pick(t, dir, c.part, 0))
			if strings.HasSuffix(name, "what a crash left") {
				must(t, os.Mkdir(filepath.Join(part, "chunks_head"), 0o755))
				must(t, os.WriteFile(filepath.Join(part, "chunks_head", "000001"), []byte("earlier"), 0o644))
			}
			before := contentsOf(t, part)
			loss, err := store.Discard(damageOptions(dir), part, by)
			must(t, err)
			if _, err := os.Stat(filepath.Join(dir, "chunks_head")); os.IsNotExist(err) != (filepath.Base(part) == "wal") {
				t.Errorf("the head's chunks must go with the log alone: %v", err)
			}
			if _, err := os.Stat(part); !os.IsNotExist(err) {
				t.Errorf("it is still in its place: %v", err)
			}
			if left := glob(t, dir, "quarantine/.*"); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			if !c.kept {
				if loss != nil {
					t.Errorf("the loss is %+v", loss)
				}
				return
			}
			checkKept(t, before, contentsOf(t, dir))
			if len(loss) != 1 || !strings.Contains(loss[0].Reason, "of its samples") || !strings.HasPrefix(loss[0].Lost, "samples of ") || loss[0].From.IsZero() {
				t.Errorf("the losses are %+v", loss)
			}
		})
	}
}

// TestLeftOfACrash: what the database, or the store, leaves when it is killed between writing the new and deleting the old is
// no damage.
func TestLeftOfACrash(t *testing.T) {
	sound := soundFolder(t)
	copyOf := func(t testing.TB, from, to string) {
		must(t, os.MkdirAll(to, 0o755))
		must(t, os.CopyFS(to, os.DirFS(from)))
	}
	for name, leave := range map[string]func(t testing.TB, dir string){
		"a segment that the checkpoint replaces": func(t testing.TB, dir string) {
			from, _ := checkpoint(t, dir, 0)
			must(t, os.WriteFile(filepath.Join(dir, "wal", from[len(from)-8:]), readFile(t, pick(t, dir, "wal/checkpoint*/0*", 0)), 0o644))
		},
		"an older checkpoint": func(t testing.TB, dir string) {
			from, to := checkpoint(t, dir, -1)
			copyOf(t, from, to)
		},
		"a block that another one replaces": func(t testing.TB, dir string) {
			old := blockOf(t, dir, 0)
			child := "0" + strings.Repeat("0", 24) + "1" // the first by name
			copyOf(t, filepath.Join(dir, old), filepath.Join(dir, child))
			describe(0, func(_ testing.TB, _ string, m map[string]any) {
				m["ulid"], m["compaction"].(map[string]any)["parents"] = child, []map[string]any{{"ulid": old, "minTime": 0, "maxTime": 1}}
			})(t, dir)
		},
		"what is being deleted": func(t testing.TB, dir string) {
			copyOf(t, filepath.Join(dir, "wal"), filepath.Join(dir, "quarantine", ".discarded", "wal"))
		},
		"second names of head chunks": func(t testing.TB, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "quarantine", ".head"), 0o755))
			for _, f := range glob(t, dir, "chunks_head/*") {
				must(t, os.Link(f, filepath.Join(dir, "quarantine", ".head", filepath.Base(f))))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			leave(t, dir)
			s := open(t, damageOptions(dir))
			checkFound(t, damageCase{}, found(t, s, allRounds), allRounds)
			if l := s.Losses(); len(l) != 0 || s.Err() != nil {
				t.Errorf("the losses are %+v, %v", l, s.Err())
			}
			if n, left := len(glob(t, dir, "0*/meta.json")), glob(t, dir, "quarantine/.*"); n != 2 || len(left) > 0 {
				t.Errorf("there are %d blocks, and %v", n, left)
			}
		})
	}
}

// TestHeadChunksOfACrash: the store is killed after the database has deleted head chunks, and before they are in the quarantine.
func TestHeadChunksOfACrash(t *testing.T) {
	sound := soundFolder(t)
	for name, c := range map[string]struct {
		leave func(t testing.TB, dir string)
		kinds []string // of the losses
	}{
		"deleted": {func(testing.TB, string) {}, []string{"head chunks"}},
		"others are in the quarantine": {func(t testing.TB, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "quarantine", "chunks_head"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "quarantine", "chunks_head", "000001"), []byte("earlier"), 0o644))
		}, []string{"part", "head chunks"}},
		"not deleted, and the log is damaged": {func(t testing.TB, dir string) {
			must(t, os.Remove(filepath.Join(dir, "quarantine", ".head", "000001")))
			for _, f := range glob(t, dir, "chunks_head/0*") {
				must(t, os.Link(f, filepath.Join(dir, "quarantine", ".head", filepath.Base(f))))
			}
			must(t, os.WriteFile(filepath.Join(dir, "wal", "00000099"), nil, 0o644))
		}, []string{"log"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			kept := filepath.Join(dir, "quarantine", ".head")
			must(t, os.MkdirAll(kept, 0o755))
			must(t, os.WriteFile(filepath.Join(kept, "000001"), []byte("damaged"), 0o644))
			c.leave(t, dir)
			before := contentsOf(t, dir)
			s := open(t, damageOptions(dir))
			var kinds []string
			for _, l := range s.Losses() {
				kinds = append(kinds, l.Kind)
			}
			if !slices.Equal(kinds, c.kinds) {
				t.Errorf("the losses are %+v, want %v", s.Losses(), c.kinds)
			}
			checkKept(t, before, contentsOf(t, dir))
			checkFound(t, damageCase{}, found(t, s, allRounds), allRounds)
		})
	}
}

// TestLateHeadChunksAndLostEnd: of the head's chunks some in the middle are missing, and of the log the end: the end is said to
// be lost, and nothing else is.
func TestLateHeadChunksAndLostEnd(t *testing.T) {
	dir := soundFolder(t)
	must(t, os.Remove(pick(t, dir, "chunks_head/0*", 0)))
	for range 2 {
		must(t, os.Remove(pick(t, dir, "wal/0*", -1)))
	}
	s := open(t, damageOptions(dir))
	got := found(t, s, allRounds)
	first := allRounds
	for i := range allRounds {
		if !got["a"][i] {
			first = min(first, i)
		}
	}
	if first == allRounds {
		t.Fatal("nothing is missing: the test does not test")
	}
	for i := first; i < allRounds; i++ {
		if !slices.ContainsFunc(s.Losses(), func(l repair.Loss) bool {
			return l.Kind == "log" && l.Lost != "nothing" && !l.From.After(stepTime(i)) && !l.To.Before(stepTime(i))
		}) && !got["a"][i] {
			t.Fatalf("round %d is missing, and the losses are %+v", i, s.Losses())
		}
	}
}

// TestHoleBeforeEmptySegment: each opening begins an empty segment; what is missing before one is said.
func TestHoleBeforeEmptySegment(t *testing.T) {
	sound := soundFolder(t)
	for _, c := range []damageCase{
		{name: "missing", do: func(t testing.TB, dir string) { must(t, os.Remove(pick(t, dir, "wal/0*", 1))) }},
		{name: "flipped", do: func(t testing.TB, dir string) {
			name := pick(t, dir, "wal/0*", 1)
			b := readFile(t, name)
			b[len(b)/50] ^= 0x10
			must(t, os.WriteFile(name, b, 0o644))
		}},
		{name: "a folder", do: func(t testing.TB, dir string) {
			name := pick(t, dir, "wal/0*", 1)
			must(t, os.Remove(name))
			must(t, os.Mkdir(name, 0o755))
		}},
		{name: "the last a folder", do: func(t testing.TB, dir string) {
			all := glob(t, dir, "wal/0*")
			for _, name := range all[slices.Index(all, pick(t, dir, "wal/0*", -1)):] {
				must(t, os.Remove(name))
			}
			must(t, os.Mkdir(pick(t, dir, "wal/0*", -1)[:len(dir)+len("/wal/")]+fmt.Sprintf("%08d", lastNumber(t, dir)+1), 0o755))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(dir, os.DirFS(sound)))
			// Make room for an empty segment after the second one.
			all := segments(t, dir)
			for _, name := range slices.Backward(all[2:]) {
				n, err := strconv.Atoi(filepath.Base(name))
				must(t, err)
				must(t, os.Rename(name, filepath.Join(dir, "wal", fmt.Sprintf("%08d", n+1))))
			}
			must(t, os.WriteFile(all[2], nil, 0o644))
			must(t, os.RemoveAll(filepath.Join(dir, "chunks_head"))) // they have samples of it too
			c.do(t, dir)
			s := open(t, damageOptions(dir))
			got := found(t, s, allRounds)
			first, last := allRounds, -1
			for i := range allRounds {
				if !got["a"][i] {
					first, last = min(first, i), i
				}
			}
			if last < 0 {
				t.Fatal("nothing is missing: the test does not test")
			}
			for _, l := range s.Losses() {
				if l.Kind == "log" && l.Lost != "nothing" && !l.From.After(stepTime(first)) && !l.To.Before(stepTime(last)) {
					return
				}
			}
			t.Errorf("rounds %d to %d are missing, and the losses are %+v", first, last, s.Losses())
		})
	}
}

// lastNumber is that of the log's last segment that is a file.
func lastNumber(t testing.TB, dir string) (n int) {
	all := segments(t, dir)
	n, err := strconv.Atoi(filepath.Base(all[len(all)-1]))
	must(t, err)
	return n
}
