package metric

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"
)

// TestShared prints the numbers of the table that the page's printer is tested with.
func TestShared(t *testing.T) {
	text, err := os.ReadFile("testdata/numbers.json")
	if err != nil {
		t.Fatal(err)
	}
	var shared struct {
		Values, Times, Changes, Lengths [][]any
		TimesOf                         [][]any `json:"times_of"`
	}
	if err := json.Unmarshal(text, &shared); err != nil {
		t.Fatal(err)
	}
	number := func(row []any, i int) float64 { return row[i].(float64) }
	check := func(printer string, rows [][]any, print func(row []any) string) {
		if len(rows) == 0 {
			t.Errorf("no row of %s", printer)
		}
		for _, row := range rows {
			if got, want := print(row), fmt.Sprint(row[len(row)-1]); got != want {
				t.Errorf("%s of %v is %q, want %q", printer, row[:len(row)-1], got, want)
			}
		}
	}
	check("Value", shared.Values, func(row []any) string { return Value(number(row, 0), row[1].(string)) })
	check("Times", shared.Times, func(row []any) string { return Times(number(row, 0)) })
	check("TimesOf", shared.TimesOf, func(row []any) string { return TimesOf(number(row, 0), number(row, 1), number(row, 2)) })
	check("Length", shared.Lengths, func(row []any) string { return Length(number(row, 0)) })
	check("Change", shared.Changes, func(row []any) string { return Change(number(row, 0)) })
}

func TestMissing(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, unit := range []string{"seconds", "bytes", "ratio", "requests", ""} {
			if got := Value(v, unit); got != "missing" {
				t.Errorf("Value(%v, %q) is %q", v, unit, got)
			}
		}
		if got := Count(v); got != "missing" {
			t.Errorf("Count(%v) is %q", v, got)
		}
		if got := Length(v); got != "missing" {
			t.Errorf("Length(%v) is %q", v, got)
		}
	}
}

func TestCount(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12.345: "12.3", 3421234: "3,420,000", -1500: "−1,500", 999.6: "1,000", 1e21: "1e+21"} {
		if got := Count(v); got != want {
			t.Errorf("Count(%v) is %q, want %q", v, got, want)
		}
	}
	if got := PercentOf(0.863, 0.706, 1); got != "86.3 % [70.6, 100]" {
		t.Errorf("PercentOf is %q", got)
	}
}

// TestShortDuration: parts that are 0 are left out, and the others are not.
func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 8 * time.Minute: "8m", time.Hour: "1h", 90 * time.Second: "1m30s", 100 * time.Minute: "1h40m", 10 * time.Second: "10s", time.Hour + 20*time.Second: "1h0m20s"} {
		if got := ShortDuration(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}
