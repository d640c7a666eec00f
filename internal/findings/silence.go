package findings

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/locked"
)

// ErrNoSilence means that there is no silence of an id.
var ErrNoSilence = errors.New("no such silence")

// The bounds of one silence, and of all.
const (
	silencesMax    = 1000
	silenceTextMax = 1000 // bytes of a pattern, and of a comment
	silenceLongest = 366 * 24 * time.Hour
)

// Silences are the current silences. A nil one is empty. Its methods may be
// called from several goroutines.
type Silences struct {
	now  func() time.Time
	keep func([]Silence) error

	changing sync.Mutex // held while a change is being kept
	current  locked.Value[current]
}

// current are the silences, and the rules that a new one may name.
type current struct {
	rules []*Rule
	list  []compiled
}

// at returns the silences by a clock that may have been set.
func (c *current) at(now time.Time) []compiled {
	for i := range c.list {
		c.list[i].rewind(now)
	}
	return c.list
}

// compiled is a silence with its compiled pattern.
type compiled struct {
	Silence
	subject *regexp.Regexp
}

// NewSilences returns the silences of a list that have not ended. keep stores every
// change before it takes effect. The error names the silences of the list that are
// invalid, for example those about a rule of another version; the others stay.
func NewSilences(list []Silence, rules []*Rule, now func() time.Time, keep func([]Silence) error) (*Silences, error) {
	s := &Silences{now: now, keep: keep, current: locked.New(current{rules: rules})}
	var kept []compiled
	var errs []error
	for _, x := range list {
		x.rewind(now())
		if !x.Until.After(now()) {
			continue
		}
		c, err := s.compile(x)
		if err != nil {
			errs = append(errs, fmt.Errorf("silence %q: %w", x.ID, err))
			continue
		}
		kept = append(kept, c)
	}
	s.current.Lock().list = kept
	s.current.Unlock()
	return s, errors.Join(errs...)
}

// rewind moves a silence that was made by a clock that was ahead to the present; it lasts as long as it was meant to.
func (x *Silence) rewind(now time.Time) {
	if !x.Created.IsZero() && earlier(now, x.Created) {
		x.Until, x.Created = now.Add(x.Until.Round(0).Sub(x.Created.Round(0))), now
	}
}

// SetRules replaces the rules that a new silence may name. Current silences stay.
func (s *Silences) SetRules(rules []*Rule) {
	s.current.Lock().rules = rules
	s.current.Unlock()
}

// compile checks a silence and compiles its pattern.
func (s *Silences) compile(x Silence) (compiled, error) {
	rules := s.current.Lock().rules
	s.current.Unlock()
	c := compiled{Silence: x}
	if x.Rule != "" && !slices.ContainsFunc(rules, func(r *Rule) bool { return r.Name == x.Rule }) {
		return c, fmt.Errorf("rule %q: no such rule; leave it out to silence all rules", x.Rule)
	}
	for name, text := range map[string]string{"subject": x.Subject, "comment": x.Comment} {
		if len(text) > silenceTextMax || !utf8.ValidString(text) {
			return c, fmt.Errorf("%s: want text of at most %d bytes", name, silenceTextMax)
		}
	}
	if x.Subject != "" {
		var err error
		if c.subject, err = Whole(x.Subject); err != nil {
			return c, fmt.Errorf("subject: %w", err)
		}
	}
	now := s.now()
	if !x.Until.After(now) || x.Until.Sub(now) > silenceLongest {
		return c, errors.New("until: want a time in the future, at most a year away")
	}
	return c, nil
}

// Whole compiles a pattern that matches the whole of a text (RE2).
func Whole(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // an error about the pattern as given, not about the group around it
	}
	return regexp.Compile("^(?s:" + pattern + ")$")
}

// Add starts a silence under a new id.
func (s *Silences) Add(x Silence) (Silence, error) {
	x.ID, x.Created = strings.ToLower(rand.Text()[:16]), s.now().UTC()
	c, err := s.compile(x)
	if err != nil {
		return x, err
	}
	return x, s.change(func(list []compiled) ([]compiled, error) {
		if len(list) >= silencesMax {
			return nil, fmt.Errorf("there are %d silences already; delete some", len(list))
		}
		return append(list, c), nil
	})
}

// Remove ends a silence; the error wraps ErrNoSilence when the id is unknown.
func (s *Silences) Remove(id string) error {
	return s.change(func(list []compiled) ([]compiled, error) {
		i := slices.IndexFunc(list, func(c compiled) bool { return c.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: %q", ErrNoSilence, id)
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// change edits the list, stores it, and then uses it. Until then the old list applies.
func (s *Silences) change(edit func([]compiled) ([]compiled, error)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	next, err := edit(s.inForce())
	if err != nil {
		return err
	}
	if err := s.keep(plain(next)); err != nil {
		return fmt.Errorf("store the silences: %w", err)
	}
	s.current.Lock().list = next
	s.current.Unlock()
	return nil
}

// inForce returns a copy of the list without ended silences.
func (s *Silences) inForce() []compiled {
	defer s.current.Unlock()
	now := s.now()
	list := s.current.Lock().at(now)
	return slices.DeleteFunc(slices.Clone(list), func(c compiled) bool { return !c.Until.After(now) })
}

// List returns the silences in force, the oldest first.
func (s *Silences) List() []Silence { return plain(s.inForce()) }

func plain(list []compiled) []Silence {
	out := make([]Silence, len(list))
	for i, c := range list {
		out[i] = c.Silence
	}
	return out
}

// Covering returns the id of the first current silence of a finding, "" for none.
func (s *Silences) Covering(f Finding) string {
	if s == nil {
		return ""
	}
	defer s.current.Unlock()
	now := s.now()
	list := s.current.Lock().at(now)
	for _, c := range list {
		if (c.Rule == "" || c.Rule == f.Rule) && (c.subject == nil || f.IsAbout(c.subject)) && c.Until.After(now) {
			return c.ID
		}
	}
	return ""
}
