package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// countingReader counts what is read of a file.
type countingReader struct {
	io.ReaderAt
	largest, total, reads int
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	c.largest, c.total, c.reads = max(c.largest, len(b)), c.total+len(b), c.reads+1
	return c.ReaderAt.ReadAt(b, at)
}

// elfSection is a section of a file made for a test.
type elfSection struct {
	kind         elf.SectionType
	link         uint32
	offset, size uint64
}

// headersOf returns the headers of a program with one segment of code, which maps address 0x1000 from offset 0x400 on, and
// with these sections.
func headersOf(sections ...elfSection) []byte {
	var b bytes.Buffer
	le := binary.LittleEndian
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: 64 + 56, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections))}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	_ = binary.Write(&b, le, h)
	_ = binary.Write(&b, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X | elf.PF_R), Off: 0x400, Vaddr: 0x1000, Filesz: 0x1000, Memsz: 0x1000})
	for _, s := range sections {
		_ = binary.Write(&b, le, elf.Section64{Type: uint32(s.kind), Link: s.link, Off: s.offset, Size: s.size, Entsize: 24})
	}
	return b.Bytes()
}

// openELF writes a file of a size, which may have holes, and opens it with a counter.
func openELF(t *testing.T, h *host.Host, name string, size int64, parts map[int64][]byte) (*Executable, *countingReader) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at, b := range parts {
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	x, err := OpenExecutable(h, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	c := &countingReader{ReaderAt: x.content}
	x.content = c
	return x, c
}

// allocated is how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeSymbolTables: a file of 8 KiB on disk claims tables of 64 MiB, as large as are read. They are read in blocks, and
// once. A larger claim is refused by its header.
func TestLargeSymbolTables(t *testing.T) {
	const table = mostSection
	for _, c := range []struct {
		name string
		size uint64
		want string // the error
		most int    // bytes read
	}{
		{"libssl.so.3", table, "", 2*table + 4<<20},
		{"libssl.so.4", table + 24, "more than the", 4096},
		{"libssl.so.5", 1 << 60, "more than the", 4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, read := openELF(t, host.Local(), filepath.Join(t.TempDir(), c.name), 4096+2*table, map[int64][]byte{
				0: headersOf(elfSection{}, elfSection{elf.SHT_SYMTAB, 2, 4096, c.size}, elfSection{elf.SHT_STRTAB, 0, 4096 + table, min(c.size, table)}),
			})
			var offsets map[string]uint64
			var err error
			if n := allocated(func() { offsets, _, err = x.Functions([]string{HandshakeFunction}) }); n > 4<<20 {
				t.Errorf("%s: %d bytes were allocated", c.name, n)
			}
			if len(offsets) != 0 || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, %v", c.name, offsets, err)
			}
			if read.largest > symbolBlock || read.total > c.most || read.total == 0 {
				t.Errorf("%s: %d bytes in %d reads, the largest of %d", c.name, read.total, read.reads, read.largest)
			}
			before := read.reads
			if _, _, again := x.Functions([]string{HandshakeFunction}); read.reads != before || (again == nil) != (err == nil) {
				t.Errorf("%s is read again (%v)", c.name, again)
			}
		})
	}
}

// TestInspectionsHaveABudget: what many large files cost in a minute is bounded; the next minute goes on.
func TestInspectionsHaveABudget(t *testing.T) {
	h := host.Local()
	now := time.Unix(1e9, 0)
	h.Now = func() time.Time { return now }
	const table = mostSection
	dir := t.TempDir()
	inspect := func(name string) (int, error) {
		x, read := openELF(t, h, filepath.Join(dir, name), 4096+2*table, map[int64][]byte{
			0: headersOf(elfSection{}, elfSection{elf.SHT_SYMTAB, 2, 4096, table}, elfSection{elf.SHT_STRTAB, 0, 4096 + table, table}),
			// The name, so the symbols are read as well.
			4096 + table: []byte("\x00" + HandshakeFunction + "\x00"),
		})
		_, _, err := x.Functions([]string{HandshakeFunction})
		return read.total, err
	}
	total := 0
	var last error
	for _, name := range []string{"a", "b", "c", "d"} {
		n, err := inspect(name)
		total += n
		last = err
	}
	if total > inspectedBytes || !errors.Is(last, ErrLater) {
		t.Errorf("%d bytes were read in a minute, want at most %d (%v)", total, inspectedBytes, last)
	}
	now = now.Add(inspectedPeriod)
	if _, err := inspect("d"); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// TestFunctionsAsDebugELF: real files give the offsets that debug/elf gives.
func TestFunctionsAsDebugELF(t *testing.T) {
	files, err := filepath.Glob("/usr/lib/*/libssl.so.3")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{exe: {"runtime.main", "main.main", "runtime.mstart", "no.such"}}
	for _, f := range files {
		names[f] = []string{HandshakeFunction, "SSL_read", "SSL_write", "SSL_no_such"}
	}
	for file, want := range names {
		t.Run(file, func(t *testing.T) {
			x, err := OpenExecutable(local, file, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, stripped, err := x.Functions(want)
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			dynamic, _ := f.DynamicSymbols()
			static, serr := f.Symbols()
			offsets := map[string]uint64{}
			for _, s := range append(dynamic, static...) {
				for _, p := range f.Progs {
					if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && s.Section != elf.SHN_UNDEF && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
						offsets[s.Name] = s.Value - p.Vaddr + p.Off
					}
				}
			}
			for _, name := range want {
				at, ok := got[name]
				if expected, has := offsets[name]; ok != has || at != expected {
					t.Errorf("%s: %s is at %#x, %v; want %#x, %v", file, name, at, ok, expected, has)
				}
			}
			if stripped != (serr != nil) {
				t.Errorf("%s: stripped %v, debug/elf says %v", file, stripped, serr)
			}
			if len(got) == 0 && file != exe { // go test strips its programs
				t.Errorf("%s: none of %v", file, want)
			}
			_, _ = f.Close(), x.Close()
		})
	}
}

// TestNamesAcrossBlocks: a name is found wherever a block ends, also as the end of another name; a table that repeats it without
// end is refused.
func TestNamesAcrossBlocks(t *testing.T) {
	const name = "sgx_ecall"
	symbol := func(at uint32, value uint64) []byte {
		b := make([]byte, symbolSize)
		binary.LittleEndian.PutUint32(b, at)
		b[4] = byte(elf.STT_FUNC)
		binary.LittleEndian.PutUint16(b[6:], 1)
		binary.LittleEndian.PutUint64(b[8:], value)
		return b
	}
	for at := symbolBlock - len(name) - 3; at < symbolBlock+3; at++ {
		kind := []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB}[at%2]
		names := make([]byte, 3*symbolBlock)
		copy(names[at-2:], "x_"+name)
		x, _ := openELF(t, host.Local(), filepath.Join(t.TempDir(), "f"), int64(8192+len(names)), map[int64][]byte{
			0:    headersOf(elfSection{}, elfSection{kind, 2, 4096, 3 * symbolSize}, elfSection{elf.SHT_STRTAB, 0, 8192, uint64(len(names))}),
			4096: append(make([]byte, symbolSize), append(symbol(uint32(at-2), 0x1100), symbol(uint32(at), 0x1200)...)...),
			8192: names,
		})
		got, stripped, err := x.Functions([]string{name, "sgx_ocall"})
		if err != nil || len(got) != 1 || got[name] != 0x600 || stripped != (kind == elf.SHT_DYNSYM) {
			t.Errorf("a name at %d: %v, %v, %v", at, got, stripped, err)
		}
	}
	many := bytes.Repeat([]byte(name+"\x00"), 10_000)
	x, _ := openELF(t, host.Local(), filepath.Join(t.TempDir(), "f"), int64(8192+len(many)), map[int64][]byte{
		0:    headersOf(elfSection{}, elfSection{elf.SHT_DYNSYM, 2, 4096, 2 * symbolSize}, elfSection{elf.SHT_STRTAB, 0, 8192, uint64(len(many))}),
		8192: many,
	})
	if _, _, err := x.Functions([]string{name}); err == nil || !strings.Contains(err.Error(), "more than 64 times") {
		t.Errorf("a name 10,000 times: %v", err)
	}
}

// TestInspectionsAreRemembered: at most so many files are, whatever processes map.
func TestInspectionsAreRemembered(t *testing.T) {
	s := newInspections()
	x, _ := openELF(t, host.Local(), filepath.Join(t.TempDir(), "f"), 100, nil)
	for i := range 3 * mostInspected {
		x.stat.Ino = uint64(i)
		if found := s.inspect(x, nil, time.Unix(1e9, 0)); found.err == nil {
			t.Fatal("a file of zeros has symbols")
		}
	}
	if len(s.known) != mostInspected {
		t.Errorf("%d files are remembered", len(s.known))
	}
}
