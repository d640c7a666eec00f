package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var benchmarks = board{
	name:    "benchmarks",
	title:   "teescope: benchmarks",
	about:   "Results of teescope bench. To scrape them, write `teescope compare RESULT.json --format openmetrics` into a file that a web server serves, or into node_exporter's textfile folder.",
	refresh: "1m", from: "now-7d",
	variables: []variable{
		{name: "experiment", label: "Experiment", query: "label_values(teescope_bench_info, experiment)"},
		{name: "metric", label: "Metric", query: `label_values(teescope_bench_ratio{experiment=~"$experiment"}, metric)`},
	},
	findings: "teescope_finding_open",
	rows: []row{
		{"What was measured", []panel{
			{kind: table, title: "Experiments", unit: units.NoUnit, w: 12, h: 8, note: "Grade A is the best evidence.", queries: []query{
				{expr: `teescope_bench_info{experiment=~"$experiment"}`},
			}},
			{kind: table, title: "Environments", unit: units.NoUnit, w: 12, h: 8, queries: []query{
				{expr: `teescope_bench_environment_info{experiment=~"$experiment"}`},
			}},
			{kind: table, title: "Runs", unit: units.NoUnit, w: 12, h: 7, queries: []query{
				{expr: `teescope_bench_runs{experiment=~"$experiment"}`},
			}},
			{kind: table, title: "Guards", unit: units.NoUnit, w: 12, h: 7, queries: []query{
				{expr: `teescope_bench_guard{experiment=~"$experiment"}`},
			}},
		}},
		{"What the TEE costs", []panel{
			{kind: lines, title: "Cost", unit: units.NoUnit, w: 16, h: 8, signed: true, about: "The ratio of treatment to baseline, inverted if needed so that above 1 is worse, with its interval.", queries: []query{
				{`teescope_bench_cost_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}"},
				{`teescope_bench_cost_ci_low_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}, low"},
				{`teescope_bench_cost_ci_high_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}, high"},
			}},
			{kind: table, title: "Verdicts", unit: units.NoUnit, w: 8, h: 8, about: "The verdict of each comparison.", queries: []query{
				{expr: `teescope_bench_verdict{experiment=~"$experiment",metric=~"$metric"} == 1`},
			}},
			{kind: lines, title: "Ratio as measured", unit: units.NoUnit, w: 8, h: 8, signed: true, about: "Treatment divided by baseline, with its interval.", queries: []query{
				{`teescope_bench_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}"},
				{`teescope_bench_ci_low_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}, low"},
				{`teescope_bench_ci_high_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}, high"},
			}},
			{kind: bars, title: "Smallest change that could be seen", unit: units.PercentUnit, w: 8, h: 8, queries: []query{
				{`teescope_bench_minimum_detectable_effect_ratio{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}"},
			}},
			{kind: bars, title: "Pairs", unit: units.NoUnit, w: 8, h: 8, queries: []query{
				{`teescope_bench_pairs{experiment=~"$experiment",metric=~"$metric"}`, "{{workload}} {{case}} {{metric}}: {{treatment}} / {{baseline}}"},
			}},
		}},
		{"Values", []panel{
			{kind: lines, title: "Values of the runs", unit: units.NoUnit, w: 12, h: 8, about: "Medians of the runs of each environment, each in the unit of its name.", queries: []query{
				{`{__name__=~"teescope_bench_run_value.*",experiment=~"$experiment",metric=~"$metric",stat="median"}`, "{{workload}} {{case}} {{metric}} {{env}}"},
			}},
			{kind: table, title: "Missing", unit: units.NoUnit, w: 12, h: 8, queries: []query{
				{expr: `teescope_bench_missing{experiment=~"$experiment"}`},
			}},
		}},
	},
}
