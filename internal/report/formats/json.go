package formats

import (
	"encoding/json"
	"io"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

var jsonFormat = &report.Format{
	Name:  "json",
	Doc:   "The documents themselves with findings and prices, as one JSON object. Missing values are null, with a reason.",
	Print: writeJSON,
}

func writeJSON(w io.Writer, doc report.Document) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Experiments []*result.Experiment `json:"experiments"`
		Findings    []findings.Finding   `json:"findings"`
		Prices      []report.Price       `json:"prices"`
	}{orEmpty(doc.Experiments), orEmpty(doc.Findings), orEmpty(doc.Prices)})
}

// orEmpty turns nil into an empty list: null would mean missing.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
