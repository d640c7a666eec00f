package result

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWithoutSecrets: neither a result, its stream, its raw outputs nor its summary has a secret of a command line, parameter or reason;
// the value that was written keeps them, because it may still run.
func TestWithoutSecrets(t *testing.T) {
	const marker = "s3cretMarker"
	e := sample()
	e.Tool.Command = []string{"teescope", "bench", "run", "--password", marker, "--param", "command=redis-benchmark -a " + marker}
	e.Cases[0].Params = map[string]string{"password": marker, "command": "curl -H 'Authorization: Bearer " + marker + "' http://u:" + marker + "@host/?token=" + marker, "size": "4"}
	e.Environments[0].Params = map[string]string{"env": "PASSWORD=" + marker}
	e.Environments[0].Missing = map[string]string{"tee": "ask https://" + marker + "@host/: refused"}
	e.Environments[0].Software.Cmdline = "quiet luks.passphrase=" + marker + " mitigations=off"
	path := filepath.Join(t.TempDir(), "r.json")
	s, err := Create(path, e)
	if err != nil {
		t.Fatal(err)
	}
	r := run(0)
	r.Reason = "run prog --token " + marker + ": exit status 1"
	raw, err := s.Raw(r.ID, "stderr", []byte("connect to http://u:"+marker+"@host/\n"))
	if err != nil {
		t.Fatal(err)
	}
	r.Raw = []RawFile{raw}
	if err := s.Run(r); err != nil {
		t.Fatal(err)
	}
	partly, err := os.ReadFile(partial(path))
	if err != nil {
		t.Fatal(err)
	}
	e.Runs = append(e.Runs, *r)
	if err := s.Finish(e); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.ReadFile(filepath.Join(filepath.Dir(path), raw.Path))
	if err != nil {
		t.Fatal(err)
	}
	summary, err := Summarize(e)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"the stream": partly, "the document": whole, "the output": output, "the summary": summary} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(text), "xxxxx") || strings.Contains(string(text), marker) {
				t.Errorf("%s: %s", name, text)
			}
		})
	}
	if e.Cases[0].Params["password"] != marker || e.Tool.Command[4] != marker || e.Runs[0].Reason != r.Reason {
		t.Error("the value that was written has changed")
	}
	back, err := Read(path)
	if err != nil || back.Digest != e.Digest || back.Cases[0].Params["size"] != "4" || !strings.HasSuffix(back.Environments[0].Software.Cmdline, " mitigations=off") {
		t.Errorf("read again: %+v, %v", back, err)
	}

	// A document of another program may have them.
	e.Digest = ""
	foreign, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(foreign)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(parsed)
	if err != nil || strings.Contains(string(shown), marker) {
		t.Errorf("parsed: %s, %v", shown, err)
	}
}
