package formats

import (
	_ "embed"
	"html/template"
	"io"
	"sync"

	"github.com/teescope/teescope/internal/report"
)

var html = &report.Format{
	Name:  "html",
	Doc:   "One self-contained page with plots: no scripts, no network requests, light and dark, printable.",
	Print: writeHTML,
}

//go:embed html.tmpl
var pageTemplate string

//go:embed html.css
var pageStyle string

var page = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(pageTemplate)
})

func writeHTML(w io.Writer, doc report.Document) error {
	t, err := page()
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		report.Page
		Style template.CSS
	}{report.Compose(doc), template.CSS(":root{color-scheme:light dark;" + report.LightColours() + "}\n@media screen and (prefers-color-scheme:dark){:root{" + report.DarkColours() + "}}\n" + pageStyle)}) //nolint:gosec // our own file
}
