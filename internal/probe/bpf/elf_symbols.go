package bpf

// Reads the symbol tables of an ELF file, which any user may have made: all sizes are bounded, and bytes that were read
// count against a budget (inspections.go).

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of a file whose symbols are read: any process can map one of any form. Real ones have some ten segments, some forty
// sections, and each name once or twice in a table of names.
const (
	mostSegments    = 512
	mostSections    = 1 << 15
	mostSection     = 64 << 20 // bytes of a table of symbols or of names
	mostOccurrences = 64
	symbolBlock     = 64 << 10 // bytes that are in memory at once
)

// Sizes of the entries of 64-bit files (System V ABI, gABI chapters 4 and 5).
const (
	elfHeaderSize  = 64
	segmentSize    = 56
	sectionSize    = 64
	symbolSize     = 24
	extendedNumber = 0xffff // PN_XNUM
)

// symbolTables reads the symbols of a 64-bit little-endian ELF file in blocks. debug/elf reads whole tables, and as many
// section headers as a file claims to have.
type symbolTables struct {
	file    io.ReaderAt
	size    int64
	block   []byte          // symbolBlock bytes, the only buffer
	spend   func(int) error // is asked before each read
	machine elf.Machine
	code    []segment
	data    []segment // what is mapped to be written
	// dynamic and static are .dynsym and .symtab; nil without one.
	dynamic, static *symbolTable
}

// segment is a part of the file that is mapped.
// memory is how many bytes it has there: variables that begin as zero are not in the file.
type segment struct{ address, offset, size, memory uint64 }

// symbolTable is a section with symbols and the one with their names.
type symbolTable struct{ symbols, names section }

type section struct {
	kind           elf.SectionType
	link           uint32
	offset, size   uint64
	bytesPerSymbol uint64
}

// openSymbolTables reads the headers.
func openSymbolTables(file io.ReaderAt, size int64, block []byte, spend func(int) error) (*symbolTables, error) {
	t := &symbolTables{file: file, size: size, block: block, spend: spend}
	h, err := t.read(0, elfHeaderSize)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(h, []byte(elf.ELFMAG)) || elf.Class(h[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(h[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, errors.New("not a 64-bit little-endian ELF file")
	}
	le := binary.LittleEndian
	t.machine = elf.Machine(le.Uint16(h[18:]))
	segments, sections := le.Uint64(h[32:]), le.Uint64(h[40:])
	segmentBytes, segmentCount := le.Uint16(h[54:]), le.Uint16(h[56:])
	sectionBytes, sectionCount := le.Uint16(h[58:]), le.Uint16(h[60:])
	if err := t.readSegments(segments, segmentBytes, segmentCount); err != nil {
		return nil, err
	}
	if sections == 0 {
		return t, nil
	}
	return t, t.readSections(sections, sectionBytes, sectionCount)
}

func (t *symbolTables) readSegments(at uint64, each, count uint16) error {
	if count == 0 {
		return nil
	}
	if each != segmentSize || count > mostSegments || count == extendedNumber {
		return fmt.Errorf("bad ELF file: %d segments of %d bytes", count, each)
	}
	b, err := t.read(at, int(count)*segmentSize)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	for ; len(b) > 0; b = b[segmentSize:] {
		if elf.ProgType(le.Uint32(b)) != elf.PT_LOAD {
			continue
		}
		flags, s := elf.ProgFlag(le.Uint32(b[4:])), segment{address: le.Uint64(b[16:]), offset: le.Uint64(b[8:]), size: le.Uint64(b[32:]), memory: le.Uint64(b[40:])}
		if flags&elf.PF_X != 0 {
			t.code = append(t.code, s)
		}
		if flags&elf.PF_W != 0 {
			t.data = append(t.data, s)
		}
	}
	return nil
}

// readSections finds the tables of symbols, of which a file has one of each kind.
func (t *symbolTables) readSections(at uint64, each, count uint16) error {
	if each != sectionSize || count == 0 || count > mostSections {
		return fmt.Errorf("bad ELF file: %d sections of %d bytes", count, each)
	}
	const perBlock = symbolBlock / sectionSize
	for first := 0; first < int(count); first += perBlock {
		b, err := t.read(at+uint64(first)*sectionSize, min(perBlock, int(count)-first)*sectionSize)
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[sectionSize:] {
			s := sectionOf(b)
			to := &t.static
			switch s.kind {
			case elf.SHT_SYMTAB:
			case elf.SHT_DYNSYM:
				to = &t.dynamic
			default:
				continue
			}
			if *to != nil {
				return fmt.Errorf("bad ELF file: it has two sections of type %v", s.kind)
			}
			*to = &symbolTable{symbols: s}
		}
	}
	for _, table := range []*symbolTable{t.dynamic, t.static} {
		if table == nil {
			continue
		}
		s := table.symbols
		if s.bytesPerSymbol != symbolSize || s.link >= uint32(count) {
			return fmt.Errorf("bad ELF file: symbols of %d bytes with their names in section %d", s.bytesPerSymbol, s.link)
		}
		b, err := t.read(at+uint64(s.link)*sectionSize, sectionSize)
		if err != nil {
			return err
		}
		table.names = sectionOf(b)
		if table.names.kind != elf.SHT_STRTAB {
			return fmt.Errorf("bad ELF file: names of symbols in a section of type %v", table.names.kind)
		}
		for _, s := range []section{table.symbols, table.names} {
			switch {
			case s.size > mostSection:
				return fmt.Errorf("a section of type %v has %d bytes, more than the %d that are read", s.kind, s.size, mostSection)
			case s.offset > uint64(t.size) || s.size > uint64(t.size)-s.offset:
				return fmt.Errorf("bad ELF file: a section of type %v ends after the file", s.kind)
			}
		}
	}
	return nil
}

func sectionOf(b []byte) section {
	le := binary.LittleEndian
	return section{kind: elf.SectionType(le.Uint32(b[4:])), offset: le.Uint64(b[24:]), size: le.Uint64(b[32:]), link: le.Uint32(b[40:]), bytesPerSymbol: le.Uint64(b[56:])}
}

// read returns at most symbolBlock bytes of the file. They are valid until the next read.
func (t *symbolTables) read(at uint64, n int) ([]byte, error) {
	if at > uint64(t.size) || uint64(n) > uint64(t.size)-at {
		return nil, fmt.Errorf("bad ELF file: %w", io.ErrUnexpectedEOF)
	}
	if err := t.spend(n); err != nil {
		return nil, err
	}
	b := t.block[:n]
	if _, err := t.file.ReadAt(b, int64(at)); err != nil {
		return nil, err
	}
	return b, nil
}

// find returns the offsets in the file of the functions with these names that the file defines.
func (t *symbolTables) find(names []string) (map[string]uint64, error) {
	offsets := map[string]uint64{}
	for _, table := range []*symbolTable{t.dynamic, t.static} {
		if table == nil {
			continue
		}
		at, err := t.places(table.names, names)
		if err == nil && len(at) > 0 {
			err = t.note(table.symbols, at, offsets)
		}
		if err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// stripped reports whether the file has no .symtab with a symbol besides the first, which is none.
func (t *symbolTables) stripped() bool {
	return t.static == nil || t.static.symbols.size < 2*symbolSize
}

// places returns where in a table of names each name is: a name may be the end of another.
func (t *symbolTables) places(table section, names []string) (map[uint32]string, error) {
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	out := map[uint32]string{}
	for at := uint64(0); at < table.size; {
		n := min(symbolBlock, table.size-at)
		b, err := t.read(table.offset+at, int(n))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			wanted := append([]byte(name), 0)
			found := 0
			for from := 0; ; found++ {
				i := bytes.Index(b[from:], wanted)
				if i < 0 {
					break
				}
				if found == mostOccurrences || len(out) == mostOccurrences*len(names) {
					return nil, fmt.Errorf("bad ELF file: its names have %s more than %d times", name, mostOccurrences)
				}
				out[uint32(at)+uint32(from+i)] = name
				from += i + 1
			}
		}
		if at += n; at < table.size {
			at -= uint64(longest) // the next block begins with what may be the begin of a name
		}
	}
	return out, nil
}

// note adds the functions whose names are at these places of the table of names.
func (t *symbolTables) note(table section, places map[uint32]string, offsets map[string]uint64) error {
	const perBlock = symbolBlock / symbolSize
	le := binary.LittleEndian
	count := table.size / symbolSize
	for first := uint64(0); first < count; first += perBlock {
		b, err := t.read(table.offset+first*symbolSize, int(min(perBlock, count-first))*symbolSize)
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[symbolSize:] {
			name, wanted := places[le.Uint32(b)]
			if kind := elf.ST_TYPE(b[4]); !wanted || kind != elf.STT_FUNC && kind != elf.STT_NOTYPE || elf.SectionIndex(le.Uint16(b[6:])) == elf.SHN_UNDEF {
				continue
			}
			value := le.Uint64(b[8:])
			for _, s := range t.code {
				if value >= s.address && value-s.address < s.size {
					offsets[name] = value - s.address + s.offset
				}
			}
		}
	}
	return nil
}
