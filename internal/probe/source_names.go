package probe

import "github.com/teescope/teescope/internal/metric"

// SourceNames maps each metric of sources to its source's name, and so the series that a histogram is stored as.
func SourceNames(list []*Source) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		for _, d := range s.Metrics {
			out[d.Name] = s.Name
			if d.Kind == metric.Histogram {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					out[d.Name+suffix] = s.Name
				}
			}
		}
	}
	return out
}
