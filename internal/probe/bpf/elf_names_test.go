package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// symbolsOf returns a table of symbols, after the first, which is none.
func symbolsOf(list ...elf.Sym64) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, append([]elf.Sym64{{}}, list...))
	return b.Bytes()
}

// TestSymbolAt finds variables and functions by their place, also behind the end of the file's part of the data.
func TestSymbolAt(t *testing.T) {
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
	x, _ := openELF(t, local, t.TempDir()+"/shop", 0x4000, map[int64][]byte{0: head, symbolsAt: symbols, namesAt: []byte(names)})
	for name, c := range map[string]struct {
		offset, distance uint64
		code             bool
		want             Symbol
		err              error
	}{
		// A mapping of the page at offset 0 begins at address 0xc00.
		"a variable":            {0, 0x5010 - 0xc00, false, Symbol{"orders_lock", 0, 0x5010}, nil},
		"inside a variable":     {0, 0x6028 - 0xc00, false, Symbol{"shards", 0x28, 0x6028}, nil},
		"behind a variable":     {0, 0x6190 - 0xc00, false, Symbol{"", 0, 0x6190}, nil},
		"a function":            {0, 0x1120 - 0xc00, true, Symbol{"serve", 0x20, 0x1120}, nil},
		"no function":           {0, 0x5010 - 0xc00, true, Symbol{"", 0, 0x5010}, nil},
		"a variable of another": {0, 0x5104 - 0xc00, false, Symbol{"", 0, 0x5104}, nil},
		"behind the variables":  {0, 0x7000 - 0xc00, false, Symbol{}, fs.ErrNotExist},
		"a mapping of nothing":  {0x100000, 0, false, Symbol{}, fs.ErrNotExist},
	} {
		got, err := x.SymbolAt(c.offset, c.distance, c.code)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
	if _, err := x.SymbolAt(0, 0x5800-0xc00, false); err == nil {
		t.Error("a name outside of the table: no error")
	}
}
