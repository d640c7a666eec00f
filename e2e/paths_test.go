package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// TestPathsOfOthers: a user who may not list a folder learns no name in it from an agent of root: neither by naming the folder in a
// request, nor where the configuration names it.
func TestPathsOfOthers(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := t.TempDir()
	private := filepath.Join(dir, "private")
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("sources:\n  gramine:\n    on: true\n    files: [%q]\n", private+"/*")
	if err := errors.Join(os.Mkdir(private, 0o700), os.WriteFile(filepath.Join(private, "api-key-4711.txt"), []byte("hunter2\n"), 0o600), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	m := startMonitor(t, "agent", "--config", config)
	curl := tool(t, "curl", "curl")
	asNobody := func(args ...string) string {
		t.Helper()
		c := exec.Command(curl, append([]string{"-sS", "-w", "\n%{http_code}"}, args...)...)
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	at := m.url + "/api/teescope/v1/sources"
	answers := []string{}
	for _, pattern := range []string{private + "/*", "/*/*/*/*/*/*/*/*/*", "/dev/zero"} {
		answer := asNobody("-d", fmt.Sprintf(`{"on":true,"files":[%q]}`, pattern), at+"/gramine")
		if code := answer[strings.LastIndex(answer, "\n")+1:]; code != "400" && code != "401" && code != "403" {
			t.Errorf("files %s: %s", pattern, answer)
		}
		answers = append(answers, answer)
	}
	await.Event(t, "the source says that the file has no statistics", func() error {
		answers = append(answers, asNobody(m.url+"/metrics"), asNobody(at)) // an agent reads its sources when it is asked
		if list := answers[len(answers)-1]; !strings.Contains(list, "no statistics of Gramine yet in the files that match "+private+"/*") {
			return errors.New(list)
		}
		return nil
	})
	for _, answer := range answers {
		if strings.Contains(answer, "api-key") || strings.Contains(answer, "hunter2") {
			t.Fatalf("a name or the text of a file: %s", answer)
		}
	}
	if !strings.Contains(m.Err.String(), "api-key-4711.txt") {
		t.Errorf("the log does not name the file:\n%s", m.Err)
	}
}
