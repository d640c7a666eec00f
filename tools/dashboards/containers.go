package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var containers = board{
	name:    "containers",
	title:   "teescope: containers",
	about:   "Resource use of containers and other control groups, under cAdvisor's names: CPU, memory, disk and network.",
	refresh: "10s", from: "now-15m",
	variables: []variable{
		{name: "instance", label: "Machine", query: "label_values(teescope_source_up, instance)"},
		{name: "container", label: "Container", query: `label_values(container_cpu_usage_seconds_total{instance=~"$instance"}, id)`},
	},
	findings: `teescope_finding_open{instance=~"$instance"}`,
	rows: []row{
		{"All of them", []panel{
			{kind: number, title: "Containers", unit: units.NoUnit, w: 4, h: 4, about: "Control groups with CPU time.", queries: []query{
				{expr: `count(count by (instance, id) (container_cpu_usage_seconds_total{instance=~"$instance",id=~"$container"}))`},
			}},
			{kind: number, title: "CPU", unit: units.NoUnit, w: 4, h: 4, note: "Here in cores.", queries: []query{
				{expr: `sum(rate(container_cpu_usage_seconds_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`},
			}},
			{kind: number, title: "Memory", unit: units.BytesIEC, w: 4, h: 4, queries: []query{
				{expr: `sum(container_memory_working_set_bytes{instance=~"$instance",id=~"$container"})`},
			}},
			{kind: number, title: "Processes", unit: units.NoUnit, w: 4, h: 4, queries: []query{
				{expr: `sum(container_processes{instance=~"$instance",id=~"$container"})`},
			}},
			{kind: number, title: "Received", unit: units.BytesPerSecondSI, w: 4, h: 4, queries: []query{
				{expr: `sum(rate(container_network_receive_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`},
			}},
			{kind: number, title: "Sent", unit: units.BytesPerSecondSI, w: 4, h: 4, queries: []query{
				{expr: `sum(rate(container_network_transmit_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`},
			}},
		}},
		{"CPU", []panel{
			{kind: filled, title: "CPU time", unit: units.NoUnit, w: 12, h: 8, note: "Here in cores.", queries: []query{
				{`topk(15, sum by (id, container) (rate(container_cpu_usage_seconds_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{container}}"},
			}},
			{kind: stack, title: "In user mode and in the kernel", unit: units.NoUnit, w: 12, h: 8, about: "CPU time by mode in cores, sum of the selected control groups.", queries: []query{
				{`sum(rate(container_cpu_user_seconds_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "user"},
				{`sum(rate(container_cpu_system_seconds_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "kernel"},
			}},
			{kind: lines, title: "Throttling", unit: units.PercentUnit, w: 12, h: 8, about: "Share of the scheduling periods in which the CPU quota ran out.", queries: []query{
				{`topk(15, sum by (id, container) (rate(container_cpu_cfs_throttled_periods_total{instance=~"$instance",id=~"$container"}[$__rate_interval])) / sum by (id, container) (rate(container_cpu_cfs_periods_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Time throttled", unit: units.NoUnit, w: 12, h: 8, note: "Here in cores.", queries: []query{
				{`topk(15, sum by (id, container) (rate(container_cpu_cfs_throttled_seconds_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{container}}"},
			}},
		}},
		{"Memory", []panel{
			{kind: filled, title: "Working set", unit: units.BytesIEC, w: 8, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (container_memory_working_set_bytes{instance=~"$instance",id=~"$container"}))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Anonymous memory", unit: units.BytesIEC, w: 8, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (container_memory_rss{instance=~"$instance",id=~"$container"}))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Page cache", unit: units.BytesIEC, w: 8, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (container_memory_cache{instance=~"$instance",id=~"$container"}))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Share of the limit", unit: units.PercentUnit, w: 8, h: 8, about: "Memory charged as a share of the limit, where there is one.", queries: []query{
				{`topk(15, sum by (id, container) (container_memory_usage_bytes{instance=~"$instance",id=~"$container"}) / sum by (id, container) (container_spec_memory_limit_bytes{instance=~"$instance",id=~"$container"}))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Page faults", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(15, sum by (id, failure_type) (rate(container_memory_failures_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{failure_type}}"},
			}},
			{kind: lines, title: "Processes and threads", unit: units.NoUnit, w: 8, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (container_threads{instance=~"$instance",id=~"$container"}))`, "{{id}} {{container}}"},
			}},
		}},
		{"Disk and network", []panel{
			{kind: lines, title: "Read", unit: units.BytesPerSecondSI, w: 6, h: 8, about: "Bytes read from block devices.", queries: []query{
				{`topk(15, sum by (id, container) (rate(container_fs_reads_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval]) and on (job, instance, device) tee_container_disk_counted{instance=~"$instance"} == 1))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Written", unit: units.BytesPerSecondSI, w: 6, h: 8, about: "Bytes written to block devices.", queries: []query{
				{`topk(15, sum by (id, container) (rate(container_fs_writes_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval]) and on (job, instance, device) tee_container_disk_counted{instance=~"$instance"} == 1))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Received", unit: units.BytesPerSecondSI, w: 6, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (rate(container_network_receive_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Sent", unit: units.BytesPerSecondSI, w: 6, h: 8, queries: []query{
				{`topk(15, sum by (id, container) (rate(container_network_transmit_bytes_total{instance=~"$instance",id=~"$container"}[$__rate_interval])))`, "{{id}} {{container}}"},
			}},
			{kind: lines, title: "Packets", unit: units.PacketsPerSecond, w: 12, h: 8, about: "Packets received and sent, sum of the selected control groups.", queries: []query{
				{`sum(rate(container_network_receive_packets_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "received"},
				{`sum(rate(container_network_transmit_packets_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "sent"},
			}},
			{kind: lines, title: "Packets dropped and errors", unit: units.PacketsPerSecond, w: 12, h: 8, about: "Packets dropped, and errors.", queries: []query{
				{`sum(rate(container_network_receive_packets_dropped_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "dropped on receive"},
				{`sum(rate(container_network_transmit_packets_dropped_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "dropped on send"},
				{`sum(rate(container_network_receive_errors_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "receive errors"},
				{`sum(rate(container_network_transmit_errors_total{instance=~"$instance",id=~"$container"}[$__rate_interval]))`, "send errors"},
			}},
		}},
		{"SGX by control group", []panel{
			{kind: lines, title: "EPC", unit: units.BytesIEC, w: 24, h: 8, queries: []query{
				{`topk(15, tee_sgx_cgroup_epc_bytes{instance=~"$instance"})`, "{{cgroup}}"},
			}},
		}},
	},
}
