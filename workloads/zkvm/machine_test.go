package zkvm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// machine is what SP1 v5 proves: a RISC-V processor (RV32IM of "The RISC-V Instruction Set Manual", volume I, version 20191213) with
// system calls, as far as the guests use it.
type machine struct {
	registers [32]uint32
	pc        uint32
	memory    []uint32 // words, from address 0
	text      [2]uint32
	input     []byte
	cycles    int

	public    []byte    // written to descriptor 13
	committed [8]uint32 // SHA-256 of that, as the guest says
	exit      *uint32
}

// What the guests know of the machine (guests/zkvm.h).
const (
	callHalt, callWrite, callCommit, callCommitDeferred, callHintRead = 0x00, 0x02, 0x10, 0x1a, 0xf1

	publicValues = 13
	lowest       = 0x00200800 // of a program
	memoryBytes  = 8 << 20
)

// load puts a program into the memory of a machine.
func load(program, input []byte) (*machine, error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS32 || f.Machine != elf.EM_RISCV || f.Type != elf.ET_EXEC {
		return nil, fmt.Errorf("the program is %v %v %v", f.Class, f.Machine, f.Type)
	}
	m := &machine{pc: uint32(f.Entry), memory: make([]uint32, memoryBytes/4), input: input}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if p.Vaddr < lowest || p.Vaddr%4 != 0 || p.Vaddr+p.Memsz > memoryBytes || p.Memsz != p.Filesz || p.Flags&elf.PF_W != 0 {
			return nil, fmt.Errorf("segment %+v: want bytes of the file above %#x that nobody writes", p.ProgHeader, lowest)
		}
		if p.Flags&elf.PF_X != 0 {
			if m.text[1] != 0 {
				return nil, errors.New("two segments have instructions")
			}
			m.text = [2]uint32{uint32(p.Vaddr), uint32(p.Vaddr + p.Filesz)}
		}
		b := make([]byte, (p.Filesz+3)/4*4)
		if _, err := p.ReadAt(b[:p.Filesz], 0); err != nil {
			return nil, err
		}
		for i := range len(b) / 4 {
			m.memory[p.Vaddr/4+uint64(i)] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	return m, nil
}

// run executes a program until it ends, for so many cycles at most.
func (m *machine) run(most int) error {
	for m.exit == nil {
		if m.cycles++; m.cycles > most {
			return fmt.Errorf("it does not end within %d cycles", most)
		}
		if err := m.step(); err != nil {
			return fmt.Errorf("at %#x: %w", m.pc, err)
		}
		m.registers[0] = 0
	}
	return nil
}

// at is the word that holds a byte.
func (m *machine) at(address uint32) (*uint32, error) {
	if i := address / 4; int(i) < len(m.memory) {
		return &m.memory[i], nil
	}
	return nil, fmt.Errorf("address %#x", address)
}

// step executes one instruction.
func (m *machine) step() error {
	if m.pc < m.text[0] || m.pc >= m.text[1] || m.pc%4 != 0 {
		return errors.New("no instruction")
	}
	w := m.memory[m.pc/4]
	rd, f3, rs1, rs2, f7 := w>>7&31, w>>12&7, w>>15&31, w>>20&31, w>>25
	a, b, r := m.registers[rs1], m.registers[rs2], &m.registers[rd]
	immediate := uint32(int32(w) >> 20)
	next := m.pc + 4
	switch w & 127 {
	case 0x37: // lui
		*r = w &^ 0xfff
	case 0x17: // auipc
		*r = m.pc + w&^0xfff
	case 0x6f: // jal
		*r = next
		next = m.pc + uint32(int32(w)>>31<<20) + w&0xff000 + w>>20&1<<11 + w>>21&0x3ff<<1
	case 0x67: // jalr
		*r, next = next, (a+immediate)&^1
	case 0x63:
		taken, err := compare(f3, a, b)
		if err != nil {
			return err
		}
		if taken {
			next = m.pc + uint32(int32(w)>>31<<12) + w>>7&1<<11 + w>>25&0x3f<<5 + w>>8&15<<1
		}
	case 0x03:
		v, err := m.read(f3, a+immediate)
		if err != nil {
			return err
		}
		*r = v
	case 0x23:
		if err := m.write(f3, a+uint32(int32(w)>>25<<5)+rd, b); err != nil {
			return err
		}
	case 0x13:
		if f3 == 1 || f3 == 5 { // shifts
			immediate, f7 = rs2, f7&0x20
		} else {
			f7 = 0
		}
		v, err := arithmetic(f3, f7, a, immediate)
		if err != nil {
			return err
		}
		*r = v
	case 0x33:
		v, err := arithmetic(f3, f7, a, b)
		if err != nil {
			return err
		}
		*r = v
	case 0x73:
		if err := m.call(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("instruction %#x", w)
	}
	m.pc = next
	return nil
}

func compare(f3, a, b uint32) (bool, error) {
	switch f3 {
	case 0:
		return a == b, nil
	case 1:
		return a != b, nil
	case 4:
		return int32(a) < int32(b), nil
	case 5:
		return int32(a) >= int32(b), nil
	case 6:
		return a < b, nil
	case 7:
		return a >= b, nil
	}
	return false, fmt.Errorf("branch %d", f3)
}

func (m *machine) read(f3, address uint32) (uint32, error) {
	word, err := m.at(address)
	if err != nil {
		return 0, err
	}
	v := *word >> (address % 4 * 8)
	switch aligned := address%(1<<(f3&3)) == 0; {
	case !aligned:
		return 0, fmt.Errorf("read %d at %#x, which is not aligned", f3, address)
	case f3 == 0:
		return uint32(int32(v<<24) >> 24), nil
	case f3 == 1:
		return uint32(int32(v<<16) >> 16), nil
	case f3 == 2:
		return v, nil
	case f3 == 4:
		return v & 0xff, nil
	case f3 == 5:
		return v & 0xffff, nil
	}
	return 0, fmt.Errorf("read %d", f3)
}

func (m *machine) write(f3, address, v uint32) error {
	word, err := m.at(address)
	if err != nil {
		return err
	}
	if f3 > 2 || address%(1<<f3) != 0 || address >= m.text[0] && address < m.text[1] {
		return fmt.Errorf("write %d at %#x", f3, address)
	}
	mask := uint32(1<<(8<<f3) - 1)
	shift := address % 4 * 8
	*word = *word&^(mask<<shift) | v&mask<<shift
	return nil
}

func arithmetic(f3, f7, a, b uint32) (uint32, error) {
	if f7 == 1 {
		return multiply(f3, a, b)
	}
	switch f7<<4 | f3 {
	case 0:
		return a + b, nil
	case 0x200:
		return a - b, nil
	case 1:
		return a << (b & 31), nil
	case 2:
		if int32(a) < int32(b) {
			return 1, nil
		}
		return 0, nil
	case 3:
		if a < b {
			return 1, nil
		}
		return 0, nil
	case 4:
		return a ^ b, nil
	case 5:
		return a >> (b & 31), nil
	case 0x205:
		return uint32(int32(a) >> (b & 31)), nil
	case 6:
		return a | b, nil
	case 7:
		return a & b, nil
	}
	return 0, fmt.Errorf("arithmetic %d, %d", f3, f7)
}

// multiply has no division: no guest divides.
func multiply(f3, a, b uint32) (uint32, error) {
	switch f3 {
	case 0:
		return a * b, nil
	case 1:
		return uint32(int64(int32(a)) * int64(int32(b)) >> 32), nil
	case 3:
		return uint32(uint64(a) * uint64(b) >> 32), nil
	}
	return 0, fmt.Errorf("multiplication %d", f3)
}

// call is a system call: its number is in t0, its arguments in a0, a1 and a2.
func (m *machine) call() error {
	a, b, c := m.registers[10], m.registers[11], m.registers[12]
	switch m.registers[5] {
	case callHalt:
		m.exit = &a
	case callWrite:
		if a != publicValues {
			return fmt.Errorf("write to descriptor %d", a)
		}
		for i := range c {
			v, err := m.read(4, b+i)
			if err != nil {
				return err
			}
			m.public = append(m.public, byte(v))
		}
	case callCommit:
		if a > 7 {
			return fmt.Errorf("commit word %d", a)
		}
		m.committed[a] = b
	case callCommitDeferred:
		if a > 7 || b != 0 {
			return fmt.Errorf("commit %#x as word %d of other proofs", b, a)
		}
	case callHintRead:
		if int(b) != len(m.input) || a%4 != 0 {
			return fmt.Errorf("read %d bytes to %#x, the input has %d", b, a, len(m.input))
		}
		for i, v := range m.input {
			if err := m.write(0, a+uint32(i), uint32(v)); err != nil {
				return err
			}
		}
		m.input = nil
	default:
		return fmt.Errorf("system call %#x", m.registers[5])
	}
	return nil
}
