package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var tee = board{
	name:    "tee",
	title:   "teescope: TEE",
	about:   "TEE activity and processes' requests to the kernel, which cost more in an enclave or a confidential VM. If a panel has no data, this machine lacks the feature or hides it; the monitor's page says which.",
	refresh: "10s", from: "now-15m",
	variables: []variable{
		{name: "instance", label: "Machine", query: "label_values(teescope_source_up, instance)"},
		{name: "process", label: "Process", query: `label_values(tee_process_cpu_seconds_total{instance=~"$instance"}, process)`},
	},
	findings: `teescope_finding_open{instance=~"$instance"}`,
	rows: []row{
		{"What is here", []panel{
			{kind: table, title: "TEEs detected", unit: units.NoUnit, w: 12, h: 7, note: "Detected, not attested.", queries: []query{
				{expr: `tee_info{instance=~"$instance"}`},
			}},
			{kind: lines, title: "Sources", unit: units.NoUnit, w: 12, h: 7, note: "The monitor's page says why a source does not.", queries: []query{
				{`teescope_source_up{instance=~"$instance"}`, "{{source}} {{instance}}"},
			}},
		}},
		{"SGX: enclaves and their memory (EPC)", []panel{
			{kind: number, title: "Enclaves", unit: units.NoUnit, w: 4, h: 4, queries: []query{
				{expr: `sum(tee_sgx_enclaves{instance=~"$instance"})`},
			}},
			{kind: number, title: "Enclaves initialized", unit: units.NoUnit, w: 4, h: 4, queries: []query{
				{expr: `sum(tee_sgx_enclaves_initialized_total{instance=~"$instance"})`},
			}},
			{kind: number, title: "EPC", unit: units.BytesIEC, w: 4, h: 4, queries: []query{
				{expr: `sum(tee_sgx_epc_bytes{instance=~"$instance"})`},
			}},
			{kind: dial, title: "EPC in use", unit: units.PercentUnit, w: 4, h: 4, about: "Share of the EPC that enclaves hold. Once it is full the kernel pages.", queries: []query{
				{expr: `1 - sum(tee_sgx_epc_free_bytes{instance=~"$instance"}) / sum(tee_sgx_epc_bytes{instance=~"$instance"})`},
			}},
			{kind: number, title: "Pages loaded back", unit: units.OpsPerSecond, w: 4, h: 4, queries: []query{
				{expr: `sum(rate(tee_sgx_epc_pages_loaded_back_total{instance=~"$instance"}[$__rate_interval]))`},
			}},
			{kind: number, title: "Reclaimer", unit: units.PercentUnit, w: 4, h: 4, note: "Here as a share of one CPU.", queries: []query{
				{expr: `sum(rate(tee_sgx_reclaimer_cpu_seconds_total{instance=~"$instance"}[$__rate_interval]))`},
			}},
			{kind: filled, title: "EPC occupancy", unit: units.BytesIEC, w: 8, h: 8, about: "EPC size and free EPC.", queries: []query{
				{`tee_sgx_epc_bytes{instance=~"$instance"}`, "EPC {{instance}}"},
				{`tee_sgx_epc_free_bytes{instance=~"$instance"}`, "free {{instance}}"},
			}},
			{kind: lines, title: "EPC pages", unit: units.OpsPerSecond, w: 8, h: 8, about: "Pages that the kernel added to enclaves, wrote out, loaded back and marked old. Pages written out and loaded back are what a small EPC costs.", queries: []query{
				{`rate(tee_sgx_epc_pages_added_total{instance=~"$instance"}[$__rate_interval])`, "added {{instance}}"},
				{`rate(tee_sgx_epc_pages_evicted_total{instance=~"$instance"}[$__rate_interval])`, "written out {{instance}}"},
				{`rate(tee_sgx_epc_pages_loaded_back_total{instance=~"$instance"}[$__rate_interval])`, "loaded back {{instance}}"},
				{`rate(tee_sgx_epc_pages_reclaimed_total{instance=~"$instance"}[$__rate_interval])`, "reclaimed {{instance}}"},
				{`rate(tee_sgx_epc_pages_marked_old_total{instance=~"$instance"}[$__rate_interval])`, "marked old {{instance}}"},
			}},
			{kind: lines, title: "EPC pages by process", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (process, operation) (rate(tee_sgx_process_epc_pages_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} {{operation}}"},
			}},
			{kind: lines, title: "Enclave transitions", unit: units.OpsPerSecond, w: 8, h: 8, about: "Entries into and exits from enclaves by process. Published measurements: 8,200 to 17,000 cycles per call.", queries: []query{
				{`topk(10, sum by (process) (rate(tee_sgx_enclave_entries_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} entries"},
				{`topk(10, sum by (process) (rate(tee_sgx_enclave_exits_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} exits"},
				{`topk(10, sum by (process) (rate(tee_sgx_enclave_async_exits_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} asynchronous exits"},
			}},
			{kind: lines, title: "Time in EPC page faults", unit: units.PercentUnit, w: 8, h: 8, about: "CPU time of the SGX driver in page faults on enclave memory, and of threads in direct reclaim.", queries: []query{
				{`rate(tee_sgx_enclave_fault_duration_seconds_sum{instance=~"$instance"}[$__rate_interval])`, "faults {{instance}}"},
				{`rate(tee_sgx_epc_reclaim_duration_seconds_sum{instance=~"$instance",context="direct"}[$__rate_interval])`, "direct reclaim {{instance}}"},
			}},
			{kind: lines, title: "Enclaves made", unit: units.OpsPerSecond, w: 8, h: 8, about: "Enclaves created, initialized and removed.", queries: []query{
				{`rate(tee_sgx_enclaves_created_total{instance=~"$instance"}[$__rate_interval])`, "created {{instance}}"},
				{`rate(tee_sgx_enclaves_initialized_total{instance=~"$instance"}[$__rate_interval])`, "initialized {{instance}}"},
				{`rate(tee_sgx_enclaves_removed_total{instance=~"$instance"}[$__rate_interval])`, "removed {{instance}}"},
			}},
		}},
		{"Confidential VMs: the guest's side", []panel{
			{kind: filled, title: "Bounce buffers", unit: units.BytesIEC, w: 8, h: 8, about: "The pool of bounce buffers for a confidential VM's I/O, and how much of it is in use.", queries: []query{
				{`tee_swiotlb_size_bytes{instance=~"$instance"}`, "size {{instance}}"},
				{`tee_swiotlb_used_bytes{instance=~"$instance"}`, "in use {{instance}}"},
				{`tee_swiotlb_used_max_bytes{instance=~"$instance"}`, "most since boot {{instance}}"},
			}},
			{kind: lines, title: "Bytes through bounce buffers", unit: units.BytesPerSecondSI, w: 8, h: 8, queries: []query{
				{`sum by (instance, device) (rate(tee_swiotlb_bounced_bytes_total{instance=~"$instance"}[$__rate_interval]))`, "{{device}} {{instance}}"},
			}},
			{kind: lines, title: "Mappings that found no room", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`rate(tee_swiotlb_mapping_failures_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}"},
			}},
			{kind: lines, title: "Exits that the guest sees", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (reason) (rate(tee_guest_exceptions_total{instance=~"$instance"}[$__rate_interval])))`, "{{reason}}"},
			}},
			{kind: lines, title: "Memory conversions", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`sum by (direction) (rate(tee_private_memory_conversions_total{instance=~"$instance"}[$__rate_interval]))`, "{{direction}}"},
			}},
			{kind: filled, title: "Memory not accepted yet", unit: units.BytesIEC, w: 8, h: 8, queries: []query{
				{`tee_unaccepted_memory_bytes{instance=~"$instance"}`, "{{instance}}"},
			}},
		}},
		{"Confidential VMs: the host's side", []panel{
			{kind: lines, title: "Exits by machine", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (vm, type) (rate(tee_vm_exits_total{instance=~"$instance"}[$__rate_interval])))`, "{{vm}} ({{type}})"},
			}},
			{kind: lines, title: "Exits by reason", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (reason) (rate(tee_vm_exits_total{instance=~"$instance"}[$__rate_interval])))`, "{{reason}}"},
			}},
			{kind: table, title: "Virtual machines", unit: units.NoUnit, w: 8, h: 8, queries: []query{
				{expr: `tee_vm_info{instance=~"$instance"}`},
			}},
		}},
		{"System calls", []panel{
			{kind: filled, title: "By process", unit: units.OpsPerSecond, w: 8, h: 8, note: "In an enclave each call may cause an exit.", queries: []query{
				{`topk(10, sum by (process) (rate(tee_syscalls_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}}"},
			}},
			{kind: lines, title: "By call", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (syscall) (rate(tee_syscalls_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{syscall}}"},
			}},
			{kind: warmth, title: "Latency", unit: units.Short, w: 8, h: 8, queries: []query{
				{`sum by (le) (rate(tee_syscall_duration_seconds_bucket{instance=~"$instance"}[$__rate_interval]))`, "{{le}}"},
			}},
		}},
		{"Scheduling and memory", []panel{
			{kind: lines, title: "Context switches", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (process, kind) (rate(tee_context_switches_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} {{kind}}"},
			}},
			{kind: lines, title: "Page faults", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (process, space, cause) (rate(tee_page_faults_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}} {{space}} {{cause}}"},
			}},
			{kind: filled, title: "CPU time", unit: units.NoUnit, w: 8, h: 8, note: "Here in cores.", queries: []query{
				{`topk(10, sum by (process) (rate(tee_process_cpu_seconds_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}}"},
			}},
			{kind: lines, title: "Page cache", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`sum by (operation) (rate(tee_page_cache_pages_total{instance=~"$instance"}[$__rate_interval]))`, "{{operation}}"},
			}},
			{kind: lines, title: "Last-level cache", unit: units.PercentUnit, w: 8, h: 8, about: "Share of references to the last-level cache that miss. Production enclaves and most VMs hide it.", queries: []query{
				{`sum by (instance) (rate(tee_llc_misses_total{instance=~"$instance"}[$__rate_interval])) / sum by (instance) (rate(tee_llc_references_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"},
			}},
			{kind: lines, title: "TLS handshakes", unit: units.OpsPerSecond, w: 8, h: 8, queries: []query{
				{`topk(10, sum by (process) (rate(tee_tls_handshakes_total{instance=~"$instance",process=~"$process"}[$__rate_interval])))`, "{{process}}"},
			}},
		}},
		{"Cost and coverage of teescope itself", []panel{
			{kind: stack, title: "CPU", unit: units.PercentUnit, w: 8, h: 8, note: "Here as a share of one CPU.", queries: []query{
				{`sum by (part) (rate(teescope_overhead_cpu_seconds_total{instance=~"$instance"}[$__rate_interval]))`, "{{part}}"},
			}},
			{kind: lines, title: "Coverage", unit: units.PercentUnit, w: 8, h: 8, queries: []query{
				{`teescope_source_coverage_ratio{instance=~"$instance"}`, "{{source}} {{instance}}"},
			}},
			{kind: lines, title: "Memory", unit: units.BytesIEC, w: 8, h: 8, queries: []query{
				{`teescope_memory_bytes{instance=~"$instance"}`, "{{kind}} {{instance}}"},
			}},
		}},
	},
}
