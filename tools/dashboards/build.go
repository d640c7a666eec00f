package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/gauge"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	tables "github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// kind is a way to show series, with Grafana's type of panel for it.
type kind struct {
	plugin string
	// options and custom are what is set for this type of panel: a new value for each panel.
	options, custom func() any
	// now: only the newest values are asked for, not those of the whole time.
	now    bool
	format prometheus.PromQueryFormat
}

var (
	lines       = kind{plugin: "timeseries", options: lineOptions, custom: lineStyle(false, false)}
	filled      = kind{plugin: "timeseries", options: lineOptions, custom: lineStyle(true, false)}
	stack       = kind{plugin: "timeseries", options: lineOptions, custom: lineStyle(false, true)}
	filledStack = kind{plugin: "timeseries", options: lineOptions, custom: lineStyle(true, true)}
	number      = kind{plugin: "stat", options: numberOptions, now: true}
	dial        = kind{plugin: "gauge", options: dialOptions, now: true}
	bars        = kind{plugin: "bargauge", options: barOptions, now: true}
	table       = kind{plugin: "table", options: func() any { return tables.Options{ShowHeader: true} }, now: true, format: prometheus.PromQueryFormatTable}
	warmth      = kind{plugin: "heatmap", options: warmthOptions, format: prometheus.PromQueryFormatHeatmap}
)

func lineOptions() any {
	o := timeseries.NewOptions()
	o.Legend.ShowLegend = true
	o.Tooltip.Mode, o.Tooltip.Sort = common.TooltipDisplayModeMulti, common.SortOrderDescending
	return o
}

func lineStyle(isFilled, isStacked bool) func() any {
	return func() any {
		c := &common.GraphFieldConfig{FillOpacity: new(0.0), ShowPoints: new(common.VisibilityModeNever), SpanNulls: &common.BoolOrFloat64{Bool: new(false)}, LineWidth: new(1.0)}
		if isFilled {
			c.FillOpacity, c.GradientMode = new(30.0), new(common.GraphGradientModeOpacity)
		}
		if isStacked {
			c.Stacking = &common.StackingConfig{Mode: new(common.StackingModeNormal), Group: new("A")}
		}
		return c
	}
}

// newest is the one of a series' values that a number, dial or bar shows.
var newest = common.ReduceDataOptions{Calcs: []string{"lastNotNull"}}

func numberOptions() any {
	o := stat.NewOptions()
	o.GraphMode, o.Orientation, o.ReduceOptions = common.BigValueGraphModeNone, common.VizOrientationAuto, newest
	return o
}

func dialOptions() any {
	o := gauge.NewOptions()
	o.Orientation, o.ReduceOptions = common.VizOrientationAuto, newest
	return o
}

func barOptions() any {
	o := bargauge.NewOptions()
	o.Orientation, o.ReduceOptions = common.VizOrientationHorizontal, newest
	o.Legend.DisplayMode, o.Legend.Placement = common.LegendDisplayModeList, common.LegendPlacementBottom
	return o
}

func warmthOptions() any {
	o := heatmap.NewOptions()
	o.Color.Scheme, o.YAxis.Unit = "Blues", new(units.Seconds)
	o.Tooltip.Mode = common.TooltipDisplayModeSingle
	return o
}

// source is the data source that is chosen at the top of each dashboard.
var source = &common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

// classic is a dashboard as files have it that Grafana reads when it starts, and that every version reads.
type classic = dashboard.Dashboard //nolint:staticcheck // its successor, dashboardv2, is for Grafana's newer API, which reads no such files in 12.1

// build returns the dashboard in Grafana's types.
func (b board) build(help map[string]string) (classic, error) {
	d := classic{
		Uid: new("teescope-" + b.name), Title: new(b.title), Description: new(b.about), Tags: []string{"teescope"},
		SchemaVersion: 39, Version: new(uint32(1)), Editable: new(true), GraphTooltip: new(dashboard.DashboardCursorSyncCrosshair),
		Refresh: new(b.refresh), Time: &dashboard.DashboardDashboardTime{From: b.from, To: "now"}, Timezone: new("browser"),
	}
	d.Templating.List = []dashboard.VariableModel{{
		Name: "datasource", Label: new("Data source"), Type: dashboard.VariableTypeDatasource,
		Query: &dashboard.StringOrMap{String: new("prometheus")}, Current: newOption("teescope", "teescope"),
	}}
	for _, v := range b.variables {
		d.Templating.List = append(d.Templating.List, dashboard.VariableModel{
			Name: v.name, Label: new(v.label), Type: dashboard.VariableTypeQuery, Datasource: source,
			Query:   &dashboard.StringOrMap{Map: map[string]any{"query": v.query, "refId": v.name}},
			Refresh: new(dashboard.VariableRefreshOnTimeRangeChanged), Sort: new(dashboard.VariableSortAlphabeticalAsc),
			Multi: new(true), IncludeAll: new(true), AllValue: new(".*"), Current: newOption("All", "$__all"),
		})
	}
	d.Annotations.List = []dashboard.AnnotationQuery{{
		Name: "Findings", Datasource: source, Enable: true, IconColor: "red", Expr: new(b.findings), Step: new("60s"),
		TitleFormat: new("{{subject}}: {{rule}}"), TextFormat: new("{{severity}}"), TagKeys: new("rule,severity"),
	}}
	d.Links = []dashboard.DashboardLink{{
		Title: "teescope", Type: dashboard.DashboardLinkTypeDashboards, Icon: "external link", Tags: []string{"teescope"}, AsDropdown: true, IncludeVars: true, KeepTime: true,
	}}
	at := grid{}
	for _, r := range b.rows {
		d.Panels = append(d.Panels, dashboard.PanelOrRowPanel{RowPanel: &dashboard.RowPanel{
			Id: uint32(len(d.Panels) + 1), Type: "row", Title: new(r.title), GridPos: at.place(24, 1), Panels: []dashboard.Panel{},
		}})
		for _, p := range r.panels {
			built, err := p.build(help)
			if err != nil {
				return d, fmt.Errorf("%s: %s: %w", r.title, p.title, err)
			}
			built.Id, built.GridPos = new(uint32(len(d.Panels)+1)), at.place(p.w, p.h)
			d.Panels = append(d.Panels, dashboard.PanelOrRowPanel{Panel: &built})
		}
		at.endLine()
	}
	return d, d.Validate()
}

func newOption(text, value string) *dashboard.VariableOption {
	return &dashboard.VariableOption{Text: dashboard.StringOrArrayOfString{String: &text}, Value: dashboard.StringOrArrayOfString{String: &value}}
}

func (p panel) build(help map[string]string) (dashboard.Panel, error) {
	about, err := p.description(help)
	if err != nil {
		return dashboard.Panel{}, err
	}
	fields := dashboard.FieldConfig{Unit: new(p.unit)}
	switch p.kind.plugin {
	case "timeseries":
		if !p.signed {
			fields.Min = new(0.0)
		}
	case "gauge":
		fields.Min, fields.Max = new(0.0), new(1.0)
	}
	if p.kind.plugin == "stat" || p.kind.plugin == "gauge" {
		fields.NoValue = new("not here")
	}
	if p.kind.custom != nil {
		fields.Custom = p.kind.custom()
	}
	out := dashboard.Panel{
		Type: p.kind.plugin, Title: new(p.title), Description: new(about), Datasource: source, Options: p.kind.options(),
		FieldConfig: &dashboard.FieldConfigSource{Defaults: fields, Overrides: []dashboard.DashboardFieldConfigSourceOverrides{}},
	}
	for i, q := range p.queries {
		target := prometheus.Dataquery{RefId: new(string(rune('A' + i))), Datasource: source, Expr: q.expr, LegendFormat: new(q.legend)}
		if q.legend == "" {
			target.LegendFormat = new("__auto")
		}
		if p.kind.now {
			target.Instant = new(true)
		}
		if p.kind.format != "" {
			target.Format = new(p.kind.format)
		}
		out.Targets = append(out.Targets, variants.Dataquery(target))
	}
	return out, nil
}

// grid is the place of the next panel: they fill a line from left to right, and then the next one.
type grid struct{ x, y, height uint32 }

func (g *grid) place(w, h uint32) *dashboard.GridPos {
	if g.x+w > 24 {
		g.endLine()
	}
	pos := &dashboard.GridPos{X: g.x, Y: g.y, W: w, H: h}
	g.x, g.height = g.x+w, max(g.height, h)
	return pos
}

// endLine moves to the next line.
func (g *grid) endLine() { *g = grid{y: g.y + g.height} }
