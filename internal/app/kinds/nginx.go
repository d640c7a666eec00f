package kinds

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/app"
	"github.com/teescope/teescope/internal/host"
)

// nginx reads the page of ngx_http_stub_status_module
// (https://nginx.org/en/docs/http/ngx_http_stub_status_module.html).
var nginx = app.App{
	Name:    "nginx",
	Doc:     "Requests of nginx, from its stub_status page; each question is one",
	Address: "http://127.0.0.1:8080/stub_status",
	Check:   app.CheckURL,
	Read: func(ctx context.Context, h *host.Host, t app.Target) (float64, error) {
		page, err := app.Get(ctx, h, t, "text/plain")
		if err != nil {
			return 0, err
		}
		return stubStatus(string(page))
	},
}

// stubStatus finds the third number of the line below the names of the three.
func stubStatus(page string) (float64, error) {
	_, rest, ok := strings.Cut(page, "server accepts handled requests")
	if ok {
		_, rest, ok = strings.Cut(rest, "\n")
	}
	line, _, _ := strings.Cut(rest, "\n")
	if f := strings.Fields(line); ok && len(f) >= 3 {
		return count(f[2])
	}
	return 0, fmt.Errorf("it says %.60q; want a page of stub_status", page)
}
