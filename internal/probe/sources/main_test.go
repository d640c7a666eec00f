package sources

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/probe/probetest"
)

// ownName is this process's name: its own, because other tests may run on the machine at the same time, also these.
var ownName = probetest.Name("src")

func TestMain(m *testing.M) {
	firstAnswer = time.Hour // on a busy machine a command that answers at once may answer late
	if err := os.WriteFile("/proc/self/comm", []byte(ownName), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
