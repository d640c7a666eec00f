package query

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestNumber: evidence is printed as all values are; a ratio is a share or a factor, never a number of "ratio".
func TestNumber(t *testing.T) {
	low, high := 900.0, 1100.0
	for want, ev := range map[string]Evidence{
		"100 %":                  {Value: 1, Unit: "ratio"},
		"0.201 %":                {Value: 0.00200535, Unit: "ratio"},
		"95.3 times":             {Value: 95.25, Unit: "ratio"},
		"1.5 MiB":                {Value: 1.5 * (1 << 20), Unit: "bytes"},
		"3":                      {Value: 3},
		"1 k/s [900/s, 1.1 k/s]": {Value: 1000, Unit: "1/s", Low: &low, High: &high},
	} {
		t.Run(want, func(t *testing.T) {
			if got := ev.Number(); got != want {
				t.Errorf("%v %q is printed as %q", ev.Value, ev.Unit, got)
			}
			sent, err := json.Marshal(ev)
			var page map[string]any
			if err != nil || json.Unmarshal(sent, &page) != nil || page["number"] != want {
				t.Errorf("the page gets %s, %v", sent, err)
			}
			var read Evidence
			if err := json.Unmarshal(sent, &read); err != nil || !reflect.DeepEqual(read, ev) {
				t.Errorf("read again it is %+v, %v", read, err)
			}
		})
	}
}
