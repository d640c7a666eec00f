package launchers

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
)

func TestPodParams(t *testing.T) {
	for _, c := range []struct {
		given bench.Params
		want  string
	}{
		{bench.Params{"selector": "pool"}, `parameter selector: "pool": want NAME=VALUE`},
		{bench.Params{"selector": "=a"}, "want NAME=VALUE"},
		{bench.Params{"storageClass": "fast"}, "needs size="},
		{bench.Params{"lifetime": "long"}, `parameter lifetime="long"`},
		{bench.Params{"work": "tmp"}, `parameter work="tmp": want an absolute path`},
		{bench.Params{"work": "/it's"}, "without quotes and line breaks"},
		{bench.Params{"via": "service"}, "via=service needs load=pod"},
		{bench.Params{"nodes": "other"}, "need load=pod"},
		{bench.Params{"loadSelector": "a=b"}, "need load=pod"},
		{bench.Params{"load": "pod", "loadSelector": "pool"}, `parameter loadSelector: "pool": want NAME=VALUE`},
		{bench.Params{"load": "pod", "via": "service", "address": "10.0.0.1"}, "leave out address="},
	} {
		t.Run(c.want, func(t *testing.T) {
			p, err := bench.Complete("launcher pod", pod.Params, c.given)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pod.Commands(p, job()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: error %v, want %q", c.given, err, c.want)
			}
		})
	}
}
