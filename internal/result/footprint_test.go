package result

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/quota"
)

// TestFootprint: the estimate of what reading a document takes is near what it takes, for documents with many small values, and for a
// real one.
func TestFootprint(t *testing.T) {
	z, err := os.Open("../../experiments/results/e4-7zip.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	r, err := gzip.NewReader(z)
	if err != nil {
		t.Fatal(err)
	}
	real, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"a real one":    real,
		"numbers":       []byte(`{"schema_version":"2.0","x":[0` + strings.Repeat(",0", 200_000) + `]}`),
		"empty lists":   []byte(`{"schema_version":"2.0","x":[[]` + strings.Repeat(",[]", 200_000) + `]}`),
		"empty objects": []byte(`{"schema_version":"2.0","x":[{}` + strings.Repeat(",{}", 200_000) + `]}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := Parse(b)
			runtime.ReadMemStats(&after)
			took := int64(after.TotalAlloc - before.TotalAlloc)
			estimate := int64(len(b))*textBytes + valuesBytes(b)
			if (err == nil) != (name == "a real one") || 3*estimate < took { // a part of what is allocated is garbage before the end
				t.Errorf("%s: %d KiB, %d are estimated, %d were allocated in total; %v", name, len(b)>>10, estimate>>10, took>>10, err)
			}
		})
	}
}

// TestTooLarge: a document that would take more memory than documents may is refused before it is parsed, with the numbers.
func TestTooLarge(t *testing.T) {
	share := quota.NewShare("results", 8<<20)
	was := memory
	memory = func() *quota.Share { return share }
	defer func() { memory = was }()
	bomb := []byte(`{"schema_version":"2.0","x":[0` + strings.Repeat(",0", 1<<20) + `]}`)
	if _, err := Parse(bomb); !errors.As(err, new(*quota.Exceeded)) || !strings.Contains(err.Error(), "all results together may have 8.0 MiB") {
		t.Errorf("many values: %v", err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 9<<20))
	_ = w.Close()
	path := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "it has more than 2097152 bytes") {
		t.Errorf("a small file that is large: %v", err)
	}
	// What others read leaves no memory to expand it, also before it is parsed; that it was refused for that is not kept.
	b.Reset()
	w = gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	others, err := share.Reserve(7 << 20)
	if err != nil {
		t.Fatal(err)
	}
	a := Archive{Dir: filepath.Dir(path)}
	for name, read := range map[string]func() error{
		"a file":                func() error { _, err := Read(path); return err },
		"a document":            func() error { _, err := a.Get("r"); return err },
		"the list":              func() error { _, err := a.List(); return err },
		"the bytes of the file": func() error { _, err := bytesOf("/proc/self/exe"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var full *quota.Exceeded
			if err := read(); !errors.As(err, &full) || !full.Busy() {
				t.Errorf("%s, while others have the memory: %v", name, err)
			}
		})
	}
	others()
	if _, err := a.Get("r"); err == nil || errors.As(err, new(*quota.Exceeded)) || !strings.Contains(err.Error(), "not a complete JSON document") {
		t.Errorf("afterwards: %v", err)
	}
	if share.UsedBytes() != 0 {
		t.Errorf("%d bytes are still reserved", share.UsedBytes())
	}
}
