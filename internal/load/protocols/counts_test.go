package protocols

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
)

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		page   string
		status int
		want   string // of the error; "" for none
	}{
		{`{"cpus":2,"seconds_total":1.5}`, 200, ""},
		{`{}`, 200, "empty"},
		{`{"cpus":"two"}`, 200, "parse"},
		{`<html>`, 200, "parse"},
		{``, 200, "parse"},
		{strings.Repeat("[", 1<<20), 200, "parse"},
		{`no profile here`, 500, "no profile here"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.page))
		}))
		counts, _, err := countsStatistics.Read(t.Context(), &load.Options{StatisticsAddress: s.Listener.Addr().String()})
		s.Close()
		if c.want == "" && (err != nil || counts["cpus"] != 2 || counts["seconds_total"] != 1.5) {
			t.Errorf("%.40s: %v, %v", c.page, counts, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.40s: error is %v, want %q in it", c.page, err, c.want)
		}
	}
	if _, _, err := countsStatistics.Read(t.Context(), &load.Options{}); err == nil {
		t.Error("no address was taken")
	}
}
