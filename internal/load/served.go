//go:build linux

package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minus is the difference of two readings of one server.
func (s Served) minus(t Served) Served {
	return Served{s.PromptTokens - t.PromptTokens, s.CompletionTokens - t.CompletionTokens, s.PromptSeconds - t.PromptSeconds, s.CompletionSeconds - t.CompletionSeconds, s.Rounding + t.Rounding}
}

// served asks the server for its counters.
func (c *chat) served(ctx context.Context) (Served, error) {
	u, err := url.Parse(c.o.URL)
	if err != nil {
		return Served{}, err
	}
	u.Path = "/metrics"
	b, err := c.fetch(ctx, u.String())
	if err != nil {
		return Served{}, fmt.Errorf("ask the server for its counters, %s: %w", u, err)
	}
	s, err := parseServed(b)
	if err != nil {
		return Served{}, fmt.Errorf("the server's counters, %s: %w", u, err)
	}
	return s, nil
}

// parseServed reads the counters in Prometheus' text format. One that is missing, or no number of 0 and above, is an error.
func parseServed(b []byte) (Served, error) {
	var s Served
	wanted := map[string]*float64{"llamacpp:prompt_tokens_total": &s.PromptTokens, "llamacpp:tokens_predicted_total": &s.CompletionTokens,
		"llamacpp:prompt_seconds_total": &s.PromptSeconds, "llamacpp:tokens_predicted_seconds_total": &s.CompletionSeconds}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		to := wanted[name]
		if to == nil {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return Served{}, fmt.Errorf("%s is %.40q, want a number", name, value)
		}
		*to = v
		delete(wanted, name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		return Served{}, fmt.Errorf("%s is missing: llama.cpp shows it only with --metrics", name)
	}
	if most := max(s.PromptTokens, s.CompletionTokens); most >= 1e6 {
		s.Rounding = math.Pow(10, math.Floor(math.Log10(most))-5) / 2
	}
	return s, nil
}
