package agent

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
)

// file is a configuration as teescope-agent reads it. The sections of others are known, so an error can say whose they are.
type file struct {
	observe.Sections `yaml:",inline"`

	Analysis      yaml.Node `yaml:"analysis"`
	Notify        yaml.Node `yaml:"notify"`
	Dashboards    yaml.Node `yaml:"dashboards"`
	Global        yaml.Node `yaml:"global"`
	ScrapeConfigs yaml.Node `yaml:"scrape_configs"`
	RemoteWrite   yaml.Node `yaml:"remote_write"`
}

// readConfig reads and checks the configuration of an agent that cannot send.
func readConfig(name string, list []*probe.Source) (observe.Config, error) {
	c := new(file)
	return c, configfile.Read(name, func(b []byte, dir string) error {
		root, err := configfile.Decode(configfile.AsYAML(b), c)
		if err != nil {
			return err
		}
		if configfile.Line(root, "remote_write") > 0 {
			err = fmt.Errorf("%s: this program serves /metrics and sends nothing; `teescope agent` of the full program sends", configfile.Position(root, "remote_write"))
		}
		return errors.Join(err, observe.MonitorOnly(root, false), c.Check(root, list, dir))
	})
}
