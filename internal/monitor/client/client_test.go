package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// nobody is the URL of a server that does not run.
func nobody(t *testing.T) string {
	t.Helper()
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0])
}

// TestMonitorAnswers: there is no monitor only where nothing listens.
func TestMonitorAnswers(t *testing.T) {
	answer := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, tt := range map[string]struct {
		url   string
		there bool
		want  string // in the error
	}{
		"nobody":     {nobody(t), false, ""},
		"a monitor":  {answer(http.StatusOK, "{}"), true, ""},
		"a password": {answer(http.StatusUnauthorized, ""), false, "USER:PASSWORD"},
		"an agent":   {answer(http.StatusNotFound, `{"error":"GET /: no such call"}`), false, ""},
		"busy":       {answer(http.StatusServiceUnavailable, `{"error":"too many requests"}`), false, "too many requests"},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			there, err := MonitorAnswers(t.Context(), base)
			if there != tt.there || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, %v, want %v, %q", name, there, err, tt.there, tt.want)
			}
		})
	}
}

// FuzzAnswer reads whatever a server answers to a query.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"data":{"result":[{"metric":{"process":"a\u001b[2J","instance":"x","column":"cpu"},"value":[1,"1e300"]}]}}`))
	f.Add([]byte(`{"data":{"result":[{"metric":{"process":"b"},"value":[1,"-Inf"]},{"metric":{},"value":[1,"NaN"]}]}}`))
	f.Add([]byte(`{"data":{"result":[{"metric":{"process":"b"},"values":[[1,"-Inf"],[1.5,"2"]]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var a answer
		if json.Unmarshal(text, &a) != nil {
			return
		}
		if points, err := a.points(); err == nil && len(points) != len(a.Data.Result) {
			t.Errorf("%d points of %d results", len(points), len(a.Data.Result))
		}
		lines, err := a.lines()
		for i, l := range lines {
			if err == nil && (len(l.At) != len(l.Values) || len(l.Values) != len(a.Data.Result[i].Values)) {
				t.Errorf("%d times and %d values of %d", len(l.At), len(l.Values), len(a.Data.Result[i].Values))
			}
		}
	})
}
