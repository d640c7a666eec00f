//go:build linux

package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	httpconfig "github.com/prometheus/common/config"
	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
)

// notifyConfig is the section notify of the configuration file: the receivers of
// findings.
type notifyConfig struct {
	MinSeverity findings.Severity `yaml:"min_severity"`
	// Page is the URL by which readers of notifications reach the page; "" is the
	// listener's.
	Page string `yaml:"page"`
	// Subject and NotSubject select the findings that are sent, by regular expressions that match the whole of their subjects;
	// a receiver's own are further conditions.
	Subject      string           `yaml:"subject"`
	NotSubject   string           `yaml:"not_subject"`
	Alertmanager []receiverConfig `yaml:"alertmanager"`
	Webhooks     []receiverConfig `yaml:"webhooks"`

	receivers []notify.Receiver
}

// receiverConfig is one receiver, with the HTTP settings of Prometheus' scrape
// configurations: basic_auth, authorization, tls_config, proxy_url, http_headers ...
type receiverConfig struct {
	Name string `yaml:"name"` // "" takes one from the URL
	URL  string `yaml:"url"`
	// Format is what a webhook receives: finding, the default, slack or text.
	Format webhookFormat `yaml:"format"`
	// Subject and NotSubject are as in the section.
	Subject    string `yaml:"subject"`
	NotSubject string `yaml:"not_subject"`
	// HeadersFrom are headers whose values are secrets, each in a file.
	HeadersFrom map[string]string           `yaml:"headers_from"`
	HTTP        httpconfig.HTTPClientConfig `yaml:",inline"`
}

// webhookFormat is the body of a webhook's requests.
type webhookFormat string

// The formats: the finding as in the API, or a text as Slack, or as most other chats take it.
const (
	findingFormat webhookFormat = "finding"
	slackFormat   webhookFormat = "slack"
	textFormat    webhookFormat = "text"
)

// webhookFormats are the formats of webhooks.
var webhookFormats = map[webhookFormat]*notify.Format{"": notify.Webhook, findingFormat: notify.Webhook, slackFormat: notify.Slack, textFormat: notify.Text}

// UnmarshalYAML starts from the defaults. It has the older form because the newer one
// would accept unknown keys.
func (r *receiverConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain receiverConfig
	r.HTTP = httpconfig.DefaultHTTPClientConfig
	return unmarshal((*plain)(r))
}

// check returns the first fault with its line, and makes the receivers. File names in
// the section are relative to dir.
func (c *notifyConfig) check(root *yaml.Node, dir string) error {
	at := func(keys ...string) string {
		return configfile.Position(root, append([]string{"notify"}, keys...)...)
	}
	if c.MinSeverity != "" && !slices.Contains(severities, c.MinSeverity) {
		return fmt.Errorf("%s: %q: want info, warning or critical", at("min_severity"), c.MinSeverity)
	}
	if c.Page != "" {
		if _, err := webURL(c.Page); err != nil {
			return fmt.Errorf("%s: %w", at("page"), err)
		}
	}
	all, key, err := selectSubjects(c.Subject, c.NotSubject)
	if err != nil {
		return fmt.Errorf("%s: %w", at(key), err)
	}
	names := map[string]bool{}
	for _, section := range []struct {
		key    string
		format *notify.Format
		list   []receiverConfig
	}{{"alertmanager", notify.Alertmanager, c.Alertmanager}, {"webhooks", notify.Webhook, c.Webhooks}} {
		for i, r := range section.list {
			to, key, err := r.receiver(section.format, dir)
			to.Subjects = append(to.Subjects, all)
			if err == nil && names[to.Name] {
				key, err = "name", fmt.Errorf("two receivers are named %q; give each receiver a different name", to.Name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSuffix(at(section.key, strconv.Itoa(i), key), "."), err)
			}
			names[to.Name] = true
			c.receivers = append(c.receivers, to)
		}
	}
	return nil
}

// receiver makes a receiver, or returns the invalid key.
func (r receiverConfig) receiver(format *notify.Format, dir string) (to notify.Receiver, key string, err error) {
	u, err := webURL(r.URL)
	if err != nil {
		return to, "url", err
	}
	if r.Format != "" && format != notify.Webhook {
		return to, "format", errors.New("an Alertmanager has one format only; remove the key format")
	}
	if format == notify.Webhook {
		if format = webhookFormats[r.Format]; format == nil {
			return to, "format", fmt.Errorf("%q: want finding, slack or text", r.Format)
		}
	}
	own, key, err := selectSubjects(r.Subject, r.NotSubject)
	if err != nil {
		return to, key, err
	}
	to = notify.Receiver{Name: cmp.Or(r.Name, format.Name+"-"+fileSafe(u.Host)), Format: format, URL: r.URL, Subjects: []notify.Subjects{own}}
	if to.Name != fileSafe(to.Name) || len(to.Name) > 100 {
		return to, "name", fmt.Errorf("%q: want at most 100 letters, digits, - and _", to.Name)
	}
	for name, file := range r.HeadersFrom {
		if r.HTTP.HTTPHeaders == nil {
			r.HTTP.HTTPHeaders = &httpconfig.Headers{Headers: map[string]httpconfig.Header{}}
		}
		if _, twice := r.HTTP.HTTPHeaders.Headers[name]; twice {
			return to, "headers_from", fmt.Errorf("%s is also in http_headers", name)
		}
		r.HTTP.HTTPHeaders.Headers[name] = httpconfig.Header{Files: []string{file}}
	}
	if err := r.HTTP.Validate(); err != nil {
		return to, "", err
	}
	r.HTTP.SetDirectory(dir)
	to.Client, err = httpconfig.NewClientFromConfig(r.HTTP, to.Name, httpconfig.WithUserAgent("teescope/"+build.Version()))
	return to, "", err
}

// selectSubjects compiles a filter of subjects, or returns the invalid key.
func selectSubjects(only, not string) (s notify.Subjects, key string, err error) {
	for _, p := range []struct {
		key, pattern string
		to           **regexp.Regexp
	}{{"subject", only, &s.Only}, {"not_subject", not, &s.Not}} {
		if p.pattern == "" {
			continue
		}
		if *p.to, err = findings.Whole(p.pattern); err != nil {
			return s, p.key, err
		}
	}
	return s, "", nil
}

// webURL parses an HTTP URL. The error does not repeat it, because its path or password
// may be a secret.
func webURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("want a URL like http://127.0.0.1:9093")
	}
	return u, nil
}

// fileSafe makes a file name from a host's.
func fileSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, s)
}

// Settings are the notifier's; page is the URL of the listener's page.
func (c *notifyConfig) Settings(page string) notify.Settings {
	return notify.Settings{Receivers: c.receivers, Page: cmp.Or(c.Page, page),
		Least: cmp.Or(c.MinSeverity, findings.Warning)}
}
