package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// readTable reads a CSV file that has these columns, and returns its rows without the head. Errors name the line.
func readTable(data []byte, columns []string) ([][]string, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = len(columns)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !slices.Equal(rows[0], columns) {
		return nil, fmt.Errorf("line 1: want the columns %s", strings.Join(columns, ", "))
	}
	return rows[1:], nil
}
