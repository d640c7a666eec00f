package attest

import (
	"bytes"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// mostRIM bounds a reference manifest; NVIDIA's have some 20 KiB.
const mostRIM = 1 << 20

// RIM is a manifest of the measurements that a version of NVIDIA's driver or VBIOS gives (TCG Reference Integrity Manifest,
// as a SWID tag of ISO/IEC 19770-2). Its signature is not verified: the user who names it vouches for it.
type RIM struct {
	// Version is that of the driver or VBIOS, Product the GPU ("GH100").
	Version, Product string
	// good are the values that a measurement may have, by the index in the manifest, which begins at 0.
	good map[int][][]byte
}

// ReadRIM reads a manifest.
func ReadRIM(text []byte) (*RIM, error) {
	if len(text) > mostRIM {
		return nil, fmt.Errorf("read the manifest: %d bytes, want at most %d", len(text), mostRIM)
	}
	m := &RIM{good: map[int][][]byte{}}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		tag, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		has := func(name string) string {
			for _, a := range tag.Attr {
				if a.Name.Local == name {
					return a.Value
				}
			}
			return ""
		}
		switch {
		case tag.Name.Local == "Meta":
			m.Version, m.Product = has("colloquialVersion"), has("product")
		case tag.Name.Local == "Resource" && has("type") == "Measurement" && has("active") != "False": // as NVIDIA's verifier reads it
			if err := m.add(has("index"), has("alternatives"), has); err != nil {
				return nil, fmt.Errorf("read the manifest: measurement %.10q: %w", has("index"), err)
			}
		}
	}
	if m.Version == "" || m.Product == "" || len(m.good) == 0 {
		return nil, errors.New("read the manifest: this is not a manifest of NVIDIA: want a version, a product and active measurements")
	}
	return m, nil
}

// add reads the values of a measurement: Hash0, Hash1 and so on.
func (m *RIM) add(index, alternatives string, has func(string) string) error {
	const most = 256 // as many as SPDM numbers
	at, err := strconv.Atoi(index)
	count, err2 := strconv.Atoi(alternatives)
	if err != nil || err2 != nil || at < 0 || at >= most || count < 1 || count > most || m.good[at] != nil {
		return fmt.Errorf("the number of alternatives is %.10q: want 1 to %d, and only one measurement for each index", alternatives, most)
	}
	for n := range count {
		v, err := hex.DecodeString(has(fmt.Sprintf("Hash%d", n)))
		if err != nil || len(v) != measuredBytes {
			return fmt.Errorf("attribute Hash%d: want %d bytes in hex", n, measuredBytes)
		}
		m.good[at] = append(m.good[at], v)
	}
	return nil
}

// Compared is how a GPU's measurements compare with manifests.
type Compared struct {
	// Equal is how many measurements have one of the values of the manifests. Other are the indexes of the rest, as
	// the manifests count them.
	Equal int
	Other []int
	// Missing is what no manifest was named for: "driver 535.86.09", "VBIOS 96.00.5E.00.01".
	Missing []string
}

// Compare compares the measurements with those of the manifests of the GPU's driver and VBIOS; other manifests are not
// used. As NVIDIA's own verifier it leaves out measurement 35 where the decoder is off that it is of.
func (g *GPU) Compare(manifests []*RIM) Compared {
	const decoder = 35
	var c Compared
	for _, of := range [][2]string{{"driver", g.Driver}, {"VBIOS", g.VBIOS}} {
		at := slices.IndexFunc(manifests, func(m *RIM) bool {
			return strings.EqualFold(m.Version, of[1]) && strings.HasPrefix(g.Device, m.Product+" ")
		})
		if at < 0 {
			c.Missing = append(c.Missing, of[0]+" "+of[1])
			continue
		}
		for index, good := range manifests[at].good {
			switch {
			case index == decoder && g.noDecoder:
			case index < len(g.measured) && slices.ContainsFunc(good, func(v []byte) bool { return bytes.Equal(v, g.measured[index]) }):
				c.Equal++
			default:
				c.Other = append(c.Other, index)
			}
		}
	}
	slices.Sort(c.Other)
	return c
}
