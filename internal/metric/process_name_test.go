package metric

import (
	"slices"
	"testing"
)

// TestCompileNames: a name that is longer than the kernel keeps matches what it keeps of it, and nothing else does.
func TestCompileNames(t *testing.T) {
	const kept = "victoria-metric"
	for _, c := range []struct {
		expr  string
		match []string
		other []string
		long  []string
	}{
		{"^victoria-metrics-prod$", []string{kept, "victoria-metrics-prod"}, []string{"victoria", "victoria-metri", "victoria-metriX", "prod"}, []string{"victoria-metrics-prod"}},
		{"victoria-metrics-prod", []string{kept, "victoria-metrics-prod"}, []string{"containerd-shim", "victoria-metri"}, []string{"victoria-metrics-prod"}},
		{"^(victoria-metrics-(prod|dev)|nginx)$", []string{kept, "nginx"}, []string{"containerd-shim"}, []string{"victoria-metrics-prod", "victoria-metrics-dev"}},
		{"^victoria-metrics.*", []string{kept}, []string{"victoria-metri"}, []string{"victoria-metrics"}},
		{"^containerd-shim(-runc-v[12])?$", []string{"containerd-shim"}, []string{kept}, []string{"containerd-shim-runc-v1", "containerd-shim-runc-v2"}},
		{"(?:node-)+exporter-with-a-long-name", nil, []string{"node-exporter-w", kept}, nil}, // how often it begins is open
		{"^victoria-metric$", []string{kept}, nil, nil},
		{"^123456789012345$", []string{"123456789012345"}, nil, nil},
		{"prod", []string{"prod", "x-prod"}, []string{kept, "containerd-shim"}, nil},
		{".*-metrics-prod$", nil, []string{kept, "containerd-shim"}, nil},
		{"[a-z]+-metrics-prod", nil, []string{kept}, nil},
		{"([a-z][a-z]|abcdefghijklmnopqrst)([a-z][a-z])*$", []string{"abcdefghijklmno"}, []string{"abcdefghijklmn-"}, []string{"abcdefghijklmnopqrst"}},
		{"", []string{kept, "x"}, nil, nil},
		{"^datenbank-größer-x$", []string{Label("datenbank-gr\xc3\xb6\xc3")}, []string{"datenbank-grö"}, []string{"datenbank-größer-x"}}, // cut within a letter
		{`^a\[b\]cdefghijklmnop$`, []string{"a[b]cdefghijklm"}, []string{"abcdefghijklmno"}, []string{"a[b]cdefghijklmnop"}},
	} {
		t.Run(c.expr, func(t *testing.T) {
			p, err := CompileNames(c.expr)
			if err != nil {
				t.Errorf("%s: %v", c.expr, err)
				return
			}
			for _, name := range c.match {
				if !p.MatchString(name) {
					t.Errorf("%s does not match %s", c.expr, name)
				}
			}
			for _, name := range c.other {
				if p.MatchString(name) {
					t.Errorf("%s matches %s", c.expr, name)
				}
			}
			if !slices.Equal(p.Long(), c.long) || p.String() != c.expr {
				t.Errorf("%s: %q is longer than kept, want %q; it says %s", c.expr, p.Long(), c.long, p)
			}
		})
	}
	if _, err := CompileNames("("); err == nil {
		t.Error("( is compiled")
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		want  string
		names []string
		first string
	}{
		{"ngnix", []string{"redis-server", "nginx", "bash"}, "nginx"},
		{"redis", []string{"nginx", "redis-server", "redis-cli", "redis-server"}, "redis-cli"},
		{"victoria-metrics-prod", []string{"sh", "v", "victoria-metric", "vmagent"}, "victoria-metric"},
		{"NGINX", []string{"nginx: master", "nginx"}, "nginx"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := Nearest(c.want, c.names); got[0] != c.first {
				t.Errorf("nearest to %s: %q, want %s first", c.want, got, c.first)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"redis", "redis-server", 0}, {"NGINX", "nginx", 0}, {"ngnix", "nginx", 2}, {"", "x", 0}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		t.Run(c.a, func(t *testing.T) {
			if got := distance(c.a, c.b); got != c.want {
				t.Errorf("distance(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
			}
		})
	}
}
