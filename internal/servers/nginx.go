package servers

import (
	"context"
	"fmt"
	"strings"
)

// Nginx reads the page of ngx_http_stub_status_module
// (https://nginx.org/en/docs/http/ngx_http_stub_status_module.html).
var Nginx = App{
	Name:    "nginx",
	Doc:     "Requests of nginx, from its stub_status page; each question is one",
	Address: "http://127.0.0.1:8080/stub_status",
	Check:   CheckURL,
	Read:    requests(askNginx, func(page map[string]string) (float64, error) { return count(page["requests"]) }),
	Ask:     askNginx,
	Gauges:  []string{"active", "reading", "writing", "waiting"},
	Version: "server",
}

func askNginx(ctx context.Context, q Question) (map[string]string, error) {
	page, head, err := get(ctx, q, "text/plain")
	if err != nil {
		return nil, err
	}
	out, err := stubStatus(string(page))
	if v := head.Get("Server"); v != "" && err == nil {
		out["server"] = v
	}
	return out, err
}

// stubStatus reads the three numbers below their names, and the levels around them.
func stubStatus(page string) (map[string]string, error) {
	head, rest, ok := strings.Cut(page, "server accepts handled requests")
	if ok {
		_, rest, ok = strings.Cut(rest, "\n")
	}
	line, rest, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	if !ok || len(f) < 3 {
		return nil, fmt.Errorf("it says %.60q; want a page of stub_status", page)
	}
	out := map[string]string{"accepts": f[0], "handled": f[1], "requests": f[2]}
	words := append(strings.Fields(head), strings.Fields(rest)...)
	for i, w := range words[:max(0, len(words)-1)] {
		switch w {
		case "connections:":
			out["active"] = words[i+1]
		case "Reading:", "Writing:", "Waiting:":
			out[strings.ToLower(strings.TrimSuffix(w, ":"))] = words[i+1]
		}
	}
	return out, nil
}
