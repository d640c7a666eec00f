// What trusted execution environments show to the outside: one list of charts.
import type { Source, TEE } from "../api/types";
import type { Unit } from "../format/number";
import { own, rateWindow, select } from "../query/promql";
import { sourcesOf } from "../state/sources";
import type { Window } from "../state/window";
import type { Line, Naming } from "./data";

/** A chart of fixed lines, or of one query with a line per value of its labels. */
export interface TEEChart {
  title: string;
  unit: Unit;
  /** The metrics behind it; their sources decide whether the chart is shown. */
  metrics: string[];
  about: About;
  /** Among the few that the overview shows. */
  glance?: boolean;
  /** Among those that stand below each other on one time axis. */
  axis?: boolean;
  lines?: Line[];
  expr?: string;
  by?: Naming;
}

/** What a chart is about, in the order of the page. */
export const subjects = {
  sgx: "Enclaves",
  guest: "This confidential guest",
  vm: "Virtual machines on this host",
  nitro: "Nitro enclaves",
  gpu: "Graphics cards",
} as const;
export type About = keyof typeof subjects;

/** Every chart, whether or not this machine has its data. */
export function allCharts(w: Window): TEEChart[] {
  const of = (metric: string) => select(metric, own(w));
  const sum = (metric: string, by = "") => `sum${by && ` by (${by}) `}(${of(metric)})`;
  const rate = (metric: string, by = "") => `sum${by && ` by (${by}) `}(rate(${of(metric)}[${rateWindow(w)}]))`;
  // A chart of a rate per second, or of a value, by labels.
  const rates = (about: About, title: string, metric: string, by: string, unit: Unit = "1/s"): TEEChart => ({ about, title, unit, metrics: [metric], expr: rate(metric, by), by: by.split(", ") });
  const values = (about: About, title: string, metric: string, by: string, unit: Unit = ""): TEEChart => ({ about, title, unit, metrics: [metric], expr: sum(metric, by), by: by.split(", ") });
  const times = (about: About, title: string, metric: string): TEEChart => ({
    about,
    title,
    unit: "seconds",
    metrics: [metric],
    lines: [0.5, 0.99].map((q) => ({ name: `${q * 100} % are faster`, expr: `histogram_quantile(${q}, ${rate(`${metric}_bucket`, "le")})` })),
  });
  // Used and available amounts of the same thing, each with its name in front.
  const against = (about: About, title: string, unit: Unit, by: string, used: string, size: string): TEEChart => ({
    about,
    title,
    unit,
    metrics: [used, size],
    expr: `label_replace(max by (${by}) (${of(used)}), "is", "used", "", "") or label_replace(max by (${by}) (${of(size)}), "is", "size", "", "")`,
    by: ["is", ...by.split(", ")],
  });
  return [
    {
      about: "sgx",
      glance: true,
      axis: true,
      title: "EPC: protected memory of SGX",
      unit: "bytes",
      metrics: ["tee_sgx_epc_bytes", "tee_sgx_epc_free_bytes"],
      lines: [
        { name: "size", expr: sum("tee_sgx_epc_bytes") },
        { name: "in use", expr: `${sum("tee_sgx_epc_bytes")} - ${sum("tee_sgx_epc_free_bytes")}` },
        { name: "free", expr: sum("tee_sgx_epc_free_bytes") },
        { name: "paging starts below", expr: sum("tee_sgx_epc_low_watermark_bytes") },
      ],
    },
    {
      about: "sgx",
      glance: true,
      axis: true,
      title: "EPC paging, pages per second",
      unit: "1/s",
      metrics: ["tee_sgx_epc_pages_evicted_total", "tee_sgx_epc_pages_loaded_back_total"],
      lines: ["evicted", "loaded_back", "reclaimed", "added"].map((op) => ({ name: op.replace("_", " "), expr: rate(`tee_sgx_epc_pages_${op}_total`) })),
    },
    {
      about: "sgx",
      glance: true,
      axis: true,
      title: "Enclave transitions per second",
      unit: "1/s",
      metrics: ["tee_sgx_enclave_entries_total", "tee_sgx_enclave_exits_total", "tee_sgx_enclave_async_exits_total"],
      lines: [
        { name: "entries", expr: rate("tee_sgx_enclave_entries_total") },
        { name: "exits", expr: rate("tee_sgx_enclave_exits_total") },
        { name: "async exits", expr: rate("tee_sgx_enclave_async_exits_total") },
      ],
    },
    rates("sgx", "Entries into enclaves per second, by process", "tee_sgx_enclave_entries_total", "process"),
    { about: "sgx", glance: true, title: "Running enclaves", unit: "", metrics: ["tee_sgx_enclaves"], lines: [{ name: "running", expr: sum("tee_sgx_enclaves") }] },
    values("sgx", "Enclaves by process", "tee_sgx_process_enclaves", "process"),
    rates("sgx", "EPC pages per second, by process", "tee_sgx_process_epc_pages_total", "process, operation"),
    values("sgx", "EPC by control group", "tee_sgx_cgroup_epc_bytes", "cgroup", "bytes"),
    rates("sgx", "Faults on enclave memory per second", "tee_sgx_enclave_faults_total", "result"),
    { ...times("sgx", "Time of a fault on enclave memory", "tee_sgx_enclave_fault_duration_seconds"), axis: true },
    rates("sgx", "Failed EPC page allocations per second", "tee_sgx_epc_allocation_failures_total", "reason"),
    times("sgx", "Time to reclaim 16 EPC pages", "tee_sgx_epc_reclaim_duration_seconds"),
    { about: "sgx", title: "CPU of the EPC reclaimer, percent of one core", unit: "ratio", metrics: ["tee_sgx_reclaimer_cpu_seconds_total"], lines: [{ name: "reclaimer", expr: rate("tee_sgx_reclaimer_cpu_seconds_total") }] },
    {
      about: "guest",
      glance: true,
      axis: true,
      title: "SWIOTLB: bounce buffer in use",
      unit: "bytes",
      metrics: ["tee_swiotlb_used_bytes"],
      lines: [
        { name: "size", expr: sum("tee_swiotlb_size_bytes") },
        { name: "used", expr: sum("tee_swiotlb_used_bytes") },
        { name: "most ever used", expr: sum("tee_swiotlb_used_max_bytes") },
      ],
    },
    { ...rates("guest", "Bounce buffers by device, bytes per second", "tee_swiotlb_bounced_bytes_total", "device", "bytes/s"), glance: true, axis: true },
    { about: "guest", title: "Failed bounce buffer allocations per second", unit: "1/s", metrics: ["tee_swiotlb_mapping_failures_total"], lines: [{ name: "the pool was full", expr: rate("tee_swiotlb_mapping_failures_total") }] },
    { ...rates("guest", "Exceptions of the guest per second, by reason", "tee_guest_exceptions_total", "reason"), glance: true, axis: true },
    rates("guest", "Calls to the hypervisor per second, by reason", "tee_guest_hypercalls_total", "reason"),
    { ...rates("guest", "Memory made private or shared, bytes per second", "tee_private_memory_converted_bytes_total", "direction", "bytes/s"), axis: true },
    times("guest", "Time to make memory private or shared", "tee_private_memory_conversion_duration_seconds"),
    {
      about: "guest",
      glance: true,
      axis: true,
      title: "Memory not yet accepted by the guest",
      unit: "bytes",
      metrics: ["tee_unaccepted_memory_bytes"],
      lines: [{ name: "unaccepted", expr: sum("tee_unaccepted_memory_bytes") }],
    },
    times("guest", "Time to accept memory", "tee_memory_acceptance_duration_seconds"),
    rates("guest", "Attestation evidence made, per second", "tee_attestations_total", "kind, call"),
    values("vm", "Virtual machines by protection", "tee_vms", "type"),
    { ...rates("vm", "Exits per second, by reason", "tee_vm_exits_total", "type, reason"), axis: true },
    rates("vm", "Exits per second, by virtual machine", "tee_vm_exits_total", "vm, type"),
    { ...times("vm", "Time outside the guest per exit", "tee_vm_exit_duration_seconds"), axis: true },
    rates("vm", "Exits to the virtual machine's process per second, by reason", "tee_vm_userspace_exits_total", "type, reason"),
    rates("vm", "Calls of TDX guests per second, by reason", "tee_vm_tdvmcalls_total", "reason"),
    rates("vm", "Calls of SEV guests per second, by reason", "tee_vm_vmgexits_total", "reason"),
    rates("vm", "Faults on the reverse map table per second", "tee_vm_rmp_faults_total", "outcome"),
    rates("vm", "Lookups of private memory per second", "tee_vm_private_memory_lookups_total", "vm, type"),
    { ...values("vm", "Private memory by virtual machine", "tee_vm_private_memory_size_bytes", "vm, type", "bytes"), axis: true },
    values("vm", "SEV address space ids", "tee_sev_asids", "kind, state"),
    values("vm", "TDX key ids", "tee_tdx_keys", "state"),
    against("vm", "Limited resources of control groups", "", "resource", "tee_misc_cgroup_current", "tee_misc_cgroup_capacity"),
    { ...values("nitro", "Nitro enclaves by state", "tee_nitro_enclaves", "state"), glance: true },
    values("nitro", "Memory by enclave", "tee_nitro_enclave_memory_bytes", "enclave", "bytes"),
    values("nitro", "CPUs in the enclaves' pool", "tee_nitro_pool_cpus", "state"),
    values("nitro", "Huge pages in the enclaves' pool", "tee_nitro_hugepages_bytes", "state", "bytes"),
    { ...values("gpu", "Confidential mode of each card", "tee_gpu_confidential_compute_mode", "gpu, mode"), glance: true },
    values("gpu", "Encrypted transfers of each card, bytes per second", "tee_gpu_bounce_bytes_per_second", "gpu, direction", "bytes/s"),
    against("gpu", "Protected memory of each card", "bytes", "gpu", "tee_gpu_protected_memory_used_bytes", "tee_gpu_protected_memory_size_bytes"),
    values("gpu", "Utilization of each card", "tee_gpu_utilization_ratio", "gpu, engine", "ratio"),
  ];
}

/** The effect on programs: the 99th percentile of request latency. */
export function latency(w: Window): { title: string; unit: Unit; metrics: string[]; lines: Line[] } {
  const of = (name: string, metric: string): Line => ({ name, expr: `histogram_quantile(0.99, sum by (le) (rate(${select(`${metric}_bucket`, own(w))}[${rateWindow(w)}])))` });
  return {
    title: "99th-percentile latency",
    unit: "seconds",
    metrics: ["tee_syscall_duration_seconds", "tee_runqueue_latency_seconds", "tee_block_io_latency_seconds"],
    lines: [of("system calls", "tee_syscall_duration_seconds"), of("waits for a CPU", "tee_runqueue_latency_seconds"), of("disk", "tee_block_io_latency_seconds")],
  };
}

/** The kinds of a detector that its charts are about. */
function aboutOf(t: TEE): About {
  if (t.kind === "sgx" || t.kind === "nitro") return t.kind;
  if (t.kind === "nvidia-cc") return "gpu";
  return t.facts?.role === "host" || t.kind.endsWith("-host") ? "vm" : "guest";
}

/** The charts whose source delivers data, and those of present or possible TEEs whose source could
 * deliver: they state why they are empty. */
export function teeCharts(tees: TEE[] | null, sources: Source[] | null, w: Window): TEEChart[] {
  const maybe = new Set((tees ?? []).filter((t) => t.state !== "not here" && t.facts?.active !== false).map(aboutOf));
  return allCharts(w).filter((c) => {
    const behind = sourcesOf(sources, c.metrics).filter((s) => s.state !== "not here");
    return behind.some((s) => s.series > 0) || (maybe.has(c.about) && behind.length > 0);
  });
}
