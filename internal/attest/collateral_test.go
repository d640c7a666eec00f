package attest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a service that fails for some addresses.
type counted struct {
	asked int
	fails func(url string) bool
}

func (c *counted) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	c.asked++
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if c.fails != nil && c.fails(url) {
		return nil, nil, errors.New("busy")
	}
	return nil, []byte("body"), nil
}

// TestCachedFor: an answer is fetched once, again when it is too old, and a full cache is emptied.
func TestCachedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &counted{}
		c := Cached(from, time.Hour)
		get := func(url string, want int) {
			t.Helper()
			if _, body, err := c.Get(t.Context(), url); err != nil || string(body) != "body" || from.asked != want {
				t.Errorf("%s: %q, asked %d times, want %d: %v", url, body, from.asked, want, err)
			}
		}
		get("a", 1)
		time.Sleep(time.Hour - time.Second)
		get("a", 1)
		time.Sleep(time.Second)
		get("a", 2)
		for i := range mostAnswers {
			get(fmt.Sprint(i), 3+i)
		}
		get("a", 3+mostAnswers)
		ever := Cached(from, 0)
		_, _, first := ever.Get(t.Context(), "a")
		asked := from.asked
		time.Sleep(1000 * time.Hour)
		if _, _, err := ever.Get(t.Context(), "a"); first != nil || err != nil || from.asked != asked {
			t.Errorf("an answer that is kept for ever was fetched again: %v, %v", first, err)
		}
	})
}

// TestCachedFailures: a failing fetch is not tried again for a minute, whoever asks. Many failing addresses stop fetches from
// others of their kind that never answered, and not from those that did. A caller that gave up is no failure of the service.
func TestCachedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		from := &counted{fails: func(url string) bool { return away || strings.HasSuffix(url, "?forged") }}
		c := Cached(from, time.Hour)
		get := func(url, want string, asked int) {
			t.Helper()
			_, _, err := c.Get(t.Context(), url)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || from.asked != asked {
				t.Errorf("%s: %v, want %q; asked %d times, want %d", url, err, want, from.asked, asked)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := c.Get(gone, "list"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that gave up: %v", err)
		}
		get("list", "busy", 2)
		get("list", "busy (this was 0s ago; the next try is 1m0s after the failure)", 2)
		time.Sleep(failedFor - time.Second)
		get("list", "busy (this was 59s ago", 2)
		away = false
		time.Sleep(time.Second)
		get("list", "", 3)

		for i := range 10 * mostFailed {
			_, _, _ = c.Get(t.Context(), fmt.Sprintf("chips/%032d?forged", i))
		}
		if from.asked != 3+mostFailed {
			t.Errorf("%d forged addresses caused %d fetches, want %d", 10*mostFailed, from.asked-3, mostFailed)
		}
		another := "chips/" + strings.Repeat("9", 32)
		get(another, "50 fetches of this kind failed within 1m0s; addresses that never answered are tried later", 3+mostFailed)
		get("list", "", 3+mostFailed)
		get("chips/crl", "", 4+mostFailed) // what strangers name stops no revocation list
		time.Sleep(failedFor)
		get(another, "", 5+mostFailed)
		for range 3 { // an answer that is too old is fetched anew, also while strangers cause failures
			time.Sleep(time.Hour)
			for i := range 10 * mostFailed {
				_, _, _ = c.Get(t.Context(), fmt.Sprintf("chips/%032d?forged", i))
			}
			before := from.asked
			get("list", "", before+1)
		}
		if n := len(c.(*cache).failed); n > mostFailed {
			t.Errorf("%d failures are kept, want at most %d", n, mostFailed)
		}
	})
}

// TestCachedSilence: a service that does not answer is a failure although its callers give up first, unless one did not wait.
func TestCachedSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &silent{}
		c := Cached(from, time.Hour)
		for n, wait := range []time.Duration{time.Second, fetchTime - 1, fetchTime} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			if _, _, err := c.Get(ctx, "list"); !errors.Is(err, context.DeadlineExceeded) || from.asked != n+1 {
				t.Errorf("%s: %v, asked %d times", wait, err, from.asked)
			}
			cancel()
		}
		if _, _, err := c.Get(t.Context(), "list"); err == nil || from.asked != 3 {
			t.Errorf("%v, asked %d times, want 3", err, from.asked)
		}
	})
}

// silent is a service that never answers.
type silent struct{ asked int }

func (s *silent) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	s.asked++
	<-ctx.Done()
	return nil, nil, fmt.Errorf("fetch %s: %w", url, ctx.Err())
}

// TestVendors: what a service answers at fault is asked for again, bounded by tries, bytes and the caller's context.
func TestVendors(t *testing.T) {
	asked := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		switch r.URL.Path {
		case "/good":
			w.Header().Set("Issuer", "chain")
			fmt.Fprint(w, "body")
		case "/unknown":
			http.NotFound(w, r)
		case "/large":
			_, _ = w.Write(make([]byte, mostBody+1))
		default:
			http.Error(w, "later", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	v := vendors{s.Client()}
	header, body, err := v.Get(t.Context(), s.URL+"/good")
	if err != nil || string(body) != "body" || header["Issuer"][0] != "chain" {
		t.Errorf("%v %q %v", header, body, err)
	}
	for path, want := range map[string]string{"/unknown": "answers 404", "/large": "larger than"} {
		t.Run(path, func(t *testing.T) {
			if _, _, err := v.Get(t.Context(), s.URL+path); err == nil || !strings.Contains(err.Error(), want) || asked[path] != 1 {
				t.Errorf("%s, asked %d times: %v", path, asked[path], err)
			}
		})
	}
	if _, _, again, err := v.fetch(t.Context(), s.URL+"/busy"); err == nil || !again {
		t.Errorf("a busy service is not asked again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.Get(ctx, s.URL+"/busy"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
}
