package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/gauge"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	tables "github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// plugins are the types of panels that dashboards may have: those whose options the schema describes, and that are linked here.
var plugins = []variants.PanelcfgConfig{
	bargauge.VariantConfig(), gauge.VariantConfig(), heatmap.VariantConfig(), stat.VariantConfig(), tables.VariantConfig(), timeseries.VariantConfig(),
}

// queries is the type of queries that dashboards may have.
var queries = prometheus.VariantConfig()

// validate checks a dashboard's JSON against Grafana's schema: every field is known, has its type, and none that must be there is missing;
// also in the options of each type of panel, and in queries.
func validate(text []byte) error {
	for _, p := range plugins {
		cog.NewRuntime().RegisterPanelcfgVariant(p)
	}
	cog.NewRuntime().RegisterDataqueryVariant(queries)
	errs := []error{faults(new(classic).UnmarshalJSONStrict(text))}
	// Three things escape the types: a type of panel or of query that they do not know may have any content, and so may the fields of a
	// panel's series.
	var raw struct {
		Panels []struct {
			Type        string
			FieldConfig json.RawMessage
			Targets     []struct{ Datasource struct{ Type string } }
		}
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	for i, p := range raw.Panels {
		if p.Type == "row" {
			continue
		}
		if _, known := cog.ConfigForPanelcfgVariant(p.Type); !known {
			errs = append(errs, fmt.Errorf("panels[%d]: the schema has no type of panel %q", i, p.Type))
		}
		if p.FieldConfig != nil {
			if err := faults(new(dashboard.FieldConfigSource).UnmarshalJSONStrict(p.FieldConfig)); err != nil {
				errs = append(errs, fmt.Errorf("panels[%d].fieldConfig: %w", i, err))
			}
		}
		for j, q := range p.Targets {
			if q.Datasource.Type != queries.Identifier {
				errs = append(errs, fmt.Errorf("panels[%d].targets[%d]: it asks a data source of type %q, not %s", i, j, q.Datasource.Type, queries.Identifier))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var d classic
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	return d.Validate()
}

// faults returns nil for an empty list of faults: the types return one when they find none.
func faults(err error) error {
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}
