package store_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
)

// remoteRead asks n times for all series of the hour before a moment, and returns the answer.
func remoteRead(t *testing.T, base string, n int, to time.Time, types ...prompb.ReadRequest_ResponseType) (int, http.Header, []byte) {
	t.Helper()
	req := prompb.ReadRequest{AcceptedResponseTypes: types}
	for range n {
		req.Queries = append(req.Queries, &prompb.Query{StartTimestampMs: to.Add(-time.Hour).UnixMilli(), EndTimestampMs: to.UnixMilli(),
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}})
	}
	b, err := req.Marshal()
	must(t, err)
	return remoteReadOf(t, base, snappy.Encode(nil, b))
}

func remoteReadOf(t *testing.T, base string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	resp, err := http.Post(base+"/api/v1/read", "application/x-protobuf", bytes.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, resp.Header, answer
}

// TestRemoteRead: a remote read has the samples of each of its queries, as values and as chunks. What it reads is reserved in the
// share of answers, of all its queries together; beyond that, or with very many queries, it is refused with the numbers.
func TestRemoteRead(t *testing.T) {
	db, memory, now := small(t, 200)
	d := &metric.Desc{Name: "tee_test_total", Help: "Test.", Kind: metric.Counter, Labels: []string{"n"}}
	const rounds = 120
	for i := range rounds {
		var samples []metric.Sample
		for n := range 200 {
			samples = append(samples, metric.Sample{Desc: d, Labels: []string{fmt.Sprint(n)}, Value: float64(i)})
		}
		must(t, db.Append(now.Add(time.Duration(i+1)*time.Second), samples))
	}
	to := now.Add((rounds + 1) * time.Second)
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	code, _, body := remoteRead(t, srv.URL, 2, to)
	raw, err := snappy.Decode(nil, body)
	var got prompb.ReadResponse
	if err == nil {
		err = got.Unmarshal(raw)
	}
	if code != http.StatusOK || err != nil || len(got.Results) != 2 {
		t.Fatalf("%d, %d results, %v: %.200s", code, len(got.Results), err, body)
	}
	for _, r := range got.Results {
		found := 0
		for _, series := range r.Timeseries {
			for _, l := range series.Labels {
				if l.Name == "__name__" && l.Value == "tee_test_total" {
					found += len(series.Samples)
				}
			}
		}
		if found != 200*(rounds+1) {
			t.Errorf("%d samples, want %d", found, 200*(rounds+1))
		}
	}
	code, h, body := remoteRead(t, srv.URL, 2, to, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
	if code != http.StatusOK || !strings.Contains(h.Get("Content-Type"), "ChunkedReadResponse") || bytes.Count(body, []byte("tee_test_total")) != 400 {
		t.Errorf("chunks: %d %v, %d bytes", code, h, len(body))
	}
	code, h, body = remoteRead(t, srv.URL, 16, to)
	if code != http.StatusUnprocessableEntity || !strings.Contains(string(body), "all answers together may have 32 MiB: ask for fewer series or less time") || h.Get("Content-Encoding") != "" {
		t.Errorf("16 times all: %d %v %.300s", code, h, body)
	}
	if code, _, body = remoteRead(t, srv.URL, 17, to); code != http.StatusUnprocessableEntity || !strings.Contains(string(body), "17 queries in one call, the limit is 16") {
		t.Errorf("17 queries: %d %.300s", code, body)
	}
	if code, _, body = remoteReadOf(t, srv.URL, snappy.Encode(nil, make([]byte, 1<<20))); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a call that expands to a megabyte: %d %.300s", code, body)
	}
	if code, _, body = remoteReadOf(t, srv.URL, []byte("garbage")); code != http.StatusBadRequest {
		t.Errorf("garbage: %d %.300s", code, body)
	}
	others, err := memory.Answers.Reserve(memory.Answers.Limit)
	must(t, err)
	for _, types := range [][]prompb.ReadRequest_ResponseType{nil, {prompb.ReadRequest_STREAMED_XOR_CHUNKS}} {
		if code, _, body = remoteRead(t, srv.URL, 1, to, types...); code != http.StatusServiceUnavailable || !strings.Contains(string(body), "try again later") {
			t.Errorf("while others have the memory: %d %.300s", code, body)
		}
	}
	others()
	await.Event(t, "the memory is given back", func() error {
		if n := memory.Answers.UsedBytes(); n != 0 {
			return fmt.Errorf("%d bytes are reserved", n)
		}
		return nil
	})
}
