//go:build linux

package monitor

import (
	"fmt"
	"sync"

	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// dashboards are the users', kept in a file, and the configuration's, which the page
// cannot change.
type dashboards struct {
	path string

	mu  sync.Mutex
	all web.Dashboards
}

// openDashboards reads the users' dashboards. If the file is damaged, the error says so
// and there are none.
func openDashboards(path string) (*dashboards, error) {
	d := &dashboards{path: path}
	d.all.Dashboards = []web.Dashboard{}
	var kept web.Dashboards
	err := load(path, &kept)
	if err == nil && kept.Dashboards != nil {
		d.all.Dashboards = kept.Dashboards
	}
	return d, err
}

// Dashboards returns all.
func (d *dashboards) Dashboards() web.Dashboards {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// lock replaces the configuration's dashboards.
func (d *dashboards) lock(list []web.Dashboard) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all.Locked = list
}

// SetDashboards replaces the users' dashboards.
func (d *dashboards) SetDashboards(list []web.Dashboard) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var taken []string
	for _, l := range d.all.Locked {
		taken = append(taken, l.Name)
	}
	if err := web.CheckDashboards(list, taken, store.CheckExpr); err != nil {
		return err
	}
	if list == nil {
		list = []web.Dashboard{}
	}
	if err := save(d.path, web.Dashboards{Dashboards: list}); err != nil {
		return fmt.Errorf("save the dashboards: %w", err)
	}
	d.all.Dashboards = list
	return nil
}
