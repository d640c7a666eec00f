// Package configfile reads YAML that a user wrote: every error names its line and key, and unknown keys are errors. What the keys
// mean is known elsewhere (internal/observe, internal/monitor/config).
package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Position is the place of a nested key: "line 3: analysis.own[0].expr".
func Position(root *yaml.Node, keys ...string) string {
	var path strings.Builder
	for i, k := range keys {
		switch _, err := strconv.Atoi(k); {
		case err == nil:
			k = "[" + k + "]"
		case i > 0:
			k = "." + k
		}
		path.WriteString(k)
	}
	return fmt.Sprintf("line %d: %s", Line(root, keys...), path.String())
}

// Line is the line of a nested key, or of its nearest parent; 0 without either. The
// keys of a list are its indices.
func Line(n *yaml.Node, keys ...string) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line := 0
	for _, k := range keys {
		found := false
		if i, err := strconv.Atoi(k); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			n, line, found = n.Content[i], n.Content[i].Line, true
		}
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			if n.Content[i].Value == k {
				line, n, found = n.Content[i].Line, n.Content[i+1], true
				break
			}
		}
		if !found {
			return line
		}
	}
	return line
}

// keysAt is the path of the value on a line that the decoder refused: what all values there with its tag and text have in
// common. There may be several, as on the one line of a JSON file.
func keysAt(root *yaml.Node, line int, tag, text string) (path []string) {
	text = strings.TrimSuffix(text, "...") // of a long one
	found := false
	var walk func(n *yaml.Node, keys []string)
	walk = func(n *yaml.Node, keys []string) {
		if len(keys) > 0 && n.Line == line && n.ShortTag() == tag && strings.HasPrefix(n.Value, text) {
			if !found {
				found, path = true, keys
			}
			same := 0
			for same < min(len(path), len(keys)) && path[same] == keys[same] {
				same++
			}
			path = path[:same]
		}
		for i, c := range n.Content {
			if n.Kind != yaml.MappingNode {
				walk(c, keys)
			} else if i%2 == 1 {
				walk(c, append(slices.Clone(keys), n.Content[i-1].Value))
			}
		}
	}
	walk(root, nil)
	return path
}

var (
	syntax     = regexp.MustCompile(`^yaml: (found|did not find|could not find|mapping values|block |while )`)
	unknownKey = regexp.MustCompile(`field (.+) not found in type \S+`)
	wrongType  = regexp.MustCompile("line (\\d+): cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.+)")
	// wanted translates the decoder's Go types; every other type is a mapping.
	wanted = map[string]string{"time.Duration": "a time like 15s", "bool": "true or false", "string": "text",
		"[]observe.Requests": "a list of servers", "[]config.ownConfig": "a list of rules", "[]config.subjectConfig": "a list of subjects",
		"[]config.receiverConfig": "a list of receivers", "[]web.Dashboard": "a list of dashboards", "[]web.Panel": "a list of panels",
		"float64": "a number", "int": "a whole number", "[]int": "a list like [1, 2]", "[]string": "a list of texts",
		"web.PanelKind": "text", "findings.Severity": "text", "config.webhookFormat": "text", "config.Secret": "text"}
)

// Readable rewrites the decoder's errors with lines and keys in place of Go types; b is
// the file's text.
func Readable(err error, b []byte) error {
	var root yaml.Node
	_ = yaml.Unmarshal(b, &root) // invalid YAML has no keys to name
	s := unknownKey.ReplaceAllString(err.Error(), "$1 is not a known key")
	s = wrongType.ReplaceAllStringFunc(s, func(m string) string {
		part := wrongType.FindStringSubmatch(m)
		line, _ := strconv.Atoi(part[1])
		out := "line " + part[1] + ": "
		if keys := keysAt(&root, line, part[2], part[3]); len(keys) > 0 {
			out += strings.Join(keys, ".") + ": "
		}
		if part[3] != "" {
			out += strconv.Quote(part[3]) + ": "
		}
		other := "keys with values"
		if strings.HasPrefix(part[4], "[]") {
			other = "a list"
		}
		return out + "want " + cmp.Or(wanted[part[4]], other)
	})
	if !strings.Contains(s, "line ") && syntax.MatchString(s) {
		s = "line 1: " + s // the library leaves out the first line
	}
	s = strings.NewReplacer("yaml: unmarshal errors:\n  ", "", "yaml: ", "", "\n  ", "\n").Replace(s)
	return errors.New(s)
}
