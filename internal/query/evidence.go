package query

import (
	"encoding/json"
	"fmt"

	"github.com/teescope/teescope/internal/metric"
)

// Evidence is one number behind a finding, with the query that gives it.
type Evidence struct {
	Text  string  `json:"text"`
	Value float64 `json:"value"`
	// Unit is a unit for printing: "1/s", "ratio", "cores", "bytes", "bytes/s",
	// "seconds", or "" for a plain number.
	Unit string `json:"unit"`
	Expr string `json:"expr"`
	// Low and High bound, with 95 % probability, a rate that a source estimates from part of the events; nil for others.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Printed is the value, with its interval, as the terminal and a notification print it. Only JSON has it.
	Printed string `json:"number"`
}

// MarshalJSON writes the number also as text, so that the page prints what the terminal and a notification print.
func (ev Evidence) MarshalJSON() ([]byte, error) {
	type fields Evidence
	ev.Printed = ev.Number()
	return json.Marshal(fields(ev))
}

// UnmarshalJSON leaves the text out: it follows from the value.
func (ev *Evidence) UnmarshalJSON(b []byte) error {
	type fields Evidence
	err := json.Unmarshal(b, (*fields)(ev))
	ev.Printed = ""
	return err
}

// Number prints the number of a piece of evidence, with its interval. A ratio above 1 is a factor.
func (ev Evidence) Number() string {
	if ev.Unit == "ratio" && ev.Value > 1 {
		return metric.Digits(ev.Value) + " times"
	}
	out := metric.Value(ev.Value, ev.Unit)
	if ev.Low != nil && ev.High != nil {
		out += fmt.Sprintf(" [%s, %s]", metric.Value(*ev.Low, ev.Unit), metric.Value(*ev.High, ev.Unit))
	}
	return out
}
