package bpf

// Names for addresses: the variable or function at a place of a mapped file, from its symbol tables. Locks and their
// callers get their names here. elf_symbols.go reads the tables.

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// longestSymbol is how many bytes of a symbol's name are read; names of C++ templates may have thousands.
const longestSymbol = 512

// Symbol is the variable or function at a place of a program. Name is "" where the file has none there.
type Symbol struct {
	Name string
	// Plus is how far into it the place is, Address the place as the file counts addresses.
	Plus, Address uint64
}

// SymbolsAt returns the symbols at distances in bytes from the begin of a mapping, which maps the file from offset on, by
// distance: functions where the mapping is of code, else variables. Variables behind the end of the mapping count, as those that
// begin as zero are not in the file; other memory there has no entry. The file is read once for all. ErrLater: ask again.
func (x *Executable) SymbolsAt(offset uint64, distances []uint64, code bool) (map[uint64]Symbol, error) {
	question := fmt.Sprintf("\x00at %d %d %t", offset, distances, code)
	found := lockInspectionsOf(x.host).readSymbols(x, question, x.host.Now(), func(t *symbolTables, found *inspection) (err error) {
		found.symbols, err = t.symbolsAt(offset, distances, code)
		return err
	})
	if found.err != nil {
		return nil, fmt.Errorf("read symbols: %w", found.err)
	}
	return found.symbols, nil
}

func (t *symbolTables) symbolsAt(offset uint64, distances []uint64, code bool) (map[uint64]Symbol, error) {
	var in, addresses []uint64
	for _, distance := range distances {
		if address, ok := t.addressOf(offset, distance, code); ok {
			in, addresses = append(in, distance), append(addresses, address)
		}
	}
	symbols, err := t.namesAt(addresses, code)
	if err != nil {
		return nil, err
	}
	out := map[uint64]Symbol{}
	for i, distance := range in {
		out[distance] = symbols[i]
	}
	return out, nil
}

// addressOf returns the address that is at a distance from the begin of a mapping from offset on. Mappings begin at whole
// pages, segments need not. false: no segment is mapped there.
func (t *symbolTables) addressOf(offset, distance uint64, code bool) (uint64, bool) {
	const page = 4096
	segments := t.data
	if code {
		segments = t.code
	}
	for _, s := range segments {
		first := s.offset &^ (page - 1)
		if address := s.address - s.offset + offset + distance; offset >= first && offset < s.offset+s.size && address-s.address < max(s.size, s.memory) {
			return address, true
		}
	}
	return 0, false
}

// namesAt returns the symbols at addresses.
func (t *symbolTables) namesAt(addresses []uint64, code bool) ([]Symbol, error) {
	out := make([]Symbol, len(addresses))
	for i, address := range addresses {
		out[i].Address = address
	}
	isNamed := func(s Symbol) bool { return s.Name != "" }
	for _, table := range []*symbolTable{t.static, t.dynamic} {
		if table == nil || !slices.ContainsFunc(out, func(s Symbol) bool { return !isNamed(s) }) {
			continue
		}
		covers, err := t.covering(table.symbols, addresses, code)
		if err != nil {
			return nil, err
		}
		for i, c := range covers {
			if !c.ok || isNamed(out[i]) {
				continue
			}
			if out[i].Name, err = t.nameOf(table.names, c.name); err != nil {
				return nil, err
			}
			if isNamed(out[i]) {
				out[i].Plus = addresses[i] - c.start
			}
		}
	}
	return out, nil
}

// cover is a symbol of a table that an address is in: the place of its name, and where it begins.
type cover struct {
	name  uint32
	start uint64
	ok    bool
}

// covering returns for each address the symbol of a table that begins last before it and ends after it.
func (t *symbolTables) covering(table section, addresses []uint64, code bool) ([]cover, error) {
	const perBlock = symbolBlock / symbolSize
	want := elf.STT_OBJECT
	if code {
		want = elf.STT_FUNC
	}
	le := binary.LittleEndian
	count := table.size / symbolSize
	out := make([]cover, len(addresses))
	for first := uint64(0); first < count; first += perBlock {
		b, err := t.read(table.offset+first*symbolSize, int(min(perBlock, count-first))*symbolSize)
		if err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[symbolSize:] {
			if elf.ST_TYPE(b[4]) != want || elf.SectionIndex(le.Uint16(b[6:])) == elf.SHN_UNDEF {
				continue
			}
			value, size := le.Uint64(b[8:]), max(1, le.Uint64(b[16:]))
			for i, address := range addresses {
				if address >= value && address-value < size && (!out[i].ok || value > out[i].start) {
					out[i] = cover{le.Uint32(b), value, true}
				}
			}
		}
	}
	return out, nil
}

// nameOf returns the name at a place of a table of names, cut to longestSymbol bytes.
func (t *symbolTables) nameOf(table section, at uint32) (string, error) {
	if uint64(at) >= table.size {
		return "", errors.New("bad ELF file: the name of a symbol is not in its table")
	}
	b, err := t.read(table.offset+uint64(at), int(min(longestSymbol, table.size-uint64(at))))
	if err != nil {
		return "", err
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name), nil
}
