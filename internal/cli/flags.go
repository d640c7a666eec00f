package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// dataDir is the default place of the store.
func dataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/teescope"
	}
	if d, err := os.UserHomeDir(); err == nil {
		return filepath.Join(d, ".local", "share", "teescope")
	}
	return "teescope-data"
}

// duration is a flag that also takes days, as Prometheus does.
type duration time.Duration

func (d *duration) String() string {
	if v := time.Duration(*d); v > 0 && v%(24*time.Hour) == 0 {
		return strconv.Itoa(int(v/(24*time.Hour))) + "d"
	}
	return metric.ShortDuration(time.Duration(*d))
}

// Type names the value in the help text.
func (d *duration) Type() string { return "duration" }

// Set parses the flag.
func (d *duration) Set(v string) error {
	if n, ok := strings.CutSuffix(v, "d"); ok {
		if days, err := metric.ParseNumber(n); err == nil && days > 0 && days < 36500 {
			*d = duration(days * float64(24*time.Hour))
			return nil
		}
	}
	p, err := time.ParseDuration(v)
	if err != nil || p <= 0 {
		return fmt.Errorf("%q: want a time like 36h or 15d", v)
	}
	*d = duration(p)
	return nil
}
