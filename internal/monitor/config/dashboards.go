//go:build linux

package config

import (
	"errors"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// checkDashboards returns the first fault in the configuration's dashboards, with its
// line.
func checkDashboards(root *yaml.Node, list []web.Dashboard) error {
	err := web.CheckDashboards(list, nil, store.CheckExpr)
	var at *web.DashboardError
	if !errors.As(err, &at) {
		return err
	}
	keys := []string{"dashboards", strconv.Itoa(at.Dashboard)}
	if at.Panel >= 0 {
		keys = append(keys, "panels", strconv.Itoa(at.Panel))
	}
	keys = append(keys, at.Key)
	return fmt.Errorf("%s: %w", configfile.Position(root, keys...), at.Err)
}
