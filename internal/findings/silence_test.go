package findings_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

// silences is a set with a clock and a file for the test.
type silences struct {
	*findings.Silences
	now  time.Time
	kept []findings.Silence
	fail error
}

func newSilences(t *testing.T, list ...findings.Silence) *silences {
	t.Helper()
	s := &silences{now: time.Unix(1000, 0)}
	var err error
	s.Silences, err = findings.NewSilences(list, []*findings.Rule{heat}, func() time.Time { return s.now }, func(l []findings.Silence) error {
		if s.fail == nil {
			s.kept = l
		}
		return s.fail
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSilences(t *testing.T) {
	s := newSilences(t)
	hour := s.now.Add(time.Hour)
	x, err := s.Add(findings.Silence{ID: "mine", Rule: "heat", Subject: "redis.*|nginx", Until: hour, Comment: "known"})
	if err != nil || x.ID == "" || x.ID == "mine" || len(s.kept) != 1 || s.kept[0] != x {
		t.Fatalf("added %+v, kept %+v, %v", x, s.kept, err)
	}
	for subject, covered := range map[string]bool{"redis": true, "redis-server": true, "nginx": true, "my-redis": false, "nginx2": false, "redis\nx": true} {
		t.Run(subject, func(t *testing.T) {
			if got := s.Covering(findings.Finding{Rule: "heat", Subject: subject}); (got == x.ID) != covered {
				t.Errorf("%q: covered by %q, want %v", subject, got, covered)
			}
		})
	}
	if got := s.Covering(findings.Finding{Rule: "cold", Subject: "redis"}); got != "" {
		t.Errorf("another rule's finding is covered by %q", got)
	}
	if all, err := s.Add(findings.Silence{Until: hour}); err != nil || s.Covering(findings.Finding{Rule: "cold", Subject: "x"}) != all.ID {
		t.Errorf("a silence of everything: %+v, %v", all, err)
	}
	if err := s.Remove("none"); !errors.Is(err, findings.ErrNoSilence) {
		t.Errorf("remove what is not there: %v", err)
	}
	s.fail = errors.New("disk full")
	if err := s.Remove(x.ID); !errors.Is(err, s.fail) || len(s.List()) != 2 {
		t.Errorf("a change that cannot be kept: %v, %d in force", err, len(s.List()))
	}
	if _, err := s.Add(findings.Silence{Until: hour}); !errors.Is(err, s.fail) || len(s.List()) != 2 {
		t.Errorf("a change that cannot be kept: %v, %d in force", err, len(s.List()))
	}
	s.fail = nil
	if err := s.Remove(x.ID); err != nil || len(s.List()) != 1 || len(s.kept) != 1 {
		t.Errorf("%v, %d in force, %d kept", err, len(s.List()), len(s.kept))
	}
	s.now = hour
	if len(s.List()) != 0 || s.Covering(findings.Finding{Rule: "heat", Subject: "redis"}) != "" {
		t.Error("a silence outlives its time")
	}
}

// TestSilencesOfUnits: a silence of a name covers findings about its units, and one of a unit covers no others.
func TestSilencesOfUnits(t *testing.T) {
	for subject, covered := range map[string]bool{"redis": true, `redis of a\.service`: true, `redis of b\.service`: false, `a\.service`: false} {
		t.Run(subject, func(t *testing.T) {
			s := newSilences(t)
			if _, err := s.Add(findings.Silence{Subject: subject, Until: s.now.Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			if got := s.Covering(findings.Finding{Rule: "heat", Subject: "redis", Unit: "a.service"}) != ""; got != covered {
				t.Errorf("%q covers a finding about a.service: %v, want %v", subject, got, covered)
			}
			if got := s.Covering(findings.Finding{Rule: "heat", Subject: "redis"}) != ""; got != (subject == "redis") {
				t.Errorf("%q covers a finding about all of redis: %v", subject, got)
			}
		})
	}
}

func TestSilenceErrors(t *testing.T) {
	s := newSilences(t)
	hour := s.now.Add(time.Hour)
	for want, x := range map[string]findings.Silence{
		`rule "rain": no such rule`:   {Rule: "rain", Until: hour},
		"subject: error parsing":      {Subject: "a(", Until: hour},
		"subject: error parsing reg":  {Subject: "a)(b", Until: hour},
		"subject: want text":          {Subject: strings.Repeat("a", 1001), Until: hour},
		"comment: want text":          {Comment: "\xff", Until: hour},
		"until: want a time":          {},
		"until: want a time in":       {Until: s.now},
		"until: want a time in the f": {Until: s.now.Add(367 * 24 * time.Hour)},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := s.Add(x); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", x, err, want)
			}
		})
	}
	if s.kept != nil || len(s.List()) != 0 {
		t.Errorf("kept %+v, in force %+v", s.kept, s.List())
	}
	for range 1000 {
		if _, err := s.Add(findings.Silence{Until: hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add(findings.Silence{Until: hour}); err == nil {
		t.Error("there is no end to silences")
	}
}

// TestSilencesTakenOver: of a file's silences, ended ones are dropped, and an invalid one does not affect the others.
func TestSilencesTakenOver(t *testing.T) {
	now := time.Unix(1000, 0)
	s, err := findings.NewSilences([]findings.Silence{
		{ID: "old", Until: now}, {ID: "bad", Rule: "gone", Until: now.Add(1)}, {ID: "good", Rule: "heat", Until: now.Add(1)},
	}, []*findings.Rule{heat}, func() time.Time { return now }, nil)
	if err == nil || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("error %v", err)
	}
	if l := s.List(); len(l) != 1 || l[0].ID != "good" {
		t.Errorf("%+v", l)
	}
}
