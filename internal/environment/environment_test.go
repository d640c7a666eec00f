package environment

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
)

var update = flag.Bool("update", false, "rewrite the want file of every fixture")

func fixtures(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/" + pattern + ".txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return paths
}

func captured(f *hosttest.Fixture) result.Environment {
	return Capture(f.Host, tee.Detect(f.Host, kinds.All))
}

// TestMutations damages every file of every fixture: no part of the capture crashes, and what is empty has a reason.
func TestMutations(t *testing.T) {
	for _, path := range fixtures(t, "*") {
		f := hosttest.Open(t, path)
		for _, file := range f.Files {
			data := f.Text(t, file)
			data = data[:min(len(data), 400)]
			n := 0
			for d := range mutate.Lines(data, " \t:-,") {
				if n++; n > 30 {
					break
				}
				f.ReplaceDuring(t, file, d.Data, func() {
					e := captured(f)
					for field, why := range e.Missing {
						if strings.Contains(why, "crashed") {
							t.Errorf("%s: %s: %s: %s: %s", path, file, d.Name, field, why)
						}
					}
					explained(t, file+": "+d.Name, &e)
				})
			}
		}
	}
}

// TestCapture compares the capture of each fixture with its want file, and checks that nothing is empty without a
// reason, also while one of its files is missing.
func TestCapture(t *testing.T) {
	for _, path := range fixtures(t, "*") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := hosttest.Open(t, path)
			e := captured(f)
			got, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			if *update {
				rewrite(t, path, got)
			} else if string(got) != f.Meta["want"] {
				t.Errorf("got %s\nwant %s", got, f.Meta["want"])
			}
			explained(t, "all files", &e)
			for _, name := range f.Files {
				f.RemoveDuring(t, name, func() {
					e := captured(f)
					explained(t, "without "+name, &e)
				})
			}
		})
	}
}

// TestAcceptance: what the kernel says of its memory, in a guest whose memory must be accepted.
func TestAcceptance(t *testing.T) {
	f := hosttest.Open(t, "testdata/guest-tdx-gcp.txtar")
	const setting = "memory_acceptance"
	for _, c := range []struct{ meminfo, cmdline, want, reason string }{
		{"MemTotal: 1 kB\nUnaccepted: 8 kB\n", "quiet", "lazy", ""},
		{"Unaccepted: 0 kB\n", "quiet", "lazy", ""},
		{"MemTotal: 1 kB\nUnaccepted: 0 kB\n", "quiet accept_memory=eager -- agent", "eager", ""},
		{"MemTotal: 1 kB\n", "accept_memory=eager", "", "no line Unaccepted"},
		{"MemTotal: 1 kB\nUnaccepted: 0 kB\n", "accept_memory=eager accept_memory=lazy", "lazy", ""},
		{"MemTotal: 1 kB\nUnaccepted: 0 kB\n", "accept_memory=quantum", "", "unknown: accept_memory=quantum"},
	} {
		t.Run(c.meminfo, func(t *testing.T) {
			f.ReplaceDuring(t, "proc/meminfo", []byte(c.meminfo), func() {
				f.ReplaceDuring(t, "proc/cmdline", []byte(c.cmdline), func() {
					e := captured(f)
					if got, why := e.TEE.Settings[setting], e.Missing["tee.settings."+setting]; got != c.want || !strings.Contains(why, c.reason) || (why == "") != (c.reason == "") {
						t.Errorf("%q, %q: %q, %q; want %q, %q", c.meminfo, c.cmdline, got, why, c.want, c.reason)
					}
				})
			})
		})
	}
	f.RemoveDuring(t, "proc/meminfo", func() {
		if e := captured(f); e.TEE.Settings[setting] != "" || e.Missing["tee.settings."+setting] == "" {
			t.Errorf("without the file: %+v, %v", e.TEE.Settings, e.Missing)
		}
	})
}

func rewrite(t *testing.T, path string, want []byte) {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
	a.Files = append(a.Files, txtar.File{Name: "want", Data: want})
	golden.Write(t, path, txtar.Format(a))
}

// answers are fields for which empty is an answer: no GPU, no swap, nothing encrypted.
var answers = []string{"hardware.gpus", "hardware.swap_bytes", "software.encryption", "software.versions", "software.worker"}

// explained fails if a field of the machine is empty without a reason.
func explained(t *testing.T, when string, e *result.Environment) {
	t.Helper()
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 && !missing(e, path) && !slices.Contains(answers, path) && path != "software.limits" {
				t.Errorf("%s: %s is empty without a reason", when, path)
			}
			for k, v := range v {
				walk(path+"."+k, v)
			}
		case []any:
			for i, v := range v {
				m, ok := v.(map[string]any)
				if name, has := m["name"].(string); ok && has {
					walk(path+"."+name, v)
				} else if ok && path == "hardware.gpus" && m["confidential_compute"] == "" {
					continue // unknown for all but NVIDIA's
				} else if !ok {
					t.Errorf("%s: %s[%d] is %v", when, path, i, v)
				}
			}
		default:
			if (v == nil || v == "" || v == 0.0) && !missing(e, path) && !slices.Contains(answers, path) {
				t.Errorf("%s: %s is %v without a reason", when, path, v)
			}
		}
	}
	b, err := json.Marshal(map[string]any{"hardware": e.Hardware, "software": e.Software, "cloud": e.Cloud, "type": e.TEE.Type})
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for k, v := range all {
		walk(k, v)
	}
	for path, why := range e.Missing {
		if strings.TrimSpace(why) == "" {
			t.Errorf("%s: %s is missing for no reason", when, path)
		}
	}
}

func TestGPUs(t *testing.T) {
	smi, err := os.ReadFile("testdata/nvidia-smi.xml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ conf, want string }{{"", "on"}, {"CC status: ON\n", "on"}, {"CC status: OFF", "off"}, {"No devices", "on"}} {
		t.Run(tt.conf, func(t *testing.T) {
			g, err := GPUs(smi, []byte(tt.conf))
			if err != nil || len(g) != 2 {
				t.Fatalf("%v, %v", g, err)
			}
			if g[0] != (result.GPU{Model: "NVIDIA H100 80GB HBM3", Driver: "550.54.15", CCMode: tt.want}) {
				t.Errorf("with %q: %+v", tt.conf, g[0])
			}
			if tt.conf == "" && g[1].CCMode != "" {
				t.Errorf("no protected memory is %q", g[1].CCMode)
			}
		})
	}
	for _, bad := range []string{"", "NVIDIA-SMI has failed", string(bytes.TrimSuffix(smi, []byte("</nvidia_smi_log>\n")))} {
		t.Run(bad, func(t *testing.T) {
			if _, err := GPUs([]byte(bad), nil); err == nil {
				t.Errorf("%.30q is taken", bad)
			}
		})
	}
}

// FuzzText feeds the pure parsers with arbitrary text of files and tools.
func FuzzText(f *testing.F) {
	for _, s := range []string{"always [madvise] never", "6.12.41+deb", "<nvidia_smi_log><gpu/></nvidia_smi_log>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, v := range []string{chosen(s), series(s)} {
			if len(v) > len(s) {
				t.Fatalf("%q grew to %q", s, v)
			}
		}
		if g, err := GPUs([]byte(s), []byte(s)); err != nil && g != nil {
			t.Fatalf("GPUs %v beside %v", g, err)
		}
	})
}
