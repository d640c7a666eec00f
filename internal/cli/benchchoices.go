//go:build linux

package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// choices are what the flags and names choose, for NewPlans to check.
func (f *benchFlags) choices(names []string, calibrate bool) ([]bench.Choice, error) {
	if f.out != "" && filepath.Ext(f.out) == ".json" && len(names) > 1 {
		return nil, fmt.Errorf("--out %s: want a folder for %d experiments", f.out, len(names))
	}
	if len(names) > 1 && slices.Contains(names, platformSuite) {
		return nil, fmt.Errorf("the %s suite cannot run together with other experiments; name only the suite", platformSuite)
	}
	base, err := f.baseChoice(calibrate)
	if err != nil {
		return nil, err
	}
	var out []bench.Choice
	for _, name := range names {
		if name == platformSuite {
			return platformChoices(base)
		}
		e, err := experiment(name)
		if err != nil {
			return nil, err
		}
		if len(f.variants) > 0 {
			if err := e.SelectEnvironments(f.variants); err != nil {
				return nil, err
			}
		}
		c := base
		c.Experiment = e
		if err := fewPairs(c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// baseChoice is what the flags say of every experiment.
func (f *benchFlags) baseChoice(calibrate bool) (base bench.Choice, err error) {
	base = bench.Choice{Params: map[string]string{}, Envs: f.envs, Pairs: f.pairs, Seed: f.seed, Primary: f.metric, Calibrate: calibrate}
	for _, kv := range f.params {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return base, fmt.Errorf("--param %q: want K=V", kv)
		}
		base.Params[k] = v
	}
	if base.Ceilings, err = f.allCeilings(); err != nil {
		return base, err
	}
	if f.changed != nil && (f.changed("pairs") || f.changed("runs")) && f.pairs < 1 {
		return base, fmt.Errorf("--pairs %d: want at least 1", f.pairs)
	}
	if f.timeout < 0 {
		return base, fmt.Errorf("--timeout %v: want a time above 0, or 0 for the default", f.timeout)
	}
	base.Quick = f.quick
	if f.publish {
		base.Pairs = bench.PublishPairs
	}
	if f.margin != "" {
		v, err := bench.ParsePercent(f.margin)
		if err != nil {
			return base, fmt.Errorf("--margin %w", err)
		}
		base.Margin = v
	}
	if base.Seed >= maxSeed {
		return base, fmt.Errorf("--seed %d: want a number below 2^53, which JSON keeps exactly", base.Seed)
	}
	if base.Seed == 0 {
		base.Seed = 1 + rand.Uint64N(maxSeed-1)
	}
	return base, nil
}

// allCeilings are those of --ceiling and of the file of --ceilings.
func (f *benchFlags) allCeilings() (out []result.Ceiling, err error) {
	for _, text := range f.ceilings {
		left, source, _ := strings.Cut(text, ",")
		name, value, ok := strings.Cut(left, "=")
		v, err := metric.ParseNumber(value)
		if !ok || err != nil || v < 0 || source == "" {
			return nil, fmt.Errorf("--ceiling %q: want METRIC=VALUE,SOURCE like read_bytes_per_second=15.75e9,PCIe 5.0 x4", text)
		}
		out = append(out, result.Ceiling{Metric: name, Value: v, Source: source})
	}
	more, err := readCeilings(f.ceilingFile)
	return append(out, more...), err
}

// readCeilings reads the file of --ceilings; "" is none. What instances, disks and links can do changes, so the file has a
// date, and every value its source.
func readCeilings(path string) ([]result.Ceiling, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--ceilings: %w", err)
	}
	var file struct {
		Date     string `yaml:"date"`
		Ceilings []struct {
			Metric string  `yaml:"metric"`
			Value  float64 `yaml:"value"`
			Of     string  `yaml:"of"` // "gp3, 3000 IOPS provisioned"
			Source string  `yaml:"source"`
			Env    string  `yaml:"env"`
		} `yaml:"ceilings"`
	}
	if _, err := configfile.Decode(b, &file); err != nil {
		return nil, fmt.Errorf("--ceilings %s: %w", path, err)
	}
	if _, err := time.Parse(time.DateOnly, file.Date); err != nil || len(file.Ceilings) == 0 {
		return nil, fmt.Errorf("--ceilings %s: the file needs the keys date (like 2026-11-26) and ceilings", path)
	}
	var out []result.Ceiling
	for i, c := range file.Ceilings {
		if c.Metric == "" || !(c.Value > 0) || math.IsInf(c.Value, 0) || c.Of == "" || c.Source == "" {
			return nil, fmt.Errorf("--ceilings %s: ceiling %d needs the keys metric, value (above 0), of and source", path, i+1)
		}
		out = append(out, result.Ceiling{Metric: c.Metric, Env: c.Env, Value: c.Value, Source: fmt.Sprintf("%s (%s, %s)", c.Of, c.Source, file.Date)})
	}
	return out, nil
}

// maxSeed bounds seeds to what a JSON number holds exactly in every language.
const maxSeed = 1 << 53

// mostPairs is a hundred times what --publish runs. The order of all runs is drawn
// before the first, so a mistyped number could use up all memory.
const mostPairs = 100 * bench.PublishPairs

// fewPairs refuses more pairs, in an experiment and in its passes.
func fewPairs(c bench.Choice) error {
	most := c.Pairs
	if most == 0 {
		most = c.Experiment.Pairs
	}
	for i := range c.Experiment.Then {
		most = max(most, c.Experiment.Then[i].Pairs)
	}
	if most > mostPairs {
		return fmt.Errorf("%d pairs: want at most %d", most, mostPairs)
	}
	return nil
}
