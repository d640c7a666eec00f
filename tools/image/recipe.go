package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// folder matches a folder of the image, from its root.
var folder = regexp.MustCompile(`^/([\w-]+/)*$`)

// recipe is what a container file says.
type recipe struct {
	files      []file // sorted by where they go
	ports      []string
	entrypoint []string
	command    []string
}

// file goes from the context into the image.
type file struct{ from, to string }

// parseRecipe reads the part of a container file's language that an image from scratch needs.
func parseRecipe(text string) (r recipe, err error) {
	from := false
	for i, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		var err error
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "FROM" && rest == "scratch" && !from:
			from = true
		case !from:
			err = errors.New("want FROM scratch first")
		case word == "COPY" && len(words) > 1 && folder.MatchString(words[len(words)-1]) && !strings.HasPrefix(rest, "-"):
			for _, from := range words[:len(words)-1] {
				r.files = append(r.files, file{from, strings.TrimPrefix(words[len(words)-1], "/") + path.Base(from)})
			}
		case word == "EXPOSE" && len(words) > 0:
			r.ports = append(r.ports, words...)
		case word == "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &r.entrypoint)
		case word == "CMD":
			err = json.Unmarshal([]byte(rest), &r.command)
		default:
			err = errors.New("want COPY FILE... FOLDER/, EXPOSE PORT..., ENTRYPOINT [...] or CMD [...]; anything else needs a container engine")
		}
		if err != nil {
			return recipe{}, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	if len(r.files) == 0 {
		return recipe{}, errors.New("it copies no file")
	}
	slices.SortFunc(r.files, func(a, b file) int { return strings.Compare(a.to, b.to) })
	return r, nil
}
