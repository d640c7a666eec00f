//go:build measure

package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// writes makes each answer of a server a call into an enclave first, which takes as long as literature has it.
const writes = `
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct table { size_t n; void (*function[1])(void *); };
int sgx_ecall(unsigned long eid, int index, const struct table *t, long *ms);

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

ssize_t write(int fd, const void *b, size_t n)
{
	static const struct table none;
	long long until = now() + 4200;
	long ms = 0;

	sgx_ecall(1, 0, &none, &ms);
	while (now() < until)
		;
	return syscall(SYS_write, fd, b, n);
}
`

// TestTransitionsAreNamed compares Redis with and without a runtime of enclaves, each of whose answers is a call into
// one: counted in the one arm, 0 in the other, and named as the cause of the cost.
// The runtime has the names of the Intel SDK's library and of its functions, and no enclave.
func TestTransitionsAreNamed(t *testing.T) {
	needRoot(t)
	tool(t, "redis-server", "redis-server")
	dir := t.TempDir()
	lib, stub := filepath.Join(dir, "libsgx_urts.so.2"), filepath.Join(dir, "stub.yaml")
	for name, text := range map[string]string{filepath.Join(dir, "writes.c"): writes, stub: fmt.Sprintf(
		"name: stub\ndoc: A runtime of enclaves without an enclave.\nrun:\n  argv: [\"{argv}\"]\n  env: {LD_PRELOAD: %q}\ntee:\n  kind: none\n", lib)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(tool(t, "cc", "gcc"), "-shared", "-fPIC", "-O2", "-o", lib, "../internal/probe/sources/testdata/runtimes/urts.c", filepath.Join(dir, "writes.c")).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	path := filepath.Join(dir, "r.json")
	_, said, code := run(t, "bench", "run", "redis", "--env", "native", "--env", "enclave="+stub, "--pairs", "7",
		"--param", "connections=4", "--param", "pipeline=1", "--param", "keys=1000", "--param", "warm=1s", "--param", "measure=2s", "--out", path, "--data", t.TempDir())
	e, err := result.Read(path)
	if err != nil {
		t.Fatalf("status %d: %v\n%s", code, err, said)
	}
	c := e.Comparisons[0]
	share, calls := 0.0, math.NaN()
	for _, a := range explain.RowsOf(e.Attribution, &c) {
		if a.Metric != explain.EnclaveEntries {
			continue
		}
		if *a.Base != 0 {
			t.Errorf("the native arm has %v of %s", *a.Base, a.Counter)
		}
		if a.Labels["runtime"] != "" {
			calls = a.Delta
		}
		if a.Share != nil {
			share += *a.Share
		}
	}
	t.Logf("%s; %.3g calls an operation are %.1f %% of the cost: %s", c.Headline, calls, 100*share, c.Cause)
	if math.Abs(calls-1) > 0.05 {
		t.Errorf("an operation has %v calls into the enclave, want 1", calls)
	}
	if c.CostLow == nil {
		t.Skipf("the machine is too busy for a verdict: %s", c.Headline)
	}
	if !strings.Contains(c.Cause, "calls into and out of enclaves") || share < 0.1 {
		t.Errorf("transitions are %.3g of the difference; the cause is %q", share, c.Cause)
	}
}
