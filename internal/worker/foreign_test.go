package worker

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
)

// TestForeign: each process's output is kept, with the server's counts over the time of all
// processes.
func TestForeign(t *testing.T) {
	asked := 0.0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintf(w, `{"cpus": 2, "asked_total": %g}`, 10*asked)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	var errs bytes.Buffer
	run := func(more ...string) (string, error) {
		f := flag.NewFlagSet("foreign", flag.ContinueOnError)
		do := foreign.Flags(f)
		if err := f.Parse(append([]string{"-address", address, "-stats", "counts", "-stats-address", address}, more...)); err != nil {
			t.Fatal(err)
		}
		if err := inBounds(f); err != nil {
			return "", err
		}
		var out bytes.Buffer
		errs.Reset()
		err := do(t.Context(), Streams{In: strings.NewReader("go on\ngo on\n"), Out: &out, Err: &errs})
		return out.String(), err
	}
	said, err := run("-processes", "3", "-generator", `["sh", "-c", "echo from $1", "-", "a b"]`)
	var r load.Foreign
	if err != nil || json.Unmarshal([]byte(said), &r) != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if len(r.Outputs) != 3 || r.Outputs[2] != "from a b\n" || r.Cores < 1 || !(r.Seconds > 0) || r.Together > r.Seconds {
		t.Errorf("it says %s", said)
	}
	if r.Server["cpus"] != 2 || r.Server["asked_total"] != 10 {
		t.Errorf("the server's counts are %v", r.Server)
	}
	if errs.Len() > 0 {
		t.Errorf("without -hold it says %q", errs.String())
	}
	// The counting process is notified before the first and after the last request.
	if _, err := run("-hold", "-generator", `["true"]`); err != nil || errs.String() != load.Begins+"\n"+load.Ends+"\n" {
		t.Errorf("with -hold it says %q: %v", errs.String(), err)
	}
	if said, err := run("-processes", "2", "-input", "a script", "-generator", `["cat"]`); err != nil || strings.Count(said, `"a script"`) != 2 {
		t.Errorf("with -input it says %s: %v", said, err)
	}
	// A path is taken as it is, also relative to this folder.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hey"), []byte("#!/bin/sh\necho it is $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{filepath.Join(dir, "hey"), "./hey"} {
		said, err := run("-generator", `["`+name+`", "me"]`)
		if err != nil || !strings.Contains(said, `"it is me\n"`) {
			t.Errorf("%s: %s, %v", name, said, err)
		}
	}
	for _, c := range []struct{ flags, want string }{
		{`-generator ["` + dir + `/none"]`, "none: no such file"},
		{"-command []", "words"},
		{"-command ab", "words"},
		{`-generator ["none-such"]`, "none-such"},
		{`-generator ["true"] -processes 0`, "processes"},
		{`-generator ["sh","-c","echo$IFS'no/way'>&2;exit$IFS'3'"] -processes 2`, "no/way"},
		{`-processes 2 -generator ["sh","-c","head$IFS-c$IFS'1048577'$IFS/dev/zero"]`, "more than the 1048576 bytes"},
		{`-generator ["sh","-c","head$IFS-c$IFS'99000000'$IFS/dev/zero"]`, "more than the 2097152 bytes"},
		{`-generator ["sh","-c","echo$IFS'usage:'$IFS'x'>&2;echo$IFS'bad/way'>&2;exit$IFS'3'"]`, "3: bad/way"},
	} {
		if _, err := run(strings.Fields(c.flags)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want it to name %s", c.flags, err, c.want)
		}
	}
}
