package notify

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/teescope/teescope/internal/findings"
)

// TestMessagesNameProblems: each message has the open problems of the finding's machine, as the page counts them, and
// the one that the finding is part of.
func TestMessagesNameProblems(t *testing.T) {
	hooks, manager := newServer(t, nil), newServer(t, nil)
	n := newTeller(t, t.TempDir(), Settings{Receivers: []Receiver{
		{Name: "hook", Format: Webhook, URL: hooks.URL}, {Name: "manager", Format: Alertmanager, URL: manager.URL}}, Least: findings.Info}, nil)
	cause, effect, far, note := opened("cause"), opened("effect"), opened("far"), opened("note")
	cause.Subject, cause.Topic, cause.Role = "machine", "CPU saturated", findings.RoleCause
	effect.Topic, effect.Role = cause.Topic, findings.RoleEffect
	far.Job, far.Instance = "agents", "far"
	note.Severity = findings.Info
	open := list(note, effect, cause, far)
	early := opened("early")
	early.Subject, early.Early = "machine", true
	n.QueueChanges(open, append(list(early), open...))
	eventually(t, "all messages", func() bool { return hooks.requests() == len(open) && manager.requests() == len(open) })

	here := findings.Problems(list(cause, effect, note))
	if len(here) != 1 || here[0].Title != "CPU saturated: 1 effect, on "+effect.Subject {
		t.Fatalf("problems here: %+v", here)
	}
	there := findings.Problems(list(far))
	want := map[string]string{"cause": here[0].Title, "effect": here[0].Title, "far": there[0].Title, "note": ""}
	hooks.mu.Lock()
	defer hooks.mu.Unlock()
	for _, body := range hooks.bodies {
		var got struct {
			ID, Problem string
			Problems    []findings.Problem
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		all := here
		if got.ID == "far" {
			all = there
		}
		if got.Problem != want[got.ID] || !reflect.DeepEqual(got.Problems, all) {
			t.Errorf("%s is part of %q among %+v, want %q among %+v", got.ID, got.Problem, got.Problems, want[got.ID], all)
		}
	}
	manager.mu.Lock()
	defer manager.mu.Unlock()
	for i, body := range manager.bodies {
		var got []alert
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got) != 1 {
			t.Fatalf("%v in %s", err, body)
		}
		if id := open[i].ID; got[0].Annotations["problem"] != want[id] {
			t.Errorf("the alert about %s is part of %q, want %q", id, got[0].Annotations["problem"], want[id])
		}
	}
}
