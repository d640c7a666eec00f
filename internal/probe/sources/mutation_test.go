package sources

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/probe"
)

// TestMutations damages the files of every fixture mechanically, and reads the source. There must be no panic, no series
// twice and no value outside its range. Values of other lines and, where a number is damaged, those that do not come from it
// stay as they are. Where a value is missing, the reading says so.
func TestMutations(t *testing.T) {
	for _, path := range fixtures(t) {
		if s := sourceOf(path); s != nil {
			t.Run(label(path), func(t *testing.T) {
				t.Parallel()
				f := hosttest.Open(t, path)
				m := &mutant{source: s, fixture: f}
				m.whole, m.reason = m.read(t, "the fixture")
				same := map[string]int{}
				for _, file := range f.Files {
					if same[filepath.Base(file)]++; same[filepath.Base(file)] > filesOfName {
						continue
					}
					switch {
					case strings.HasSuffix(file, ".hangs"), strings.Contains(file, "/fd/"): // it says nothing, or only its size counts
					case isBinary(file):
						m.cells(t, file)
					case isSocket(file):
						// An answer that is cut off is waited for, so this is in virtual time.
						synctest.Test(t, func(t *testing.T) { m.file(t, file) })
					default:
						m.file(t, file)
						m.documents(t, file)
					}
				}
				m.names(t)
				m.layers(t)
			})
		}
	}
}

// isBinary: it is a BPF map, or a file that a process has open, of KVM's statistics.
func isBinary(file string) bool {
	return strings.HasPrefix(file, "bpf/") || strings.HasPrefix(file, "fd/")
}

// isSocket: it is what the other side of a QMP socket says.
func isSocket(file string) bool {
	return strings.HasSuffix(file, ".qmp")
}

// allowed are damages that cannot be noticed, or change more than their line, by a part of the path and by what is
// damaged ("" for any).
var allowed = []struct{ file, damage, because string }{
	{"exec/", "empty", "an element that is not there is no answer of the driver"},
	{"exec/", "gone", "an element that is not there is no answer of the driver"}, {"exec/", "torn", "the driver's XML is read as far as it goes"},
	{"exec/nvidia-smi/conf-compute", "", "words"},
	{"/comm", "", "a name"}, {"/cmdline", "", "words"}, {"/name", "", "a name"}, {"proc/sys/kernel/", "", "words"},
	{"clocksource0/", "", "words"}, {"cgroup.controllers", "", "words"}, {"version", "", "words"}, {"parameters/tdx", "", "a word"},
	{"patch_metrics", "", "it says whether others count"},
	{"proc/50/cgroup", "line 1", "the path is a name"}, {"proc/51/cgroup", "line 1", "the path is a name"},
	{"cgroup.procs", "", "any number may be a process, and any line less"},
	{"cpu/online", "", "a list"}, {"ne_cpus", "", "a list"},
	{"/maps", "", "an enclave is several lines; without one of them nothing is known"},
	{"sgx_enclaves", "cell 1: empty", "forks append columns"}, {"sgx_enclaves", "cell 1:", "which process it is"},
	{"interrupts", "cell 1:", "a name, though most are numbers"}, {"interrupts", "gone", "the text is part of the name"}, {"interrupts", "torn", "the text is part of the name"},
	{"gramine/", "line 1", "the log is the application's too"}, {"gramine/", "10,000", "the log is the application's too"}, {"gramine/", "empty", "the log is the application's too"}, {"gramine/", "torn", "the log is the application's too"},
	{"sgx_total_bytes", "torn", "any number may be the size"}, {"nr_hugepages", "torn", "any number may be the size"},
	{"query/facilities", "a cell more", "each word is a mask of calls, however many there are"},
	{"free_hugepages", "", "those in use are all others"},
	{"proc/1/mountinfo", "line 7", "a mount over another: with a name of its own it shows itself, left out it shows the other"},
	{"proc/7/stat", "cell 2", "which process it is"}, {"proc/21/stat", "cell 22", "which process it is"}, {"proc/30/stat", "cell 22", "which process it is"},
	{"proc/9/stat", "cell 10:", "which process it is"}, {"proc/9/stat", "cell 23:", "which process it is"},
	{"proc/4343/stat", "cell 5", "the command may hold anything"},
	{"interrupts", "empty", "the text is part of the name"},
	{"diskstats", "cell 3: two names", "of two devices of one number, the last counts"}, {"mountinfo", "cell 5: two names", "of two mounts on one path, the last counts"},
}

func isAllowed(file, damage string) bool {
	for _, a := range allowed {
		if strings.Contains(file, a.file) && strings.Contains(damage, a.damage) {
			return true
		}
	}
	return false
}

const (
	// separators end a cell in some of the files, jsonSeparators in answers of QMP.
	separators, jsonSeparators = " \t:=<>\"", " \t:\"{}[],"
	// mutationsOfFile are made of one file, filesOfName are damaged of the files of one name in a fixture, and namesOfFile
	// lines and cells become names.
	mutationsOfFile, filesOfName, namesOfFile = 60, 2, 5
)

// mutant is a source on a fixture.
type mutant struct {
	source  *probe.Source
	fixture *hosttest.Fixture
	whole   readings // of the undamaged fixture
	reason  error
}

// readings are samples in text form by series.
type readings map[string]string

// read reads the source once. A panic fails the test, also one that somebody contained.
func (m *mutant) read(t *testing.T, what string) (readings, error) {
	t.Helper()
	samples, err := readOnce(t, m.source, m.fixture)
	if p := new(contain.Panic); errors.As(err, &p) {
		t.Errorf("%s: %v", what, err)
	}
	out := readings{}
	for _, s := range samples {
		key := fmt.Sprintf("%s%q", s.Desc.Name, s.Labels)
		if _, twice := out[key]; twice {
			t.Errorf("%s: %s occurs twice", what, key)
		}
		if s.Desc == probe.Coverage || s.Desc == probe.Missed || s.Desc == probe.Folded {
			s.Labels = []string{m.source.Name}
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		out[key] = fmt.Sprint(s.Value)
		if s.Hist != nil {
			out[key] = fmt.Sprint(*s.Hist)
		}
	}
	return out, err
}

// with is read with other contents of a file.
func (m *mutant) with(t *testing.T, file, what string, data []byte) (v readings, err error) {
	t.Helper()
	m.fixture.ReplaceDuring(t, file, data, func() { v, err = m.read(t, file+": "+what) })
	return v, err
}

// gone are the series of the undamaged fixture that are missing or different.
func (m *mutant) gone(v readings) map[string]bool {
	out := map[string]bool{}
	for key, was := range m.whole {
		if now, ok := v[key]; !ok || now != was {
			out[key] = true
		}
	}
	return out
}

// file makes every damage to a file, or an even selection of them.
func (m *mutant) file(t *testing.T, file string) {
	data, separators, most := m.fixture.Text(t, file), separators, mutationsOfFile
	if isSocket(file) { // all, since few of its cells are numbers
		separators, most = jsonSeparators, math.MaxInt32
	}
	total := 0
	for range mutate.Lines(data, separators) {
		total++
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	ofLine, ofCell, renames := map[int]map[string]bool{}, map[[2]int]map[string]bool{}, map[[2]int]bool{}
	i := -1
	for d := range mutate.Lines(data, separators) {
		if i++; total > most && i*most/total == (i-1)*most/total {
			continue
		}
		var line, cell int
		if n, _ := fmt.Sscanf(d.Name, "line %d, cell %d", &line, &cell); n == 1 {
			cell = 0
		}
		got, err := m.with(t, file, d.Name, d.Data)
		gone := m.gone(got)
		if ofLine[line] == nil {
			without, _ := m.with(t, file, fmt.Sprintf("without line %d", line), slices.Concat(bytes.Join(lines[:line-1], nil), bytes.Join(lines[line:], nil)))
			ofLine[line] = m.gone(without)
		}
		may, why := ofLine[line], "they do not come from this line"
		number := false
		if cell > 0 {
			var more []byte
			if more, number = increased(lines, line-1, cell, separators); number && !strings.HasSuffix(d.Name, "empty") {
				key := [2]int{line, cell}
				if ofCell[key] == nil {
					other, _ := m.with(t, file, fmt.Sprintf("line %d, cell %d: one more", line, cell), more)
					ofCell[key] = m.gone(other)
					for series := range ofCell[key] {
						if _, there := other[series]; !there {
							renames[key] = true
						}
					}
				}
				may, why = ofCell[key], "they do not come from this number"
				number = !renames[key] // else it is a name
			}
		}
		if isAllowed(file, d.Name) {
			continue
		}
		if !strings.HasPrefix(file, "exec/") && !isSocket(file) { // else it is not by line
			for key := range gone {
				if !may[key] {
					t.Errorf("%s: %s: %s (and others) changed: %s; error %v", file, d.Name, key, why, err)
					break
				}
			}
		}
		if err == nil && (number || strings.HasSuffix(d.Name, "torn") || strings.HasSuffix(d.Name, "gone") || strings.HasSuffix(d.Name, ": empty") && cell == 0) {
			for key := range gone {
				if _, there := got[key]; !there {
					t.Errorf("%s: %s: %s (and others) is missing without a reason", file, d.Name, key)
					break
				}
			}
		}
	}
}

// documents reads a file with a byte order mark, and doubled. What a tool prints says the same in both forms; files of the
// kernel have neither, so for them it is enough that no series occurs twice and no value leaves its range.
func (m *mutant) documents(t *testing.T, file string) {
	for d := range mutate.Documents(m.fixture.Text(t, file)) {
		got, err := m.with(t, file, d.Name, d.Data)
		if !strings.HasPrefix(file, "exec/") || isAllowed(file, d.Name) {
			continue
		}
		if !maps.Equal(got, m.whole) || (err == nil) != (m.reason == nil) {
			t.Errorf("%s: %s: %d series and error %v, want the same %d and %v", file, d.Name, len(got), err, len(m.whole), m.reason)
		}
	}
}

// layers doubles the layer above: on each block device that stands on others comes a second one with the same numbers, and
// one more on top of it. The disks that sums count stay the same.
func (m *mutant) layers(t *testing.T) {
	const file = "proc/diskstats"
	if m.source.Name != "disk" || !slices.Contains(m.fixture.Files, file) {
		return
	}
	stats := m.fixture.Text(t, file)
	class := filepath.Join(m.fixture.Host.Root, "sys/class/block")
	stacked, _ := filepath.Glob(filepath.Join(class, "*/slaves/*"))
	for _, link := range stacked {
		upper := filepath.Base(filepath.Dir(filepath.Dir(link)))
		more := slices.Clone(stats)
		for below, i := upper, 0; i < 2; i++ {
			above := fmt.Sprintf("layer%d", i)
			slaves := filepath.Join(class, above, "slaves")
			if err := os.MkdirAll(slaves, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../../"+below, filepath.Join(slaves, below)); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(stats)) {
				if f := strings.Fields(line); len(f) > 3 && f[2] == upper {
					more = fmt.Appendf(more, "%s %d %s %s\n", f[0], 900+i, above, strings.Join(f[3:], " "))
				}
			}
			below = above
		}
		got, err := m.with(t, file, "two layers on "+upper, more)
		if (err == nil) != (m.reason == nil) {
			t.Errorf("two layers on %s: error %v, want %v", upper, err, m.reason)
		}
		for i := range 2 {
			if key := fmt.Sprintf(`tee_disk_counted["layer%d"]`, i); got[key] != "0" {
				t.Errorf("two layers on %s: %s is %q, want 0: its bytes are those of %s", upper, key, got[key], upper)
			}
		}
		for key := range m.gone(got) {
			t.Errorf("two layers on %s: %s was %s, is %q", upper, key, m.whole[key], got[key])
		}
		for i := range 2 {
			if err := os.RemoveAll(filepath.Join(class, fmt.Sprintf("layer%d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cells makes every damage to a file that is no text, or an even selection of them.
func (m *mutant) cells(t *testing.T, file string) {
	data, size, encode := m.fixture.Text(t, file), 8, func(b []byte) []byte { return b }
	if strings.HasPrefix(file, "fd/") {
		var err error
		if data, err = hex.DecodeString(strings.Join(strings.Fields(string(data)), "")); err != nil {
			t.Fatal(err)
		}
		size, encode = 4, func(b []byte) []byte { return []byte(hex.EncodeToString(b)) }
	}
	total := 0
	for range mutate.Cells(data, size) {
		total++
	}
	i := -1
	for d := range mutate.Cells(data, size) {
		if i++; total > mutationsOfFile && i*mutationsOfFile/total == (i-1)*mutationsOfFile/total {
			continue
		}
		_, _ = m.with(t, file, d.Name, encode(d.Data)) // any number may be a count, and none may be nothing
	}
}

// increased returns the file with a number more by one, and whether the cell is a number.
func increased(lines [][]byte, line, cell int, separators string) ([]byte, bool) {
	text := string(lines[line])
	begin, end := cellOf(text, cell, separators)
	v, err := strconv.ParseUint(text[begin:end], 10, 62)
	if err != nil {
		return nil, false
	}
	text = text[:begin] + strconv.FormatUint(v+1, 10) + text[end:]
	return slices.Concat(bytes.Join(lines[:line], nil), []byte(text), bytes.Join(lines[line+1:], nil)), true
}

// cellOf returns where a cell of a line is, counted from 1; an empty one where there is none.
func cellOf(line string, cell int, separators string) (begin, end int) {
	line = strings.TrimSuffix(line, "\n")
	for range cell {
		begin = end + len(line[end:]) - len(strings.TrimLeft(line[end:], separators))
		if end = strings.IndexAny(line[begin:], separators) + begin; end < begin {
			end = len(line)
		}
	}
	return begin, end
}

// names puts beside each folder, and beside each line, two others whose names differ in one byte that is no text: where
// one has series, the other has as many.
func (m *mutant) names(t *testing.T) {
	check := func(what string, got readings) {
		t.Helper()
		var n [2]int
		for key := range got {
			for i, name := range []string{`cass\\xe8`, `cass\\xe9`} {
				// A network that several containers share is shown once.
				if _, old := m.whole[key]; !old && strings.Contains(key, name) && !strings.HasPrefix(key, "container_network_") {
					n[i]++
				}
			}
		}
		if n[0] != n[1] {
			t.Errorf("%s: %d series of the one and %d of the other", what, n[0], n[1])
		}
	}
	dirs, same := map[string]bool{}, map[string]int{}
	for _, file := range m.fixture.Files {
		if strings.HasPrefix(file, "exec/") || isBinary(file) || isSocket(file) || strings.Contains(file, "/fd/") {
			continue
		}
		if same[filepath.Base(file)]++; same[filepath.Base(file)] <= filesOfName {
			lines := bytes.SplitAfter(m.fixture.Text(t, file), []byte("\n"))
			for i, line := range lines[:min(len(lines), namesOfFile)] {
				for cell := 1; cell <= namesOfFile; cell++ {
					begin, end := cellOf(string(line), cell, separators)
					what := fmt.Sprintf("line %d, cell %d: two names", i+1, cell)
					if begin == end || strings.Trim(string(line[begin:end]), "0123456789") == "" || isAllowed(file, what) {
						continue
					}
					var two []byte
					for _, name := range mutate.Names {
						two = slices.Concat(two, line[:begin], []byte(name), line[end:])
					}
					got, _ := m.with(t, file, what, slices.Concat(bytes.Join(lines[:i], nil), two, bytes.Join(lines[i+1:], nil)))
					check(file+": "+what, got)
				}
			}
		}
		for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		root := filepath.Join(m.fixture.Host.Root, dir)
		beside := func(name string) string { return filepath.Join(filepath.Dir(root), name) }
		for _, name := range mutate.Names {
			if err := os.CopyFS(beside(name), withoutLinks{os.DirFS(root)}); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := m.read(t, "beside "+dir)
		check("folders beside "+dir, got)
		for _, name := range mutate.Names {
			if err := os.RemoveAll(beside(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// withoutLinks hides symbolic links, of which some lead out of the folder.
type withoutLinks struct{ fs.FS }

func (w withoutLinks) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Type()&fs.ModeSymlink != 0 }), err
}
