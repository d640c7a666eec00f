package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// symbolsOf returns a table of symbols, after the first, which is none.
func symbolsOf(list ...elf.Sym64) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, append([]elf.Sym64{{}}, list...))
	return b.Bytes()
}

// TestSymbolsAt finds variables and functions by their place, also behind the end of the file's part of the data.
func TestSymbolsAt(t *testing.T) {
	const names = "\x00orders_lock\x00serve\x00shards\x00elsewhere\x00"
	at := func(name string) uint32 { return uint32(strings.Index(names, "\x00"+name+"\x00")) + 1 }
	object, function := elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), elf.ST_INFO(elf.STB_LOCAL, elf.STT_FUNC)
	symbols := symbolsOf(
		elf.Sym64{Name: at("orders_lock"), Info: object, Shndx: 1, Value: 0x5010, Size: 40},
		elf.Sym64{Name: at("shards"), Info: object, Shndx: 1, Value: 0x6000, Size: 400},
		elf.Sym64{Name: at("serve"), Info: function, Shndx: 1, Value: 0x1100, Size: 64},
		elf.Sym64{Name: at("elsewhere"), Info: object, Shndx: uint16(elf.SHN_UNDEF), Value: 0x5100, Size: 400},
		elf.Sym64{Name: 1 << 20, Info: object, Shndx: 1, Value: 0x5800, Size: 8},
	)
	const symbolsAt, namesAt = 0x3000, 0x3800
	head := headersOf(elfSection{}, elfSection{kind: elf.SHT_SYMTAB, link: 2, offset: symbolsAt, size: uint64(len(symbols))}, elfSection{kind: elf.SHT_STRTAB, offset: namesAt, size: uint64(len(names))})
	// The only segment maps address 0x1000 from offset 0x400 on; for this test it is of code and data.
	binary.LittleEndian.PutUint32(head[64+4:], uint32(elf.PF_R|elf.PF_W|elf.PF_X))
	binary.LittleEndian.PutUint64(head[64+40:], 0x6000) // in memory it ends at 0x7000
	x, reads := openELF(t, host.Local(), t.TempDir()+"/shop", 0x4000, map[int64][]byte{0: head, symbolsAt: symbols, namesAt: []byte(names)})
	for name, c := range map[string]struct {
		offset, distance uint64
		code             bool
		want             Symbol
		none             bool
	}{
		// A mapping of the page at offset 0 begins at address 0xc00.
		"a variable":            {0, 0x5010 - 0xc00, false, Symbol{"orders_lock", 0, 0x5010}, false},
		"inside a variable":     {0, 0x6028 - 0xc00, false, Symbol{"shards", 0x28, 0x6028}, false},
		"behind a variable":     {0, 0x6190 - 0xc00, false, Symbol{"", 0, 0x6190}, false},
		"a function":            {0, 0x1120 - 0xc00, true, Symbol{"serve", 0x20, 0x1120}, false},
		"no function":           {0, 0x5010 - 0xc00, true, Symbol{"", 0, 0x5010}, false},
		"a variable of another": {0, 0x5104 - 0xc00, false, Symbol{"", 0, 0x5104}, false},
		"behind the variables":  {0, 0x7000 - 0xc00, false, Symbol{}, true},
		"a mapping of nothing":  {0x100000, 0, false, Symbol{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := x.SymbolsAt(c.offset, []uint64{c.distance}, c.code)
			if got, ok := all[c.distance]; got != c.want || ok == c.none || err != nil {
				t.Errorf("%s: %+v, %t, %v; want %+v", name, got, ok, err, c.want)
			}
		})
	}
	before := reads.reads
	if all, err := x.SymbolsAt(0, []uint64{0x1100 - 0xc00, 0x1120 - 0xc00, 0x5010 - 0xc00, 0x7000 - 0xc00}, true); err != nil || len(all) != 3 || all[0x1120-0xc00].Plus != 0x20 {
		t.Errorf("several at once: %+v, %v", all, err)
	}
	several := reads.reads - before
	if _, err := x.SymbolsAt(0, []uint64{0x1108 - 0xc00, 0x1118 - 0xc00}, true); err != nil || reads.reads-before-several != several {
		t.Errorf("%d reads for four addresses, %d for two; want as many (%v)", several, reads.reads-before-several, err)
	}
	if _, err := x.SymbolsAt(0, []uint64{0x5800 - 0xc00}, false); err == nil {
		t.Error("a name outside of the table: no error")
	}
}

// TestLockBudget: the names of locks use up nothing of what other questions may read, and a file with too many symbols is
// refused for good.
func TestLockBudget(t *testing.T) {
	h := host.Local()
	h.Now = func() time.Time { return time.Unix(1e9, 0) }
	dir := t.TempDir()
	ask := func(name string, table int64) (*Executable, error) {
		head := headersOf(elfSection{}, elfSection{elf.SHT_SYMTAB, 2, 4096, uint64(table)}, elfSection{elf.SHT_STRTAB, 0, uint64(4096 + table), 4096})
		binary.LittleEndian.PutUint32(head[64+4:], uint32(elf.PF_R|elf.PF_X))
		x, _ := openELF(t, h, filepath.Join(dir, name), 8192+table, map[int64][]byte{0: head})
		_, err := x.SymbolsAt(0, []uint64{0x500}, true)
		return x, err
	}
	if _, err := ask("large", mostSection); err == nil || errors.Is(err, ErrLater) {
		t.Errorf("a table of %d bytes: %v", int64(mostSection), err)
	}
	var x *Executable
	var err error
	for i := 0; err == nil && i < lockBytes/(8<<20); i++ {
		x, err = ask(string(rune('a'+i)), 8<<20)
	}
	if !errors.Is(err, ErrLater) {
		t.Fatalf("more than %d bytes are read for locks: %v", lockBytes, err)
	}
	if _, _, err := x.Functions([]string{HandshakeFunction}); errors.Is(err, ErrLater) {
		t.Errorf("others wait for the names of locks: %v", err)
	}
}
