package observe

import (
	"strings"
	"testing"
)

func TestGroupOf(t *testing.T) {
	if id, err := groupOf("54321"); id != 54321 || err != nil {
		t.Errorf("%d %v", id, err)
	}
	for _, name := range []string{"no such group", "-1", "4294967296"} {
		t.Run(name, func(t *testing.T) {
			if _, err := groupOf(name); err == nil || !strings.Contains(err.Error(), "groupadd") {
				t.Errorf("%q: %v", name, err)
			}
		})
	}
}
