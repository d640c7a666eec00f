package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/config"
	"gopkg.in/yaml.v3"
)

// Prometheus' parser gets a document that has only the keys that are its own. It is made from the nodes of the user's
// file, not from its lines: a key may be anywhere, such as all on one line, and aliases may lead out of it.

// theirs are Prometheus' keys: the settings of all, and two lists.
var theirs = []string{"global", "scrape_configs", "remote_write"}

// section is a mapping of Prometheus' keys, with the lines of the user's file.
type section struct{ top *yaml.Node }

// prometheusSection returns Prometheus' part of a file. It fails on unknown and repeated keys, and on a second document.
func prometheusSection(text []byte, own []string) (section, error) {
	out := section{&yaml.Node{Kind: yaml.MappingNode}}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return out, nil
	} else if err != nil {
		return out, readable(err)
	}
	var next yaml.Node
	if err := d.Decode(&next); err == nil {
		return out, fmt.Errorf("line %d: a second YAML document; want one", next.Line)
	} else if !errors.Is(err, io.EOF) {
		return out, readable(err)
	}
	left := mostNodes
	top, err := expand(doc.Content[0], &left)
	if err != nil {
		return out, err
	}
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return out, nil
	}
	if top.Kind != yaml.MappingNode {
		return out, fmt.Errorf("line %d: want keys and values", top.Line)
	}
	seen := map[string]int{}
	for _, pair := range pairs(top) {
		key := pair[0]
		if line, again := seen[key.Value]; again {
			return out, fmt.Errorf("line %d: repeated key %s, as in line %d", key.Line, oneLine(key.Value), line)
		}
		seen[key.Value] = key.Line
		switch {
		case slices.Contains(theirs, key.Value):
			out.top.Content = append(out.top.Content, key, pair[1])
		case !slices.Contains(own, key.Value):
			return out, fmt.Errorf("line %d: unknown key %s", key.Line, oneLine(key.Value))
		}
	}
	return out, nil
}

// mostNodes bounds a document with its aliases replaced: a few lines of them can stand for billions of nodes.
const mostNodes = 1 << 18

// expand copies a node without aliases, anchors and comments, and so that each key has a line of its own.
func expand(n *yaml.Node, left *int) (*yaml.Node, error) {
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *left--; *left < 0 {
		return nil, fmt.Errorf("line %d: the document is too large, or an alias contains itself", line)
	}
	out := &yaml.Node{Kind: n.Kind, Style: n.Style &^ yaml.FlowStyle, Tag: n.Tag, Value: n.Value, Line: n.Line}
	for _, c := range n.Content {
		next, err := expand(c, left)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, next)
	}
	return out, nil
}

// pairs returns the keys and values of a mapping, with those that it merges (<<) and has not itself.
func pairs(n *yaml.Node) (out [][2]*yaml.Node) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag != "!!merge":
			out = append(out, [2]*yaml.Node{key, value})
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, m := range merged {
		for _, p := range pairs(m) {
			if !slices.ContainsFunc(out, func(o [2]*yaml.Node) bool { return o[0].Value == p[0].Value }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// get returns the value of a key, nil without one.
func (s section) get(key string) *yaml.Node {
	for i := 0; i+1 < len(s.top.Content); i += 2 {
		if s.top.Content[i].Value == key {
			return s.top.Content[i+1]
		}
	}
	return nil
}

// job returns the line of a scrape configuration.
func (s section) job(i int) int {
	if list := s.get("scrape_configs"); list != nil && i < len(list.Content) {
		return list.Content[i].Line
	}
	return 0
}

// part returns the section with the global settings and the first n elements of one list.
func (s section) part(key string, n int) section {
	out := section{&yaml.Node{Kind: yaml.MappingNode}}
	for i := 0; i+1 < len(s.top.Content); i += 2 {
		name, value := s.top.Content[i], s.top.Content[i+1]
		switch name.Value {
		case "global":
		case key:
			value = &yaml.Node{Kind: value.Kind, Tag: value.Tag, Line: value.Line, Content: value.Content[:n]}
		default:
			continue
		}
		out.top.Content = append(out.top.Content, name, value)
	}
	return out
}

// text writes the section, and returns the line of the user's file for each of its lines.
func (s section) text() (string, map[int]int, error) {
	if len(s.top.Content) == 0 {
		return "", nil, nil
	}
	b, err := yaml.Marshal(s.top)
	if err != nil {
		return "", nil, err
	}
	var again yaml.Node
	if err := yaml.Unmarshal(b, &again); err != nil {
		return "", nil, err
	}
	lines := map[int]int{}
	match(again.Content[0], s.top, lines)
	return string(b), lines, nil
}

// match notes the lines of two equal trees.
func match(written, user *yaml.Node, lines map[int]int) {
	if _, known := lines[written.Line]; !known && user.Line > 0 {
		lines[written.Line] = user.Line
	}
	for i := range min(len(written.Content), len(user.Content)) {
		match(written.Content[i], user.Content[i], lines)
	}
}

// loadScrape has Prometheus read a section. Its errors without a line get that of the element which causes them.
func loadScrape(s section) (*config.Config, error) {
	c, err := s.load()
	if err == nil || strings.HasPrefix(err.Error(), "line ") {
		return c, err
	}
	if global := s.get("global"); global != nil {
		if _, e := s.part("", 0).load(); e != nil {
			return nil, fmt.Errorf("line %d: %w", global.Line, e)
		}
	}
	for _, key := range theirs[1:] {
		list := s.get(key)
		if list == nil {
			continue
		}
		for i := range list.Content { // the first that is wrong, alone or with those before it
			if _, e := s.part(key, i+1).load(); e != nil {
				return nil, fmt.Errorf("line %d: %s: %w", list.Content[i].Line, key, e)
			}
		}
	}
	return nil, err
}

var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// load has Prometheus read a section once. Lines in its error are those of the user's file.
func (s section) load() (*config.Config, error) {
	text, lines, err := s.text()
	if err != nil {
		return nil, readable(err)
	}
	c, err := config.Load(text, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.New(lineNumber.ReplaceAllStringFunc(readable(err).Error(), func(m string) string {
			n, _ := strconv.Atoi(lineNumber.FindStringSubmatch(m)[1])
			for ; n > 0; n-- { // a scalar of several lines has only the first
				if user, ok := lines[n]; ok {
					return fmt.Sprintf("line %d", user)
				}
			}
			return m
		}))
	}
	return c, nil
}

// oneLine writes a text on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
