package rules

import (
	"slices"
	"testing"

	"github.com/teescope/teescope/internal/findings"
)

// TestTopics: each topic has rules about its cause and about its effects, and every cause and effect has a topic, from
// its rule or from one of its signs.
func TestTopics(t *testing.T) {
	roles := map[string][]findings.Role{}
	for _, r := range All {
		topics := []string{r.Topic}
		for _, c := range comparisons {
			if c.Name != r.Name {
				continue
			}
			for _, s := range c.signs {
				topics = append(topics, s.topic)
			}
		}
		topics = slices.DeleteFunc(topics, func(topic string) bool { return topic == "" })
		if len(topics) == 0 && (r.Role == findings.RoleCause || r.Role == findings.RoleEffect) || len(topics) > 0 && r.Role == "" {
			t.Errorf("rule %s has the role %q and the topics %q", r.Name, r.Role, topics)
		}
		for _, topic := range topics {
			roles[topic] = append(roles[topic], r.Role)
		}
	}
	if len(roles) == 0 {
		t.Fatal("no rule has a topic")
	}
	for topic, list := range roles {
		t.Run(topic, func(t *testing.T) {
			if !slices.Contains(list, findings.RoleCause) || !slices.Contains(list, findings.RoleEffect) {
				t.Errorf("topic %q has only the roles %q", topic, list)
			}
		})
	}
}
