package monitor

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/web"
)

// TestSettingsOfThePage: silences and dashboards survive a restart, and a damaged file
// is not overwritten.
func TestSettingsOfThePage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "silences.json")
	s, err := openSilences(path, rules.All, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Add(findings.Silence{Rule: "syscall_storm", Subject: regexp.QuoteMeta("<b>\x1b[31m"), Until: time.Now().Add(time.Hour).UTC(), Comment: "known"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = openSilences(path, rules.All, time.Now); err != nil || len(s.List()) != 1 || s.List()[0].ID != x.ID || s.List()[0].Subject != x.Subject {
		t.Errorf("read again: %+v, %v", s.List(), err)
	}

	boards := filepath.Join(dir, "dashboards.json")
	d, err := openDashboards(boards)
	if err != nil || d.Dashboards().Dashboards == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	d.lock([]web.Dashboard{{Name: "Ours"}})
	mine := []web.Dashboard{{Name: "Mine", Panels: []web.Panel{{Title: "t", Query: "up", Kind: web.Value}}}}
	if err := d.SetDashboards(mine); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDashboards([]web.Dashboard{{Name: "Ours", Panels: mine[0].Panels}}); err == nil || !strings.Contains(err.Error(), "another dashboard is called") {
		t.Errorf("the name of a locked one: %v", err)
	}
	if d, err = openDashboards(boards); err != nil || len(d.Dashboards().Dashboards) != 1 || len(d.Dashboards().Locked) != 0 {
		t.Errorf("read again: %+v, %v", d.Dashboards(), err)
	}
	if err := os.Mkdir(boards+".new", 0o700); err != nil { // no file can be written
		t.Fatal(err)
	}
	if err := d.SetDashboards(nil); err == nil || !strings.Contains(err.Error(), web.ErrNotKept.Error()) || len(d.Dashboards().Dashboards) != 1 {
		t.Errorf("a change that cannot be kept: %v, %+v", err, d.Dashboards())
	}
	if err := os.WriteFile(boards, []byte("{\"dashboards\": ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err = openDashboards(boards); err == nil || d == nil || !strings.Contains(err.Error(), "dashboards.json.damaged") {
		t.Errorf("a damaged file: %+v, %v", d, err)
	}
	if b, err := os.ReadFile(boards + ".damaged"); err != nil || string(b) != "{\"dashboards\": [" {
		t.Errorf("moved aside: %q, %v", b, err)
	}
}

// TestLogIsOneLine: a process name can control neither the log nor its reader's
// terminal.
func TestLogIsOneLine(t *testing.T) {
	var log bytes.Buffer
	m := &monitor{Observer: &observe.Observer{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	r := findings.Record{ID: "a", State: findings.Open, Finding: findings.Finding{Rule: "heat", Subject: "x", Title: "<b>\x1b[2J\nlevel=ERROR\u202e\xff spends 41 %."}}
	m.analysis = findings.New(nil, nil, findings.Options{Now: time.Now, Past: []findings.Record{r}})
	m.logFinding(r)
	if s := log.String(); strings.Count(s, "\n") != 1 || strings.Contains(s, "\x1b") || strings.Contains(s, "\u202e") || !utf8.ValidString(s) || !strings.Contains(s, `<b>\x1b[2J\nlevel=ERROR`) {
		t.Errorf("log %q", s)
	}
	log.Reset()
	r.Silenced = "s"
	if m.logFinding(r); log.Len() != 0 {
		t.Errorf("a silenced finding is logged: %q", &log)
	}
}
