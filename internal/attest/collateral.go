package attest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// vendors asks the services of vendors.
type vendors struct{ client *http.Client }

// Vendors returns the services of Intel (PCS) and AMD (KDS) on the Internet. What they answer at fault is asked for again twice.
func Vendors() Collateral { return vendors{http.DefaultClient} }

// Bounds of a fetch. Intel's largest revocation list has some hundred KiB.
const (
	mostBody     = 4 << 20
	fetchTime    = 10 * time.Second
	betweenTries = 2 * time.Second
	tries        = 3
)

// Get fetches.
func (v vendors) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	for n := 1; ; n++ {
		header, body, again, err := v.fetch(ctx, url)
		if err == nil || !again || n == tries {
			return header, body, err
		}
		select {
		case <-time.After(time.Duration(n) * betweenTries):
		case <-ctx.Done():
			return nil, nil, err
		}
	}
}

// fetch asks once. It reports whether another try may help.
func (v vendors) fetch(ctx context.Context, url string) (header map[string][]string, body []byte, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, false, err
	}
	r, err := v.client.Do(request)
	if err != nil {
		return nil, nil, true, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, nil, r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests, fmt.Errorf("fetch %s: the service answers %s", url, r.Status)
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, mostBody+1))
	if err == nil && len(body) > mostBody {
		return nil, nil, false, fmt.Errorf("fetch %s: the answer is larger than %d bytes", url, mostBody)
	}
	if err != nil {
		return nil, nil, true, fmt.Errorf("fetch %s: %w", url, err)
	}
	return r.Header, body, false, nil
}

// Cached is a collateral whose answers are kept for a time; 0 is as long as the process runs. Failures are kept for a
// minute, as evidence that nobody has verified yet names some of the addresses: its sender must not cause a fetch each time.
func Cached(c Collateral, keep time.Duration) Collateral {
	return &cache{from: c, keep: keep, have: map[string]answer{}, failed: map[string]failure{}}
}

type cache struct {
	from   Collateral
	keep   time.Duration
	mu     sync.Mutex
	have   map[string]answer
	failed map[string]failure
}

type answer struct {
	header map[string][]string
	body   []byte
	at     time.Time
}

type failure struct {
	err error
	at  time.Time
}

// Bounds of a cache.
const (
	mostAnswers = 1000
	// failedFor is how long a failure is kept, and mostFailed how many of one kind of address stop fetches from addresses
	// of that kind that never answered.
	failedFor  = time.Minute
	mostFailed = 50
)

// Get asks the collateral behind it for what it does not have, once for each caller that asks at the
// same time.
func (c *cache) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	began := time.Now()
	if a, ok, err := c.findAnswer(url, began); ok || err != nil {
		return a.header, a.body, err
	}
	header, body, err := c.from.Get(ctx, url) // a slow answer to one does not hold up others
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil || now.Sub(began) >= fetchTime { // a caller that gave up early says nothing of the service
			c.failed[url] = failure{err, now}
		}
		return nil, nil, err
	}
	delete(c.failed, url)
	if len(c.have) >= mostAnswers {
		clear(c.have)
	}
	c.have[url] = answer{header, body, now}
	return header, body, nil
}

// findAnswer returns an answer that still holds, or the error of a fetch that must not be tried now.
func (c *cache) findAnswer(url string, now time.Time) (a answer, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, answered := c.have[url]
	if answered && (c.keep == 0 || now.Sub(a.at) < c.keep) {
		return a, true, nil
	}
	maps.DeleteFunc(c.failed, func(_ string, f failure) bool { return now.Sub(f.at) >= failedFor })
	if f, bad := c.failed[url]; bad {
		return answer{}, false, fmt.Errorf("%w (this was %s ago; the next try is %s after the failure)", f.err, now.Sub(f.at).Round(time.Second), failedFor)
	}
	alike := 0
	for other := range c.failed {
		if kindOf(other) == kindOf(url) {
			alike++
		}
	}
	if !answered && alike >= mostFailed {
		return answer{}, false, fmt.Errorf("fetch %s: not tried, because %d fetches of this kind failed within %s; addresses that never answered are tried later", url, alike, failedFor)
	}
	return answer{}, false, nil
}

// kindOf returns an address without what evidence may put into it: the query, and the last part of the path where it has
// the length of a chip's identity. Failures of what strangers name must not stop the fetch of a revocation list.
func kindOf(address string) string {
	address, _, _ = strings.Cut(address, "?")
	if i := strings.LastIndexByte(address, '/'); len(address)-i > 16 {
		return address[:i+1]
	}
	return address
}
