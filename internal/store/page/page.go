// Package page reads a page of metrics that a server shows.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// Parser reads pages of metrics with Prometheus' parser, as scraping does.
type Parser struct{}

// Counter returns the sum of the series of a counter on a page; the observations of a histogram or a summary are counted. The
// page's format is that of contentType, or Prometheus' text format if Prometheus does not know the type. Of a text only the
// lines about this counter are read, so a fault elsewhere does not matter. A series that is there twice, as on a merged page,
// counts once; with two values it is an error, and so is an OpenMetrics page without its end.
func (Parser) Counter(page []byte, contentType, name string) (float64, error) {
	types, series, err := readPage(page, contentType, name)
	if err != nil {
		return 0, fmt.Errorf("its page of metrics: %.200q", err.Error())
	}
	of := name
	switch t := types[name]; t {
	case "", model.MetricTypeCounter, model.MetricTypeUnknown:
	case model.MetricTypeHistogram, model.MetricTypeSummary:
		of = name + "_count"
	default:
		return 0, fmt.Errorf("its metric %s is a %s; want a counter", name, t)
	}
	if len(series[of]) == 0 {
		return 0, fmt.Errorf("its page of metrics has no %s", name)
	}
	sum := 0.0
	for _, p := range series[of] {
		const wrapped = 1 << 63 // a number that fell below 0
		if !(p.value >= 0 && p.value < wrapped) {
			return 0, fmt.Errorf("its counter %s is %g", name, p.value)
		}
		sum += p.value
	}
	return sum, nil
}

// point is the value of a series, with its time in milliseconds if the page has one.
type point struct {
	value float64
	at    int64
}

// readPage returns the types of a page's metrics, and by name and labels the newest point of each series. Of a text it reads
// what is about name.
func readPage(page []byte, contentType, name string) (map[string]model.MetricType, map[string]map[string]point, error) {
	if t, _, err := mime.ParseMediaType(contentType); err != nil || t != "application/vnd.google.protobuf" {
		page = linesAbout(page, name)
		if bytes.IndexByte(page, 0) >= 0 {
			return nil, nil, errors.New("it has a byte 0, where Prometheus stops reading")
		}
	}
	// With a parser, an error says that the type is not known.
	parser, err := textparse.New(page, contentType, nil, textparse.ParserOptions{FallbackContentType: "text/plain", IgnoreNativeHistograms: true})
	if parser == nil {
		return nil, nil, err
	}
	types, series := map[string]model.MetricType{}, map[string]map[string]point{}
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return types, series, nil
		case err != nil:
			return nil, nil, err
		case entry == textparse.EntryType:
			family, t := parser.Type()
			if was := types[string(family)]; string(family) == name && was != "" && was != t {
				return nil, nil, fmt.Errorf("it says that %s is a %s and a %s", name, was, t)
			}
			types[string(family)] = t
		case entry == textparse.EntrySeries:
			var l labels.Labels
			parser.Labels(&l)
			_, at, v := parser.Series()
			p := point{value: v}
			if at != nil {
				p.at = *at
			}
			all := series[l.Get(model.MetricNameLabel)]
			if all == nil {
				all = map[string]point{}
				series[l.Get(model.MetricNameLabel)] = all
			}
			was, twice := all[l.String()]
			switch {
			case !twice || p.at > was.at:
				all[l.String()] = p
			case p.at == was.at && p.value != was.value:
				return nil, nil, fmt.Errorf("it has %s twice, as %g and as %g", l, was.value, p.value)
			}
		}
	}
}

// linesAbout keeps the lines of a text that hold samples of a metric or its type, and the end that OpenMetrics wants. Both
// formats have one sample a line (Prometheus' "Exposition formats", OpenMetrics 1.0, "Text format").
func linesAbout(page []byte, name string) []byte {
	var out []byte
	for line := range bytes.Lines(bytes.TrimPrefix(page, []byte("\ufeff"))) {
		if belongsTo(line, name) {
			out = append(out, line...)
		}
	}
	if n := len(out); n > 0 && out[n-1] != '\n' {
		out = append(out, '\n')
	}
	return out
}

func belongsTo(line []byte, name string) bool {
	quoted := fmt.Sprintf("%q", name)
	switch words := bytes.Fields(line); {
	case len(words) == 0:
		return false
	case words[0][0] == '#':
		return len(words) == 2 && string(words[1]) == "EOF" || len(words) > 2 && string(words[1]) == "TYPE" && (string(words[2]) == name || string(words[2]) == quoted)
	case words[0][0] == '{': // a name that has to be quoted stands among the labels
		return bytes.Contains(line, []byte(quoted)) || bytes.Contains(line, fmt.Appendf(nil, "%q", name+"_count"))
	default:
		of, _, _ := bytes.Cut(words[0], []byte("{"))
		return string(of) == name || string(of) == name+"_count"
	}
}
