// Package anomaly finds unusual behaviour without a rule for it: series that leave their own baseline, the time of a
// change, differences between two windows, and distributions. It uses robust statistics (medians and quantiles),
// because monitoring data have outliers and breaks.
package anomaly

import "time"

// Window is a span of time, from From to To.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Change is a series that differs between two windows.
type Change struct {
	// Series selects it in PromQL, Expr is what was compared: the series, or its rate.
	Series string            `json:"series"`
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
	Expr   string            `json:"expr"`
	Unit   string            `json:"unit"`
	// Before and After are medians, or of an event the mean while the process lived; nil where the series had no values.
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
	// Score is the difference in units of the spread within the windows, which ranks the changes, or of an event its
	// use over the least that is listed, times LeastScore; Ratio is After / Before, nil where that is no number.
	Score float64  `json:"score"`
	Ratio *float64 `json:"ratio"`
	// Since is the approximate time of the change; nil where no moment stands out.
	Since *time.Time `json:"since"`
	// Alike is the number of series of the same metric that also changed and are not listed.
	Alike int `json:"alike"`
	// Event is "started" or "stopped" for a process that did so between the windows; "" for others.
	Event string `json:"event,omitempty"`
	// Text is the change as a sentence.
	Text string `json:"text"`
}

// Changes are the series that differ between two windows, the most unusual first.
type Changes struct {
	Before  Window   `json:"before"`
	After   Window   `json:"after"`
	Changes []Change `json:"changes"`
	// Note says that the windows are others than those asked for, because the store does not reach so far back.
	Note string `json:"note,omitempty"`
	// Compared is the number of series looked at; Unable says why others were not.
	Compared int      `json:"compared"`
	Unable   []string `json:"unable"`
}

// Box is the distribution of the values of one series in one window: a box plot
// after Tukey, whose whiskers end at the last values within 1.5 times the
// interquartile range of the box.
type Box struct {
	Labels map[string]string `json:"labels"`
	Window Window            `json:"window"`
	N      int               `json:"n"`
	Min    float64           `json:"min"`
	Low    float64           `json:"low"` // lower whisker
	Q1     float64           `json:"q1"`
	Median float64           `json:"median"`
	Q3     float64           `json:"q3"`
	High   float64           `json:"high"` // upper whisker
	Max    float64           `json:"max"`
	Mean   float64           `json:"mean"`
	// Outliers are the values beyond the whiskers, at most 50 of them, the farthest.
	Outliers []float64 `json:"outliers"`
}
