package notify

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/teescope/teescope/internal/findings"
)

// TestChats: Slack and other chats get a text only, Slack with its markup escaped, and it says when a finding has ended.
func TestChats(t *testing.T) {
	slack, other := newServer(t, nil), newServer(t, nil)
	n := newTeller(t, t.TempDir(), Settings{Receivers: []Receiver{
		{Name: "slack", Format: Slack, URL: slack.URL}, {Name: "text", Format: Text, URL: other.URL}},
		Page: "https://monitor.example/?a=1&b", Least: findings.Info}, nil)
	r := opened("a")
	r.Instance, r.Subject, r.Severity = "vm1", "<db>", findings.Critical
	r.Title, r.Remedy = "<db> spends 80 % of its active time on R&D.", "Use < 3 locks."
	n.QueueChanges(list(r), list(r))
	ended := r
	ended.State, ended.Until = findings.Closed, &r.LastSeen
	n.QueueChanges(list(ended), nil)
	eventually(t, "both messages", func() bool { return len(slack.got()) == 2 && len(other.got()) == 2 })
	for _, tt := range []struct {
		*server
		want []string
	}{
		{slack, []string{
			"CRITICAL on vm1: *&lt;db&gt; spends 80 % of its active time on R&amp;D.*\nUse &lt; 3 locks.\n<LINK|Open in teescope>",
			"ENDED on vm1: *&lt;db&gt; spent 80 % of its active time on R&amp;D.*\n<LINK|Open in teescope>"}},
		{other, []string{
			"CRITICAL on vm1: <\u200bdb> spends 80 % of its active time on R&D.\nUse <\u200b 3 locks.\nLINK",
			"ENDED on vm1: <\u200bdb> spent 80 % of its active time on R&D.\nLINK"}},
	} {
		tt.mu.Lock()
		for i, body := range tt.bodies {
			var got map[string]string
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if keys := slices.Collect(maps.Keys(got)); !slices.Equal(keys, []string{"text"}) {
				t.Errorf("%s has the keys %q", body, keys)
			}
			if text := regexp.MustCompile(`https://[^|>\s]+`).ReplaceAllString(got["text"], "LINK"); text != tt.want[i] {
				t.Errorf("got\n%s\nwant\n%s", text, tt.want[i])
			}
		}
		tt.mu.Unlock()
	}
}

// TestChatsOfOddNames: what processes and machines call themselves mentions nobody, adds no line and ends no markup.
func TestChatsOfOddNames(t *testing.T) {
	slack, other := newServer(t, nil), newServer(t, nil)
	n := newTeller(t, t.TempDir(), Settings{Receivers: []Receiver{
		{Name: "slack", Format: Slack, URL: slack.URL}, {Name: "text", Format: Text, URL: other.URL}}, Least: findings.Info}, nil)
	r := opened("a")
	r.Instance, r.Subject, r.Severity = "<!channel>\nvm", "@all*`\u2028<users/all>\x1b", findings.Critical
	r.Title, r.Remedy = r.Subject+" waits.", "Use `nice`\nnow."
	n.QueueChanges(list(r), list(r))
	eventually(t, "both messages", func() bool { return len(slack.got()) == 1 && len(other.got()) == 1 })
	for _, tt := range []struct {
		*server
		want string
	}{
		{slack, "CRITICAL on &lt;!channel&gt; vm: *@all\u2217\u02cb &lt;users/all&gt;\uFFFD waits.*\nUse `nice` now."},
		{other, "CRITICAL on <\u200b!channel> vm: @\u200ball*` <\u200busers/all>\uFFFD waits.\nUse `nice` now."},
	} {
		t.Run(tt.want, func(t *testing.T) {
			tt.mu.Lock()
			var got chat
			if err := json.Unmarshal([]byte(tt.bodies[0]), &got); err != nil || got.Text != tt.want {
				t.Errorf("got %q, want %q (%v)", got.Text, tt.want, err)
			}
			tt.mu.Unlock()
		})
	}
}

// TestWhatIsSent: a receiver gets the findings whose subjects meet all its conditions, and an early one once its
// windows are met.
func TestWhatIsSent(t *testing.T) {
	s := newServer(t, nil)
	only := func(p string) Subjects { return Subjects{Only: regexp.MustCompile("^(?:" + p + ")$")} }
	not := func(p string) Subjects { return Subjects{Not: regexp.MustCompile("^(?:" + p + ")$")} }
	n := newTeller(t, t.TempDir(), Settings{Receivers: []Receiver{
		{Name: "hook", Format: Webhook, URL: s.URL, Subjects: []Subjects{only("redis.*|machine"), not("redis-test|redis-server of b[.]service")}}}, Least: findings.Info}, nil)
	about := func(subject string) findings.Record {
		r := opened(subject)
		r.Subject = subject
		return r
	}
	other := about("redis-server")
	other.ID, other.Unit = "other", "b.service" // of which the receiver wants nothing
	machine := about("machine")
	machine.Early = true
	open := list(about("python3"), about("redis-server"), about("redis-test"), machine, other)
	n.QueueChanges(open, open)
	eventually(t, "redis-server", func() bool { return len(s.got()) == 1 })
	closed := machine
	closed.State, closed.Until = findings.Closed, &machine.LastSeen
	n.QueueChanges(list(closed), slices.Concat(open[:3], open[4:])) // a burst, of which nobody heard
	machine.Early = false
	open[3] = machine
	n.QueueChanges(list(machine), open)
	eventually(t, "machine", func() bool { return len(s.got()) == 2 })
	if got := s.got(); !slices.Equal(got, []string{"redis-server open", "machine open"}) {
		t.Errorf("sent %q", got)
	}
}
