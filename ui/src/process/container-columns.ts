// The columns of the table of containers, and their queries.
import type { Unit } from "../format/number";
import { counted, own, select, type Match } from "../query/promql";
import type { Window } from "../state/window";

export type Key = "cpu" | "memory" | "limit" | "throttled" | "disk" | "network";

interface Asked {
  key: Key;
  title: string;
  unit: Unit;
  query: (w: Window, m: Match[], length: string) => string;
  counted: boolean;
  /** Why a group has no value here. */
  why: string;
}

export const asked: Asked[] = [
  { key: "cpu", title: "CPU, of one core", unit: "ratio", counted: true, why: "no cgroup controller counts its CPU time", query: (w, m, l) => `sum by (LABELS) (increase(${select("container_cpu_usage_seconds_total", [...own(w), ...m])}[${l}]))` },
  { key: "memory", title: "Working set", unit: "bytes", counted: false, why: "no cgroup controller counts its memory", query: (w, m) => `sum by (LABELS) (${select("container_memory_working_set_bytes", [...own(w), ...m])})` },
  { key: "limit", title: "Memory limit", unit: "bytes", counted: false, why: "no limit is set", query: (w, m) => `sum by (LABELS) (${select("container_spec_memory_limit_bytes", [...own(w), ...m])})` },
  {
    key: "throttled",
    title: "Throttled",
    unit: "ratio",
    counted: false,
    why: "no CPU quota is set, or the group had nothing to run",
    query: (w, m, l) =>
      `sum by (LABELS) (increase(${select("container_cpu_cfs_throttled_periods_total", [...own(w), ...m])}[${l}])) / (sum by (LABELS) (increase(${select("container_cpu_cfs_periods_total", [...own(w), ...m])}[${l}])) > 0)`,
  },
  {
    key: "disk",
    title: "Disk per second",
    unit: "bytes/s",
    counted: true,
    why: "no cgroup controller counts its disk I/O, or it never used a disk",
    query: (w, m, l) => both(["container_fs_reads_bytes_total", "container_fs_writes_bytes_total"], (c) => counted(increase(c, w, m, l), "tee_container_disk_counted", own(w))),
  },
  {
    key: "network",
    title: "Network per second",
    unit: "bytes/s",
    counted: true,
    why: "it shares the network of its pod or machine, so it has no counters of its own",
    query: (w, m, l) => both(["container_network_receive_bytes_total", "container_network_transmit_bytes_total"], (c) => increase(c, w, m, l)),
  },
];

function increase(metric: string, w: Window, m: Match[], length: string): string {
  return `increase(${select(metric, [...own(w), ...m])}[${length}])`;
}

/** The sum of two counters, or the one that there is. increase() drops the names, so each gets a label that tells them apart. */
function both(metrics: [string, string], vector: (metric: string) => string): string {
  return `sum by (LABELS) (${metrics.map((c) => `label_replace(${vector(c)}, "of", "${c}", "", "")`).join(" or ")})`;
}

const labels = "id, name, namespace, pod, container";

/** The queries of the table's columns, of all groups but the root. */
export function tableQueries(w: Window): string[] {
  const length = `${Math.round(w.to - w.from)}s`;
  return asked.map((c) => c.query(w, [{ label: "id", op: "!=", value: "/" }], length).replaceAll("LABELS", labels));
}
