package client

import "errors"

// Engine names an engine with the API of Prometheus: its URL, and a file with HTTP settings in Prometheus' format, "" for none.
type Engine struct{ URL, HTTP string }

// Check refuses a file of HTTP settings without an engine to use them for.
func (e Engine) Check() error {
	if e.URL == "" && e.HTTP != "" {
		return errors.New("--query-config has the HTTP settings for --query-url; give --query-url too")
	}
	return nil
}
