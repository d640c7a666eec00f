package channel

import (
	"encoding/binary"
	"fmt"
)

// DType is the type of a tensor's elements.
type DType uint8

// The element types.
const (
	F64 DType = 1 + iota
	F32
	F16
	BF16
	I64
	I32
	I16
	I8
	U8
)

// size is the bytes of an element, 0 for an unknown type.
func (d DType) size() int {
	if d < F64 || d > U8 {
		return 0
	}
	return [...]int{F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1}[d]
}

// Tensor is a message of a model: a name, the type and the number of its elements, and
// the elements, row-major and little-endian.
type Tensor struct {
	Name  string
	DType DType
	Shape []uint32
	Data  []byte
}

// Limits of a tensor. The head ends at a multiple of 64 bytes, so elements are aligned
// for vector instructions if the message is.
const (
	mostDims  = 32
	mostName  = 255
	mostBytes = 1 << 40
	tensorPad = 64
	tensorTag = 0xa7 // the first byte of every tensor message
)

// bytes is the size of the data, from shape and type.
func (t Tensor) bytes() (uint64, error) {
	n := uint64(t.DType.size())
	if n == 0 {
		return 0, fmt.Errorf("%w: a tensor of type %d", ErrMalformed, t.DType)
	}
	for _, d := range t.Shape {
		if d > 0 && n > mostBytes/uint64(d) {
			return 0, fmt.Errorf("%w: a tensor of shape %v", ErrTooLarge, t.Shape)
		}
		n *= uint64(d)
	}
	return n, nil
}

// Parts are the parts of the tensor's message, for Send: a new head, and Data
// unchanged.
func (t Tensor) Parts() ([][]byte, error) {
	if len(t.Shape) > mostDims || len(t.Name) > mostName {
		return nil, fmt.Errorf("tensor %.40q of %d dimensions: at most %d, and %d bytes of name: %w", t.Name, len(t.Shape), mostDims, mostName, ErrTooLarge)
	}
	if n, err := t.bytes(); err != nil || n != uint64(len(t.Data)) {
		return nil, fmt.Errorf("tensor %.40q: %d bytes of data, want %d: %w", t.Name, len(t.Data), n, cause(err, ErrMalformed))
	}
	head := []byte{tensorTag, byte(t.DType), byte(len(t.Shape)), byte(len(t.Name))}
	for _, d := range t.Shape {
		head = binary.BigEndian.AppendUint32(head, d)
	}
	head = append(head, t.Name...)
	head = append(head, make([]byte, -len(head)&(tensorPad-1))...)
	return [][]byte{head, t.Data}, nil
}

// ParseTensor reads a tensor from its message. Data is a view of msg.
func ParseTensor(msg []byte) (Tensor, error) {
	if len(msg) < tensorPad || msg[0] != tensorTag || msg[2] > mostDims {
		return Tensor{}, fmt.Errorf("%w: not a tensor", ErrMalformed)
	}
	t := Tensor{DType: DType(msg[1])}
	end := 4 + 4*int(msg[2])
	named := end + int(msg[3])
	start := (named + tensorPad - 1) &^ (tensorPad - 1)
	if len(msg) < start {
		return Tensor{}, fmt.Errorf("%w: the head of a tensor is cut", ErrMalformed)
	}
	for at := 4; at < end; at += 4 {
		t.Shape = append(t.Shape, binary.BigEndian.Uint32(msg[at:]))
	}
	t.Name, t.Data = string(msg[end:named]), msg[start:]
	for _, b := range msg[named:start] {
		if b != 0 {
			return Tensor{}, fmt.Errorf("%w: the head of a tensor is not padded with zeros", ErrMalformed)
		}
	}
	n, err := t.bytes()
	if err != nil {
		return Tensor{}, err
	}
	if n != uint64(len(t.Data)) {
		return Tensor{}, fmt.Errorf("%w: a tensor of %d bytes, its shape wants %d", ErrMalformed, len(t.Data), n)
	}
	return t, nil
}
