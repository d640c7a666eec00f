package docstest

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that only notes whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	const page = "# Page\n\n## a\n\ntext of a\n\n## c\n\ntext of c\n"
	for _, tt := range []struct {
		name, want string
		update     bool
		fails      bool
		page       string
	}{
		{"same", "## a\n\ntext of a\n\n", false, false, page},
		{"same, update", "## a\n\ntext of a\n\n", true, false, page},
		{"other", "## a\n\nother\n\n", false, true, page},
		{"other, update", "## a\n\nother\n\n", true, true, "# Page\n\n## a\n\nother\n\n## c\n\ntext of c\n"},
		{"last", "## c\n\ntext of c\n", false, false, page},
		{"new", "## b\n\ntext of b\n\n", false, true, page},
		{"new, update", "## b\n\ntext of b\n\n", true, true, "# Page\n\n## a\n\ntext of a\n\n## b\n\ntext of b\n\n## c\n\ntext of c\n"},
		{"a longer heading", "## aa\n\n", false, true, page},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			Check(r, file, tt.want, []string{"## absent", "## c"}, tt.update)
			got, err := os.ReadFile(file)
			if err != nil || string(got) != tt.page || r.failed != tt.fails {
				t.Errorf("failed %v, %v, page\n%s", r.failed, err, got)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{"a few words": "A few words.", "A sentence.": "A sentence.", "words.\n\n- Cost: none": "Words.\n\n- Cost: none"} {
		t.Run(in, func(t *testing.T) {
			if got := Sentence(in); got != want {
				t.Errorf("%q gives %q, want %q", in, got, want)
			}
		})
	}
}
