package store

// Scraping of further targets with Prometheus' scrape manager: the checked configuration, the manager's start and
// reload, and the limits of one page.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/file"       // file_sd_configs
	_ "github.com/prometheus/prometheus/discovery/http"       // http_sd_configs
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // kubernetes_sd_configs
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"go.opentelemetry.io/otel"

	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/quota"
)

// ScrapeConfig is a checked configuration of further targets.
type ScrapeConfig struct{ config *config.Config }

// Jobs returns the names of the scrape configurations, in order.
func (c *ScrapeConfig) Jobs() []string {
	var names []string
	for _, sc := range c.config.ScrapeConfigs {
		names = append(names, sc.JobName)
	}
	return names
}

// Receivers is the number of engines that samples are sent to (remote_write).
func (c *ScrapeConfig) Receivers() int {
	if c == nil {
		return 0
	}
	return len(c.config.RemoteWriteConfigs)
}

// LongestInterval returns the longest time between two scrapes of a target, 0 when
// there are no scrape configurations.
func (c *ScrapeConfig) LongestInterval() (most time.Duration) {
	for _, sc := range c.config.ScrapeConfigs {
		most = max(most, time.Duration(sc.ScrapeInterval))
	}
	return most
}

// bodyLimit is the largest page in bytes of a job that sets no body_size_limit: lines of 150 bytes for all series that fit into
// memory, from 1 to 64 MiB. A page is held as a whole, at its end in a buffer of up to twice its size, so one that never ends would
// take all memory. A page with 60 enclaves has 0.1 MiB, and one with all 6,000 of 100 nodes 6 MiB (e2e/fleet); with 256 MiB of
// memory a page may have 3.3 MiB.
func bodyLimit(b *quota.Budget) int64 { return max(1<<20, min(64<<20, int64(b.Series)*150)) }

// setIfZero gives a number of a configuration its default.
func setIfZero[T ~int64](v *T, to int64) { *v = cmp.Or(*v, T(to)) }

// ParseScrape checks the part of a configuration file, YAML or JSON, that Prometheus defines: the keys global,
// remote_write, and scrape_configs with static, file, HTTP and Kubernetes discovery. Top-level keys named in own are the caller's and are
// skipped; any other unknown key is an error. Errors name the line of the file. Relative file names are relative to dir.
// A job without a limit for the size of a page gets bodyLimit.
func ParseScrape(text []byte, dir string, own ...string) (*ScrapeConfig, error) {
	smallQueues()
	ours, err := prometheusSection(text, own)
	if err != nil {
		return nil, err
	}
	c, err := loadScrape(ours)
	if err != nil {
		return nil, err
	}
	c.SetDirectory(dir)
	for i, sc := range c.ScrapeConfigs {
		if sc.JobName == DefaultOptions().Job {
			return nil, fmt.Errorf("line %d: scrape_configs: job_name %s is the monitor's own: choose another", ours.job(i), sc.JobName)
		}
		setIfZero(&sc.BodySizeLimit, bodyLimit(quota.Own()))
	}
	for _, rw := range c.RemoteWriteConfigs {
		if rw.ProtobufMessage != config.DefaultRemoteWriteConfig.ProtobufMessage {
			rw.MetadataConfig.Send = false // 2.0 has no messages of metadata
		}
	}
	return &ScrapeConfig{c}, nil
}

var wrongType = regexp.MustCompile("cannot unmarshal !!\\w+(?: `(.*)`)? into (\\S+)")

var unknownField = regexp.MustCompile(`field (\S+) (not found|already set) in type \S+`)

// readable puts the YAML package's errors on one line and drops its Go types.
func readable(err error) error {
	text := unknownField.ReplaceAllStringFunc(err.Error(), func(m string) string {
		f := unknownField.FindStringSubmatch(m)
		if f[2] == "already set" {
			return "repeated key " + f[1]
		}
		return "unknown key " + f[1]
	})
	text = wrongType.ReplaceAllStringFunc(text, func(m string) string {
		f := wrongType.FindStringSubmatch(m)
		want := "keys and values"
		switch {
		case strings.HasPrefix(f[2], "[]"):
			want = "a list"
		case strings.Contains(f[2], "int"):
			want = "a whole number"
		case f[2] == "string":
			want = "text"
		case f[2] == "bool":
			want = "true or false"
		}
		if f[1] != "" {
			want = strconv.Quote(f[1]) + ": want " + want
		} else {
			want = "want " + want
		}
		return want
	})
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n")
	return errors.New(strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", ";")), " "))
}

// ApplyConfig replaces the further targets and the receivers of remote write; those that stay keep their state.
func (s *Store) ApplyConfig(c *ScrapeConfig) error {
	if err := s.send.apply(c.config); err != nil {
		return err
	}
	return s.scrape.replaceTargets(c)
}

// replaceTargets replaces the targets.
func (sc *scraper) replaceTargets(c *ScrapeConfig) error {
	t := sc.targets.Lock()
	defer sc.targets.Unlock()
	var page int64
	for _, sc := range c.config.ScrapeConfigs {
		page = max(page, int64(sc.BodySizeLimit))
	}
	sc.answers.page(page)
	found := map[string]discovery.Configs{}
	for _, sc := range c.config.ScrapeConfigs {
		found[sc.JobName] = nil
		for _, d := range sc.ServiceDiscoveryConfigs {
			found[sc.JobName] = append(found[sc.JobName], discovered{d})
		}
	}
	// Prometheus does not end the series of a job that is taken out, which then seem to be of targets that are not
	// scraped. So the job stays until the next configuration, without targets.
	with := *c.config
	with.ScrapeConfigs = slices.Clone(with.ScrapeConfigs)
	for _, old := range t.config.ScrapeConfigs {
		if _, stays := found[old.JobName]; !stays {
			with.ScrapeConfigs = append(with.ScrapeConfigs, old)
			found[old.JobName] = nil
		}
	}
	if err := sc.ApplyConfig(&with); err != nil {
		return fmt.Errorf("apply scrape configuration: %w", err)
	}
	if err := sc.discovery.ApplyConfig(found); err != nil {
		return fmt.Errorf("apply discovery configuration: %w", err)
	}
	if len(found) > 0 {
		t.discover()
	}
	t.config = c.config
	return nil
}

// scraper collects from further targets.
type scraper struct {
	*scrape.Manager
	discovery *discovery.Manager
	stop      context.CancelFunc
	done      sync.WaitGroup
	answers   answers
	targets   locked.Value[scrapeTargets]
}

// scrapeTargets are the configured targets and their discovery.
type scrapeTargets struct {
	config   *config.Config
	discover func() // starts discovery, which then polls ten times a second, even without changes
}

// prepare sets what Prometheus has only once in a process. It aligns the times of scrapes to each other: after the clock
// went back it would use the last time before that for all scrapes, until the clock gets there again.
var prepare = sync.OnceFunc(func() {
	scrape.AlignScrapeTimestamps = false
	otel.SetTracerProvider(tracing{})
})

// newScraper writes what it collects into a store or a queue. room returns why a series that is not in memory yet is not taken.
func newScraper(ctx context.Context, reg *prometheus.Registry, log *slog.Logger, into storage.Appendable, room func() error) (*scraper, error) {
	prepare()
	sd, err := discovery.CreateAndRegisterSDMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("start discovery: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	sc := &scraper{stop: stop, discovery: discovery.NewManager(ctx, log, reg, sd, discovery.Name("scrape"))}
	if sc.discovery == nil {
		stop()
		return nil, errors.New("start discovery: its metrics could not be registered")
	}
	none, err := config.Load("", log)
	if err == nil {
		sc.Manager, err = scrape.NewManager(&scrape.Options{DiscoveryReloadOnStartup: true, PassMetadataInContext: true,
			HTTPClientOptions: []commonconfig.HTTPClientOption{sc.answers.dial()}}, log, nil, scrapeDoor{into, room}, nil, reg)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start scraping: %w", err)
	}
	sc.targets = locked.New(scrapeTargets{config: none, discover: sync.OnceFunc(func() {
		sc.done.Go(func() { _ = sc.discovery.Run() }) // its error is ctx's
	})})
	sc.done.Go(func() { _ = sc.Run(sc.discovery.SyncCh()) })
	return sc, nil
}

// Failure returns the error of a target's last scrape, on one line; "" if it succeeded or there is no such target.
func (s *Store) Failure(job, instance string) string { return s.scrape.failure(job, instance) }

func (sc *scraper) failure(job, instance string) string {
	for _, t := range sc.TargetsActive()[job] {
		err := t.LastError()
		if err == nil || t.GetValue(model.InstanceLabel) != instance {
			continue
		}
		why := printable.OneLine(printable.Redact(strings.Join(strings.Fields(err.Error()), " ")))
		if why == "body size limit exceeded" {
			why += fmt.Sprintf(": its page is larger than %s, the body_size_limit of its job", sc.bodyLimit(job))
		}
		return why
	}
	return ""
}

// bodyLimit returns the largest page of a job.
func (sc *scraper) bodyLimit(job string) string {
	for _, c := range sc.current().ScrapeConfigs {
		if c.JobName == job {
			return c.BodySizeLimit.String()
		}
	}
	return ""
}

func (sc *scraper) close() {
	sc.targets.Lock().discover = func() {} // nobody starts it after this
	sc.targets.Unlock()
	sc.stop()
	sc.Stop()
	sc.done.Wait()
}

func (sc *scraper) current() config.Config {
	held := sc.targets.Lock()
	defer sc.targets.Unlock()
	return *held.config
}

// targets is what the API lists: the scraped targets and the built-in one.
type targets struct {
	*scraper
	local *local
}

// TargetsActive returns the targets by job.
func (t targets) TargetsActive() map[string][]*scrape.Target {
	all := t.scraper.TargetsActive()
	all[t.local.job] = append(all[t.local.job], t.local.target)
	return all
}
