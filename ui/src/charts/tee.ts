// The charts of what trusted execution environments show to the outside.
import type { Source, TEE } from "../api/types";
import { own, rateWindow, select } from "../query/promql";
import { sourcesOf } from "../state/sources";
import type { Window } from "../state/window";
import type { LinesSpec } from "./node";

function perSecond(metric: string, w: Window): string {
  return `sum(rate(${select(metric, own(w))}[${rateWindow(w)}]))`;
}
function sum(metric: string, w: Window): string {
  return `sum(${select(metric, own(w))})`;
}

const enclaveCharts = (w: Window): LinesSpec[] => [
  {
    title: "EPC: protected memory of SGX",
    unit: "bytes",
    metrics: ["tee_sgx_epc_bytes", "tee_sgx_epc_free_bytes"],
    lines: [
      { name: "size", expr: sum("tee_sgx_epc_bytes", w) },
      { name: "free", expr: sum("tee_sgx_epc_free_bytes", w) },
      { name: "paging starts below", expr: sum("tee_sgx_epc_low_watermark_bytes", w) },
    ],
  },
  {
    title: "EPC paging, pages per second",
    unit: "1/s",
    metrics: ["tee_sgx_epc_pages_evicted_total", "tee_sgx_epc_pages_loaded_back_total"],
    lines: ["evicted", "loaded_back", "reclaimed", "added"].map((op) => ({ name: op.replace("_", " "), expr: perSecond(`tee_sgx_epc_pages_${op}_total`, w) })),
  },
  {
    title: "Enclaves",
    unit: "",
    metrics: ["tee_sgx_enclaves"],
    lines: [{ name: "running", expr: sum("tee_sgx_enclaves", w) }],
  },
  {
    title: "CPU of the EPC reclaimer, percent of one core",
    unit: "ratio",
    metrics: ["tee_sgx_reclaimer_cpu_seconds_total"],
    lines: [{ name: "reclaimer", expr: perSecond("tee_sgx_reclaimer_cpu_seconds_total", w) }],
  },
];

const guestCharts = (w: Window): LinesSpec[] => [
  {
    title: "SWIOTLB: bounce buffer in use",
    unit: "bytes",
    metrics: ["tee_swiotlb_used_bytes"],
    lines: [
      { name: "size", expr: sum("tee_swiotlb_size_bytes", w) },
      { name: "used", expr: sum("tee_swiotlb_used_bytes", w) },
      { name: "most ever used", expr: sum("tee_swiotlb_used_max_bytes", w) },
    ],
  },
  {
    title: "Memory that the guest has not accepted yet",
    unit: "bytes",
    metrics: ["tee_unaccepted_memory_bytes"],
    lines: [{ name: "unaccepted", expr: sum("tee_unaccepted_memory_bytes", w) }],
  },
];

/** The charts for what is here, or may be: enclaves on a host with SGX, memory
 * and input/output of a confidential guest. What this machine's driver or
 * kernel does not have is left out. */
export function teeCharts(tees: TEE[] | null, sources: Source[] | null, w: Window): LinesSpec[] {
  const maybe = (tees ?? []).filter((t) => t.state !== "not here" && t.facts?.active !== false);
  const sgx = maybe.some((t) => t.kind === "sgx");
  const guest = maybe.some((t) => t.kind !== "sgx" && t.kind !== "nvidia-cc" && t.facts?.role !== "host");
  const charts = [...(sgx ? enclaveCharts(w) : []), ...(guest ? guestCharts(w) : [])];
  return charts.filter((c) => sourcesOf(sources, c.metrics).some((s) => s.state !== "not here"));
}
