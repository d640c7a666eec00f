package reproduce

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"unit":         unitAfter,
	"text":         func(m Measured, label string) string { return m.text(label) },
	"join":         strings.Join,
	"costAboveOne": func() string { return costAboveOne },
}).Parse(pageText))

// HTML writes the page as one file that loads nothing.
func (p *Page) HTML() ([]byte, error) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
