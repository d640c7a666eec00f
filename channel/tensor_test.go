package channel

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestTensor(t *testing.T) {
	hidden := Tensor{Name: "hidden_states", DType: F32, Shape: []uint32{128, 768}, Data: make([]byte, 384<<10)}
	for _, want := range []Tensor{hidden, {DType: U8, Data: []byte{7}}, {Name: "empty", DType: F64, Shape: []uint32{0, 5}, Data: []byte{}}} {
		parts, err := want.Parts()
		if err != nil {
			t.Fatal(err)
		}
		if len(parts[0])%tensorPad != 0 {
			t.Errorf("%s: a head of %d bytes", want.Name, len(parts[0]))
		}
		got, err := ParseTensor(bytes.Join(parts, nil))
		if err != nil || got.Name != want.Name || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: got %q %d %v %d bytes: %v", want.Name, got.Name, got.DType, got.Shape, len(got.Data), err)
		}
	}
	for name, bad := range map[string]Tensor{
		"type":       {DType: 0, Data: []byte{1}},
		"data":       {DType: F32, Shape: []uint32{2}, Data: make([]byte, 4)},
		"shape":      {DType: F32, Shape: []uint32{1 << 31, 1 << 31, 1 << 31}},
		"dimensions": {DType: F32, Shape: make([]uint32, mostDims+1)},
		"name":       {DType: U8, Name: string(make([]byte, 256)), Data: []byte{1}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bad.Parts(); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	parts, _ := hidden.Parts()
	whole := bytes.Join(parts, nil)
	for name, bad := range map[string][]byte{
		"nothing":   {},
		"cut":       whole[:len(whole)-1],
		"head":      whole[:tensorPad-1],
		"more":      append(slices.Clone(whole), 0),
		"tag":       append([]byte{0}, whole[1:]...),
		"type":      append([]byte{tensorTag, 99}, whole[2:]...),
		"rank":      append([]byte{tensorTag, byte(F32), 255}, whole[3:]...),
		"long name": append([]byte{tensorTag, byte(F32), 2, 255}, whole[4:]...),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseTensor(bad); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
