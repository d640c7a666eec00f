package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var infrastructure = board{
	name:    "infrastructure",
	title:   "teescope: infrastructure",
	about:   "The machines under the workloads, under node_exporter's names: CPU, memory, pressure, disks, file systems, network, energy.",
	refresh: "10s", from: "now-15m",
	variables: []variable{
		{name: "instance", label: "Machine", query: "label_values(teescope_source_up, instance)"},
	},
	findings: `teescope_finding_open{instance=~"$instance"}`,
	rows: []row{
		{"At a glance", []panel{
			{kind: dial, title: "CPU", unit: units.PercentUnit, w: 4, h: 4, about: "Share of the CPU time that is used.", queries: []query{
				{expr: `1 - sum(rate(node_cpu_seconds_total{instance=~"$instance",mode=~"idle|iowait"}[$__rate_interval])) / sum(rate(node_cpu_seconds_total{instance=~"$instance"}[$__rate_interval]))`},
			}},
			{kind: dial, title: "Memory", unit: units.PercentUnit, w: 4, h: 4, about: "Share of the memory that is not available.", queries: []query{
				{expr: `1 - sum(node_memory_MemAvailable_bytes{instance=~"$instance"}) / sum(node_memory_MemTotal_bytes{instance=~"$instance"})`},
			}},
			{kind: number, title: "CPUs", unit: units.NoUnit, w: 4, h: 4, about: "CPUs of the chosen machines.", queries: []query{
				{expr: `count(node_cpu_seconds_total{instance=~"$instance",mode="idle"})`},
			}},
			{kind: number, title: "Memory", unit: units.BytesIEC, w: 4, h: 4, queries: []query{
				{expr: `sum(node_memory_MemTotal_bytes{instance=~"$instance"})`},
			}},
			{kind: number, title: "Load", unit: units.NoUnit, w: 4, h: 4, queries: []query{
				{expr: `sum(node_load1{instance=~"$instance"})`},
			}},
			{kind: number, title: "Up since boot", unit: units.Seconds, w: 4, h: 4, about: "Time since the last machine booted.", queries: []query{
				{expr: `min(node_time_seconds{instance=~"$instance"} - node_boot_time_seconds{instance=~"$instance"})`},
			}},
		}},
		{"CPU", []panel{
			{kind: filledStack, title: "CPU time", unit: units.PercentUnit, w: 8, h: 8, about: "Share of the CPU time by mode.", queries: []query{
				{`sum by (mode) (rate(node_cpu_seconds_total{instance=~"$instance",mode!="idle"}[$__rate_interval])) / scalar(count(node_cpu_seconds_total{instance=~"$instance",mode="idle"}))`, "{{mode}}"},
			}},
			{kind: lines, title: "Steal", unit: units.PercentUnit, w: 8, h: 8, about: "Share of the CPU time for which this VM was runnable but the host ran something else.", queries: []query{
				{`sum by (instance) (rate(node_cpu_seconds_total{instance=~"$instance",mode="steal"}[$__rate_interval])) / sum by (instance) (rate(node_cpu_seconds_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"},
			}},
			{kind: lines, title: "Load and threads", unit: units.NoUnit, w: 8, h: 8, about: "Load, and threads that run or are blocked.", queries: []query{
				{`node_load1{instance=~"$instance"}`, "load of 1 min {{instance}}"},
				{`node_procs_running{instance=~"$instance"}`, "running {{instance}}"},
				{`node_procs_blocked{instance=~"$instance"}`, "blocked {{instance}}"},
			}},
			{kind: lines, title: "Switches, interrupts, forks", unit: units.OpsPerSecond, w: 8, h: 8, about: "Context switches, interrupts and forks of the machine.", queries: []query{
				{`rate(node_context_switches_total{instance=~"$instance"}[$__rate_interval])`, "switches {{instance}}"},
				{`rate(node_intr_total{instance=~"$instance"}[$__rate_interval])`, "interrupts {{instance}}"},
				{`rate(node_forks_total{instance=~"$instance"}[$__rate_interval])`, "forks {{instance}}"},
			}},
			{kind: lines, title: "Soft interrupts", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`sum by (vector) (rate(node_softirqs_total{instance=~"$instance"}[$__rate_interval]))`, "{{vector}}"},
			}},
			{kind: lines, title: "Pressure", unit: units.PercentUnit, w: 8, h: 8, about: "Share of the time in which a task waited for the CPU, for I/O or for memory.", queries: []query{
				{`rate(node_pressure_cpu_waiting_seconds_total{instance=~"$instance"}[$__rate_interval])`, "CPU {{instance}}"},
				{`rate(node_pressure_io_waiting_seconds_total{instance=~"$instance"}[$__rate_interval])`, "I/O {{instance}}"},
				{`rate(node_pressure_memory_waiting_seconds_total{instance=~"$instance"}[$__rate_interval])`, "memory {{instance}}"},
			}},
			{kind: lines, title: "Waiting for a CPU", unit: units.Seconds, w: 8, h: 8, about: "How long threads wait for a CPU; only while the source run_queue is on.", queries: []query{
				{`histogram_quantile(0.99, sum by (le, instance) (rate(tee_runqueue_latency_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "99 % {{instance}}"},
			}},
			{kind: lines, title: "Clock source", unit: units.NoUnit, w: 8, h: 8, queries: []query{
				{`tee_clocksource_info{instance=~"$instance"}`, "{{name}} {{instance}}"},
			}},
			{kind: lines, title: "Energy", unit: units.Watt, w: 8, h: 8, about: "Power of the processor packages, from their energy counters.", queries: []query{
				{`rate(node_rapl_package_joules_total{instance=~"$instance"}[$__rate_interval])`, "package {{index}} {{instance}}"},
				{`rate(node_rapl_dram_joules_total{instance=~"$instance"}[$__rate_interval])`, "memory {{index}} {{instance}}"},
			}},
		}},
		{"Memory", []panel{
			{kind: filledStack, title: "Memory", unit: units.BytesIEC, w: 8, h: 8, about: "What memory is used for.", queries: []query{
				{`node_memory_AnonPages_bytes{instance=~"$instance"}`, "anonymous {{instance}}"},
				{`node_memory_Cached_bytes{instance=~"$instance"}`, "page cache {{instance}}"},
				{`node_memory_Slab_bytes{instance=~"$instance"}`, "slab {{instance}}"},
				{`node_memory_PageTables_bytes{instance=~"$instance"}`, "page tables {{instance}}"},
				{`node_memory_MemFree_bytes{instance=~"$instance"}`, "free {{instance}}"},
			}},
			{kind: lines, title: "Available and total", unit: units.BytesIEC, w: 8, h: 8, about: "Memory available without swapping, and total memory.", queries: []query{
				{`node_memory_MemAvailable_bytes{instance=~"$instance"}`, "available {{instance}}"},
				{`node_memory_MemTotal_bytes{instance=~"$instance"}`, "total {{instance}}"},
			}},
			{kind: lines, title: "Shared memory", unit: units.BytesIEC, w: 8, h: 8, note: "The kernel puts EPC pages that it writes out there, among others.", queries: []query{
				{`node_memory_Shmem_bytes{instance=~"$instance"}`, "{{instance}}"},
			}},
			{kind: lines, title: "Faults", unit: units.OpsPerSecond, w: 8, h: 8, about: "Page faults of the machine, and major faults, which read from a disk.", queries: []query{
				{`rate(node_vmstat_pgfault{instance=~"$instance"}[$__rate_interval])`, "all {{instance}}"},
				{`rate(node_vmstat_pgmajfault{instance=~"$instance"}[$__rate_interval])`, "major {{instance}}"},
			}},
			{kind: lines, title: "Paging", unit: units.NoUnit, w: 8, h: 8, about: "Data paged in and out (kB/s), and pages swapped.", queries: []query{
				{`rate(node_vmstat_pgpgin{instance=~"$instance"}[$__rate_interval])`, "paged in {{instance}}"},
				{`rate(node_vmstat_pgpgout{instance=~"$instance"}[$__rate_interval])`, "paged out {{instance}}"},
				{`rate(node_vmstat_pswpin{instance=~"$instance"}[$__rate_interval])`, "swapped in {{instance}}"},
				{`rate(node_vmstat_pswpout{instance=~"$instance"}[$__rate_interval])`, "swapped out {{instance}}"},
			}},
			{kind: lines, title: "Dirty", unit: units.BytesIEC, w: 8, h: 8, about: "Memory waiting to be written back.", queries: []query{
				{`node_memory_Dirty_bytes{instance=~"$instance"}`, "dirty {{instance}}"},
				{`node_memory_Writeback_bytes{instance=~"$instance"}`, "being written {{instance}}"},
			}},
		}},
		{"Disks and file systems", []panel{
			{kind: lines, title: "Bytes", unit: units.BytesPerSecondSI, w: 8, h: 8, about: "Bytes read and written.", queries: []query{
				{`rate(node_disk_read_bytes_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} read {{instance}}"},
				{`rate(node_disk_written_bytes_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} written {{instance}}"},
			}},
			{kind: lines, title: "Requests", unit: units.IOOpsPerSecond, w: 8, h: 8, about: "Requests completed.", queries: []query{
				{`rate(node_disk_reads_completed_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} reads {{instance}}"},
				{`rate(node_disk_writes_completed_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} writes {{instance}}"},
			}},
			{kind: lines, title: "Busy", unit: units.PercentUnit, w: 8, h: 8, note: "Here as a share of the time.", queries: []query{
				{`rate(node_disk_io_time_seconds_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} {{instance}}"},
			}},
			{kind: lines, title: "Time of a request", unit: units.Seconds, w: 8, h: 8, about: "Mean time of a request, including queueing.", queries: []query{
				{`rate(node_disk_read_time_seconds_total{instance=~"$instance"}[$__rate_interval]) / rate(node_disk_reads_completed_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} read {{instance}}"},
				{`rate(node_disk_write_time_seconds_total{instance=~"$instance"}[$__rate_interval]) / rate(node_disk_writes_completed_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} write {{instance}}"},
			}},
			{kind: warmth, title: "Latency of block devices", unit: units.Short, w: 8, h: 8, queries: []query{
				{`sum by (le) (rate(tee_block_io_latency_seconds_bucket{instance=~"$instance"}[$__rate_interval]))`, "{{le}}"},
			}},
			{kind: lines, title: "File systems", unit: units.PercentUnit, w: 8, h: 8, about: "Share that is in use.", queries: []query{
				{`1 - node_filesystem_avail_bytes{instance=~"$instance"} / node_filesystem_size_bytes{instance=~"$instance"}`, "{{mountpoint}} {{instance}}"},
			}},
		}},
		{"Network", []panel{
			{kind: lines, title: "Bytes", unit: units.BytesPerSecondSI, w: 8, h: 8, about: "Bytes received and sent.", queries: []query{
				{`rate(node_network_receive_bytes_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} received {{instance}}"},
				{`rate(node_network_transmit_bytes_total{instance=~"$instance"}[$__rate_interval])`, "{{device}} sent {{instance}}"},
			}},
			{kind: lines, title: "Drops and errors", unit: units.PacketsPerSecond, w: 8, h: 8, about: "Packets dropped, and errors.", queries: []query{
				{`sum by (instance, device) (rate(node_network_receive_drop_total{instance=~"$instance"}[$__rate_interval]))`, "{{device}} receive drops {{instance}}"},
				{`sum by (instance, device) (rate(node_network_transmit_drop_total{instance=~"$instance"}[$__rate_interval]))`, "{{device}} send drops {{instance}}"},
				{`sum by (instance, device) (rate(node_network_receive_errs_total{instance=~"$instance"}[$__rate_interval]))`, "{{device}} receive errors {{instance}}"},
				{`sum by (instance, device) (rate(node_network_transmit_errs_total{instance=~"$instance"}[$__rate_interval]))`, "{{device}} send errors {{instance}}"},
			}},
			{kind: lines, title: "TCP", unit: units.OpsPerSecond, w: 8, h: 8, about: "Segments, retransmissions and connections.", queries: []query{
				{`rate(node_netstat_Tcp_InSegs{instance=~"$instance"}[$__rate_interval])`, "received {{instance}}"},
				{`rate(node_netstat_Tcp_OutSegs{instance=~"$instance"}[$__rate_interval])`, "sent {{instance}}"},
				{`rate(node_netstat_Tcp_RetransSegs{instance=~"$instance"}[$__rate_interval])`, "sent again {{instance}}"},
				{`rate(node_netstat_Tcp_ActiveOpens{instance=~"$instance"}[$__rate_interval])`, "connections opened {{instance}}"},
				{`rate(node_netstat_Tcp_PassiveOpens{instance=~"$instance"}[$__rate_interval])`, "connections accepted {{instance}}"},
			}},
			{kind: lines, title: "Segments sent again", unit: units.OpsPerSecond, w: 12, h: 8, about: "TCP retransmissions and resets, by phase of the connection.", queries: []query{
				{`sum by (phase) (rate(tee_tcp_retransmits_total{instance=~"$instance"}[$__rate_interval]))`, "sent again, {{phase}}"},
				{`sum by (phase) (rate(tee_tcp_resets_sent_total{instance=~"$instance"}[$__rate_interval]))`, "resets sent, {{phase}}"},
				{`sum by (phase) (rate(tee_tcp_resets_received_total{instance=~"$instance"}[$__rate_interval]))`, "resets received, {{phase}}"},
			}},
			{kind: lines, title: "Sockets", unit: units.NoUnit, w: 12, h: 8, about: "Sockets in use.", queries: []query{
				{`node_sockstat_sockets_used{instance=~"$instance"}`, "all {{instance}}"},
				{`node_sockstat_TCP_inuse{instance=~"$instance"}`, "TCP {{instance}}"},
				{`node_sockstat_TCP_tw{instance=~"$instance"}`, "TCP in TIME_WAIT {{instance}}"},
				{`node_sockstat_UDP_inuse{instance=~"$instance"}`, "UDP {{instance}}"},
			}},
		}},
		{"GPUs", []panel{
			{kind: lines, title: "Load", unit: units.PercentUnit, w: 8, h: 8, queries: []query{
				{`tee_gpu_utilization_ratio{instance=~"$instance"}`, "{{gpu}} {{engine}} {{instance}}"},
			}},
			{kind: lines, title: "Bounced bytes", unit: units.BytesPerSecondSI, w: 8, h: 8, queries: []query{
				{`tee_gpu_bounce_bytes_per_second{instance=~"$instance"}`, "{{gpu}} {{direction}} {{instance}}"},
			}},
			{kind: table, title: "Confidential computing", unit: units.NoUnit, w: 8, h: 8, queries: []query{
				{expr: `tee_gpu_confidential_compute_mode{instance=~"$instance"}`},
			}},
		}},
	},
}
