package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn is a PyTorch that can only count, on a GPU that does what FAULT says. No GPU is needed to see how the script
// takes what goes wrong.
const standIn = `
import os
fault = os.environ["FAULT"]
if fault == "no torch":
    raise ImportError("No module named 'torch'")
__version__ = "0-stand-in"
int64 = "int64"
class device:
    type = "cuda"
    def __init__(self, *_): pass
class version:
    cuda = "0"
class cuda:
    is_available = staticmethod(lambda: fault != "no gpu")
    synchronize = staticmethod(lambda _: None)
    class get_device_properties:
        name, total_memory = "stand-in", 1
        def __init__(self, _): pass
class zeros:
    def __init__(self, *_, **__): self.n = 0
    def add_(self, by):
        self.n += by
        if self.n > 50:
            if fault == "vanishes": raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA")
            if fault == "memory": raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            if fault == "host memory": raise MemoryError()
            if fault == "unsupported": raise RuntimeError("add is only supported on CUDA devices with compute capability >= 9.0")
            if fault == "other version": raise TypeError("add() got an unexpected keyword argument")
            if fault == "miscounts": self.n += 1
    def item(self): return self.n
`

// TestFaults: what is missing, and what a GPU does wrong, is a status and one line.
// stand-in: pytorch
func TestFaults(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here; package python3 has it")
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"torch.py": []byte(standIn), "gpu.py": Script} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, c := range []struct {
		fault  string
		status int
		says   string
	}{
		{"none", 0, ""},
		{"no torch", 2, "missing: PyTorch (No module named 'torch')"},
		{"no gpu", 2, "missing: a GPU that PyTorch 0-stand-in can use"},
		{"unsupported", 2, "missing: this GPU or PyTorch cannot do it"},
		{"other version", 2, "missing: PyTorch 0-stand-in cannot do it: add() got an unexpected"},
		{"vanishes", 3, "the GPU failed or vanished: CUDA error: unspecified launch failure Compile"},
		{"memory", 4, "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB; choose"},
		{"host memory", 4, "out of memory"},
		{"miscounts", 5, "the device counted"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			var out, errs bytes.Buffer
			run := exec.Command(python, "-B", filepath.Join(dir, "gpu.py"), "launch", "--repeats", "40", "--warm", "5")
			run.Env = append(os.Environ(), "FAULT="+c.fault)
			run.Stdout, run.Stderr = &out, &errs
			err := run.Run()
			status := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			said := errs.String()
			if status != c.status || !strings.Contains(said, c.says) || strings.Count(said, "\n") != min(c.status, 1) {
				t.Errorf("%s: status %d, want %d with %q in one line:\n%s", c.fault, status, c.status, c.says, said)
			}
			if c.status != 0 {
				return
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			var r map[string]any
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r["device"] != "stand-in" || r["counted"] != 85.0 || r["clock_hertz"] == nil && r["clock_hertz_missing"] == nil {
				t.Errorf("%v: %s", err, out.String())
			}
			if got := strings.Join(lines[:len(lines)-1], ","); got != "begin queued,end queued,begin waited,end waited" {
				t.Errorf("lines %s", got)
			}
		})
	}
}
