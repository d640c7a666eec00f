package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
)

// longestSymbol is how many bytes of a symbol's name are read; names of C++ templates may have thousands.
const longestSymbol = 512

// Symbol is the variable or function at a place of a program. Name is "" where the file has none there.
type Symbol struct {
	Name string
	// Plus is how far into it the place is, Address the place as the file counts addresses.
	Plus, Address uint64
}

// SymbolAt returns the symbol at a distance in bytes from the begin of a mapping, which maps the file from offset on: a
// function where the mapping is of code, else a variable. Variables behind the end of the mapping count, as those that begin
// as zero are not in the file; other memory there is fs.ErrNotExist. ErrLater: ask again.
func (x *Executable) SymbolAt(offset, distance uint64, code bool) (Symbol, error) {
	question := fmt.Sprintf("\x00at %d %d %t", offset, distance, code)
	found := inspectionsOf(x.host).look(x, question, x.host.Now(), func(t *symbolTables, found *inspection) error {
		address, err := t.addressOf(offset, distance, code)
		if err == nil {
			found.symbol, err = t.nameAt(address, code)
		}
		return err
	})
	if found.err != nil {
		return Symbol{}, fmt.Errorf("read symbols: %w", found.err)
	}
	return found.symbol, nil
}

// addressOf returns the address that is at a distance from the begin of a mapping from offset on. Mappings begin at whole
// pages, segments need not.
func (t *symbolTables) addressOf(offset, distance uint64, code bool) (uint64, error) {
	const page = 4096
	segments := t.data
	if code {
		segments = t.code
	}
	for _, s := range segments {
		first := s.offset &^ (page - 1)
		if address := s.address - s.offset + offset + distance; offset >= first && offset < s.offset+s.size && address-s.address < max(s.size, s.memory) {
			return address, nil
		}
	}
	return 0, fmt.Errorf("no segment of the file is mapped %d bytes after %#x: %w", distance, offset, fs.ErrNotExist)
}

// nameAt returns the symbol at an address.
func (t *symbolTables) nameAt(address uint64, code bool) (Symbol, error) {
	s := Symbol{Address: address}
	for _, table := range []*symbolTable{t.static, t.dynamic} {
		if table == nil {
			continue
		}
		name, start, ok, err := t.covering(table.symbols, address, code)
		if err != nil {
			return s, err
		}
		if !ok {
			continue
		}
		if s.Name, err = t.nameOf(table.names, name); err != nil || s.Name != "" {
			s.Plus = address - start
			return s, err
		}
	}
	return s, nil
}

// covering returns the place of the name, and the address, of the symbol of a table that begins last before an address and
// ends after it.
func (t *symbolTables) covering(table section, address uint64, code bool) (name uint32, start uint64, ok bool, err error) {
	const perBlock = symbolBlock / symbolSize
	want := elf.STT_OBJECT
	if code {
		want = elf.STT_FUNC
	}
	le := binary.LittleEndian
	count := table.size / symbolSize
	for first := uint64(0); first < count; first += perBlock {
		b, err := t.read(table.offset+first*symbolSize, int(min(perBlock, count-first))*symbolSize)
		if err != nil {
			return 0, 0, false, err
		}
		for ; len(b) > 0; b = b[symbolSize:] {
			if elf.ST_TYPE(b[4]) != want || elf.SectionIndex(le.Uint16(b[6:])) == elf.SHN_UNDEF {
				continue
			}
			value, size := le.Uint64(b[8:]), max(1, le.Uint64(b[16:]))
			if address >= value && address-value < size && (!ok || value > start) {
				name, start, ok = le.Uint32(b), value, true
			}
		}
	}
	return name, start, ok, nil
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
