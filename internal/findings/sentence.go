package findings

import (
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// fresh is the age up to which a value is of now: two readings.
func (o Options) fresh() time.Duration { return 2 * max(o.Interval, 0) }

// WithSentence returns the record with its sentence and the age of its value at a time. fresh is the age up to which a value is of
// now; 0 is any age.
func (r Record) WithSentence(now time.Time, fresh time.Duration) Record {
	age := max(0, now.Round(0).Sub(r.LastSeen.Round(0)))
	r.Age = age.Seconds()
	past := strings.TrimSuffix(PastTense(r.Title, r.Subject), ".")
	ago := func(t time.Time) string { return length(now.Round(0).Sub(t.Round(0))) + " ago" }
	switch {
	case r.State == Closed && r.Ended != nil:
		r.Sentence = past + ", until it ended."
	case r.State == Closed:
		r.Sentence = past + "."
	case r.Ended != nil:
		r.Sentence = past + "; ended " + ago(*r.Ended) + "."
	case fresh > 0 && age > fresh:
		r.Sentence = past + ", until " + ago(r.LastSeen) + "."
	case r.Early:
		r.Sentence = fmt.Sprintf("%s (so far for %s).", strings.TrimSuffix(r.Title, "."), length(now.Round(0).Sub(r.Since.Round(0))))
	default:
		r.Sentence = r.Title
	}
	return r
}

// length writes a time in whole seconds, at least one.
func length(d time.Duration) string { return metric.Length(max(1, d.Round(time.Second).Seconds())) }

// pastOf are the verbs of the rules' titles in the past tense.
var pastOf = map[string]string{
	"accepts": "accepted", "are": "were", "asks": "asked", "calls": "called", "completes": "completed", "converts": "converted", "copies": "copied", "do": "did", "drop": "dropped",
	"end": "ended", "enters": "entered", "exits": "exited", "fails": "failed", "gives": "gave", "has": "had", "is": "was", "leaves": "left", "live": "lived", "load": "loaded",
	"loads": "loaded", "loses": "lost", "makes": "made", "miss": "missed", "moves": "moved", "needs": "needed", "reads": "read", "receives": "received",
	"refuses": "refused", "retransmits": "retransmitted", "sends": "sent", "spends": "spent", "takes": "took", "touches": "touched", "uses": "used", "wait": "waited", "waits": "waited",
	"will": "would", "writes": "wrote",
}

// PastTense returns a rule's title in the past tense. Names are not words: the subject stays as it is, and so does what
// stands in quotes or has no verb of a rule.
func PastTense(title, subject string) string {
	head, rest, found := strings.Cut(title, subject)
	if subject == "" || !found {
		return pastWords(title)
	}
	return pastWords(head) + subject + pastWords(rest)
}

func pastWords(s string) string {
	words := strings.Split(s, " ")
	for i, w := range words {
		bare := strings.TrimRight(w, ",:;.")
		if was, ok := pastOf[strings.ToLower(bare)]; ok {
			words[i] = was + w[len(bare):]
		}
	}
	return strings.Join(words, " ")
}
