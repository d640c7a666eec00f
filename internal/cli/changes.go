package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
)

func changesCommand(env Env) *cobra.Command {
	var f changesFlags
	c := &cobra.Command{
		Use:   "changes",
		Short: "Rank what changed between two windows, over all series in a monitor's store",
		Long: `Changes compares the last minutes with the time before them, for every series in the
monitor's store. It needs no rules. Changes are ranked by their size relative to the
spread within the windows; processes that started or stopped come first. If the monitor has
run for less time than both windows need, the windows divide that time. It needs at least two
minutes. For a monitor behind TLS and basic authentication, see "teescope explain --help".`,
		Example: "  teescope changes\n  teescope changes --last 5m --before 2h --process redis",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c.Context(), env.Stdout, host.Local().Now())
		},
	}
	fs := c.Flags()
	serverFlag(c, &f.server, "address of the monitor")
	f.last, f.before = duration(10*time.Minute), duration(time.Hour)
	fs.Var(&f.last, "last", "length of the recent window, which ends now")
	fs.Var(&f.before, "before", "length of the earlier window, directly before the --last window")
	fs.StringVar(&f.process, "process", "", "only processes that match this regular expression (unanchored)")
	fs.IntVar(&f.top, "top", 20, "number of changes to list")
	fs.BoolVar(&f.json, "json", false, "print data instead of text")
	return c
}

type changesFlags struct {
	server, process string
	last, before    duration
	top             int
	json            bool
}

func (f changesFlags) run(ctx context.Context, w io.Writer, now time.Time) error {
	if f.top < 1 {
		return fmt.Errorf("--top %d: want at least 1", f.top)
	}
	base, err := serverURL(f.server)
	if err != nil {
		return err
	}
	middle := now.Add(-time.Duration(f.last))
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64) }
	u := base.JoinPath("api/teescope/v1/changes")
	u.RawQuery = url.Values{
		"from": {seconds(middle)}, "to": {seconds(now)},
		"beforeFrom": {seconds(middle.Add(-time.Duration(f.before)))}, "beforeTo": {seconds(middle)},
		"process": {f.process}, "top": {strconv.Itoa(f.top)},
	}.Encode()
	var found anomaly.Changes
	if err := client.GetJSON(ctx, u, &found); err != nil {
		return err
	}
	if f.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	_, err = io.WriteString(w, listChanges(found, now))
	return err
}

// listChanges writes changes for a reader.
func listChanges(found anomaly.Changes, now time.Time) string {
	var t text
	window := func(w anomaly.Window) string { return explain.Clock(w.From, now) + " to " + explain.Clock(w.To, now) }
	t.Line("%s, compared with %s: %d series", window(found.After), window(found.Before), found.Compared)
	if found.Note != "" {
		t.Wrap("", found.Note)
	}
	t.Line("")
	switch {
	case len(found.Changes) == 0 && found.Compared == 0:
		t.Wrap("", "No series has enough readings in both windows to be compared.")
	case len(found.Changes) == 0:
		t.Wrap("", fmt.Sprintf("No change exceeds %d times the spread within the windows.", anomaly.LeastScore))
	}
	for i, c := range found.Changes {
		words := fmt.Sprintf("%d. %s", i+1, c.Text)
		if c.Event == "" && c.Ratio != nil && (*c.Ratio >= 2 || *c.Ratio <= 0.5) {
			words += fmt.Sprintf(" (%s times)", metric.Digits(*c.Ratio))
		}
		if c.Since != nil {
			words += ", since about " + explain.Clock(*c.Since, now)
		}
		if c.Alike > 0 {
			what := c.Metric
			if c.Event != "" {
				what = "its series"
			}
			words += fmt.Sprintf("; %d more of %s", c.Alike, what)
		}
		t.Wrap("", words)
	}
	if len(found.Unable) > 0 {
		t.Line("")
		t.Line("Not compared:")
		for _, why := range found.Unable {
			t.Wrap("  ", why)
		}
	}
	return t.String()
}
