package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings/anomaly"
)

func TestChanges(t *testing.T) {
	h := served(func(o *Options) {
		o.Changes = func(ctx context.Context, before, after anomaly.Window, co anomaly.Options) (anomaly.Changes, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("a comparison has no end")
			}
			if co.Process == "nobody" {
				return anomaly.Changes{}, errors.New("nothing is stored")
			}
			return anomaly.Changes{Before: before, After: after, Compared: co.Top, Changes: []anomaly.Change{{Text: co.Process}}}, nil
		}
		o.Boxes = func(_ context.Context, query string, from, to time.Time, windows int) ([]anomaly.Box, error) {
			return []anomaly.Box{{Labels: map[string]string{"query": query}, Window: anomaly.Window{From: from, To: to}, N: windows}}, nil
		}
	})
	const base = "/api/teescope/v1/"
	for target, tt := range map[string]struct {
		code int
		want string
	}{
		"changes?from=3000&to=3600&beforeFrom=0&beforeTo=3000&process=redis&top=7":                                                         {http.StatusOK, `"text":"redis"`},
		"changes?from=2026-03-02T10:00:00Z&to=2026-03-02T10:10:00Z&beforeFrom=2026-03-02T09:00:00Z&beforeTo=2026-03-02T10:00:00Z&top=1000": {http.StatusOK, `"compared":1000`},
		"changes":                   {http.StatusBadRequest, "from and to: give both times"},
		"changes?from=3000&to=3600": {http.StatusBadRequest, "beforeFrom and beforeTo: give both times"},
		"changes?from=3600&to=3000&beforeFrom=0&beforeTo=3000":              {http.StatusBadRequest, "to is before from"},
		"changes?from=yesterday&to=3600&beforeFrom=0&beforeTo=3000":         {http.StatusBadRequest, "unix seconds"},
		"changes?from=3000&to=3600&beforeFrom=0&beforeTo=3000&process=(":    {http.StatusBadRequest, "process: error parsing regexp"},
		"changes?from=3000&to=3600&beforeFrom=0&beforeTo=3000&top=1001":     {http.StatusBadRequest, "want a number from 0 to 1000"},
		"changes?from=0&to=1&beforeFrom=0&beforeTo=1&process=nobody":        {http.StatusUnprocessableEntity, "nothing is stored"},
		"distributions?query=up&from=0&to=600&windows=4":                    {http.StatusOK, `"query":"up"`},
		"distributions?query=up&from=0&to=600":                              {http.StatusOK, `"n":1`},
		"distributions?from=0&to=600":                                       {http.StatusBadRequest, "query: want a PromQL expression"},
		"distributions?query=up&to=600":                                     {http.StatusBadRequest, "from and to: give both times"},
		"distributions?query=up&from=0&to=600&windows=49":                   {http.StatusBadRequest, "from 1 to 48"},
		"distributions?query=up&from=0&to=600&windows=a":                    {http.StatusBadRequest, "from 1 to 48"},
		"distributions?query=up&from=0&to=600&windows=99999999999999999999": {http.StatusBadRequest, "from 1 to 48"},
	} {
		t.Run(target, func(t *testing.T) {
			w := do(h, http.MethodGet, base+target, "")
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d %s, want %d with %q", target, w.Code, w.Body, tt.code, tt.want)
			}
		})
	}
	if w := do(served(nil), http.MethodGet, base+"changes?from=0&to=1", ""); w.Code != http.StatusNotFound {
		t.Errorf("a server without a store: %d %s", w.Code, w.Body)
	}
}
