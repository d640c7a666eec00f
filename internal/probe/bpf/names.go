package bpf

// Names of processes in the process table: from the slots that programs count by, to the label values of metrics.

import "bytes"

const (
	// slots is PROCESSES of process.h, and otherSlot its OTHER.
	slots     = 1024
	otherSlot = 0
	commLen   = 16

	// Other is the process, and the system call, that a full table folds into.
	Other = "other"
	// Unnamed stands for a process with an empty name.
	Unnamed = "(unnamed)"
)

// names turns slots into label values. A slot's name does not change until it is
// reclaimed, so each is looked up once; then all are looked up again. Two slots may
// have the same label, because a process may be called Other: the first one stands for
// both.
type names struct {
	label [slots]string
	first [slots]int
	slot  map[string]int
}

// firstSlot returns the slot whose label stands for the given one. Call it only for a slot
// that has counted something: its name is written by then.
func (n *names) firstSlot(raw []byte, slot int) int {
	if n.label[slot] != "" {
		return n.first[slot]
	}
	if n.slot == nil {
		n.slot = map[string]int{}
	}
	l := Other
	if slot != otherSlot {
		l = label(raw, slot)
	}
	first, ok := n.slot[l]
	if !ok {
		first = slot
		n.slot[l] = slot
	}
	n.label[slot], n.first[slot] = l, first
	return first
}

func label(raw []byte, slot int) string {
	at := slot * commLen
	if at+commLen > len(raw) {
		return Unnamed
	}
	text, _, _ := bytes.Cut(raw[at:at+takenByte], []byte{0})
	if len(text) == 0 {
		return Unnamed
	}
	return string(text)
}
