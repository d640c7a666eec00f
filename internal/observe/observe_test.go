package observe

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// TestShareReadings: scrapes at the same time read the sources once, also if the first client leaves, and the next scrape reads anew.
func TestShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, release := 0, make(chan struct{})
		collect := shareReadings(func(ctx context.Context) []metric.Sample {
			readings++
			<-release
			if ctx.Err() != nil {
				return nil
			}
			return []metric.Sample{{Desc: InfoDesc, Value: float64(readings)}}
		})
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		got := make([]float64, 50)
		scrape := func(i int, ctx context.Context) {
			all.Go(func() {
				for _, s := range collect(ctx) {
					got[i] = s.Value
				}
			})
		}
		scrape(0, first)
		synctest.Wait()
		for i := range got[1:] {
			scrape(i+1, t.Context())
		}
		synctest.Wait()
		leave()
		close(release)
		all.Wait()
		if want := slices.Repeat([]float64{1}, len(got)); readings != 1 || !slices.Equal(got, want) {
			t.Errorf("%d readings; the scrapes got %v", readings, got)
		}
		if s := collect(t.Context()); readings != 2 || len(s) != 1 || s[0].Value != 2 {
			t.Errorf("the next scrape: %d readings, %v", readings, s)
		}
	})
}

func TestChoose(t *testing.T) {
	list := []*probe.Source{{Name: "cpu"}, {Name: "self"}, {Name: "sgx"}, {Name: "sgx_epc"}}
	for pattern, want := range map[string]string{"": "cpu self sgx sgx_epc", "^self$": "self", "sgx": "sgx sgx_epc", "cpu|epc": "cpu sgx_epc"} {
		t.Run(pattern, func(t *testing.T) {
			got, err := choose(list, pattern)
			var names []string
			for _, s := range got {
				names = append(names, s.Name)
			}
			if err != nil || strings.Join(names, " ") != want {
				t.Errorf("--sources %q: %v, %v; want %s", pattern, names, err, want)
			}
		})
	}
	for pattern, want := range map[string]string{"gpu": "no source", "(": "--sources: error parsing"} {
		t.Run(pattern, func(t *testing.T) {
			if _, err := choose(list, pattern); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("--sources %q: error %v, want %q", pattern, err, want)
			}
		})
	}
}
