// The machine's own charts, by the metric names of node_exporter.
import type { Unit } from "../format/number";
import type { MetricCounted } from "../api/types";
import { counted, own, rateWindow, select, type Match } from "../query/promql";
import type { Window } from "../state/window";
import type { Line } from "./data";

export interface LinesSpec {
  title: string;
  unit: Unit;
  lines: Line[];
  metrics: string[];
}

function rate(metric: string, w: Window, matches: Match[] = []): string {
  return `sum(rate(${select(metric, [...own(w), ...matches])}[${rateWindow(w)}]))`;
}
function gauge(metric: string, w: Window, matches: Match[] = []): string {
  return `sum(${select(metric, [...own(w), ...matches])})`;
}

/** A share of time. Readings are not spaced exactly as their times say, so a rate can slightly
 * exceed 1. */
function share(expr: string): string {
  return `clamp_max(${expr}, 1)`;
}

function byDevice(metric: string, by: MetricCounted, w: Window): string {
  return counted(`rate(${select(metric, own(w))}[${rateWindow(w)}])`, by, own(w));
}
const disks = (metric: string, w: Window) => `sum(${byDevice(metric, "tee_disk_counted", w)})`;
const networks = (metric: string, w: Window) => `sum(${byDevice(metric, "tee_network_device_counted", w)})`;

export const node = {
  cpu: (w: Window): LinesSpec => ({
    title: "CPU by mode, percent of one core",
    unit: "ratio",
    metrics: ["node_cpu_seconds_total"],
    lines: ["user", "system", "iowait", "irq", "softirq", "steal", "nice"].map((mode) => ({ name: mode, expr: rate("node_cpu_seconds_total", w, [{ label: "mode", op: "=", value: mode }]) })),
  }),
  memory: (w: Window): LinesSpec => ({
    title: "Memory",
    unit: "bytes",
    metrics: ["node_memory_MemAvailable_bytes"],
    lines: [
      { name: "total", expr: gauge("node_memory_MemTotal_bytes", w) },
      { name: "in use", expr: `${gauge("node_memory_MemTotal_bytes", w)} - ${gauge("node_memory_MemAvailable_bytes", w)}` },
      { name: "page cache", expr: gauge("node_memory_Cached_bytes", w) },
      { name: "dirty", expr: gauge("node_memory_Dirty_bytes", w) },
    ],
  }),
  disk: (w: Window): LinesSpec => ({
    title: "Disk, bytes per second",
    unit: "bytes/s",
    metrics: ["node_disk_read_bytes_total"],
    lines: [
      { name: "read", expr: disks("node_disk_read_bytes_total", w) },
      { name: "written", expr: disks("node_disk_written_bytes_total", w) },
    ],
  }),
  network: (w: Window): LinesSpec => ({
    title: "Network, bytes per second",
    unit: "bytes/s",
    metrics: ["node_network_receive_bytes_total"],
    lines: [
      { name: "received", expr: networks("node_network_receive_bytes_total", w) },
      { name: "sent", expr: networks("node_network_transmit_bytes_total", w) },
      { name: "loopback", expr: rate("node_network_receive_bytes_total", w, [{ label: "device", op: "=", value: "lo" }]) },
    ],
  }),
  pressure: (w: Window): LinesSpec => ({
    title: "Pressure, share of time in which a task waited",
    unit: "ratio",
    metrics: ["node_pressure_cpu_waiting_seconds_total"],
    lines: [
      { name: "for a CPU", expr: share(rate("node_pressure_cpu_waiting_seconds_total", w)) },
      { name: "for input or output", expr: share(rate("node_pressure_io_waiting_seconds_total", w)) },
      { name: "for memory", expr: share(rate("node_pressure_memory_waiting_seconds_total", w)) },
    ],
  }),
  load: (w: Window): LinesSpec => ({
    title: "Runnable tasks, blocked tasks, and load",
    unit: "",
    metrics: ["node_load1", "node_procs_running"],
    lines: [
      { name: "runnable", expr: gauge("node_procs_running", w) },
      { name: "blocked", expr: gauge("node_procs_blocked", w) },
      { name: "load, 1 min", expr: gauge("node_load1", w) },
    ],
  }),
  kernel: (w: Window): LinesSpec => ({
    title: "Kernel events per second",
    unit: "1/s",
    metrics: ["node_context_switches_total", "node_intr_total"],
    lines: [
      { name: "context switches", expr: rate("node_context_switches_total", w) },
      { name: "interrupts", expr: rate("node_intr_total", w) },
      { name: "forks", expr: rate("node_forks_total", w) },
    ],
  }),
  paging: (w: Window): LinesSpec => ({
    title: "Paging per second",
    unit: "1/s",
    metrics: ["node_vmstat_pgfault"],
    lines: [
      { name: "faults", expr: rate("node_vmstat_pgfault", w) },
      { name: "faults that read from disk", expr: rate("node_vmstat_pgmajfault", w) },
      { name: "pages swapped in", expr: rate("node_vmstat_pswpin", w) },
      { name: "pages swapped out", expr: rate("node_vmstat_pswpout", w) },
    ],
  }),
};

/** Time of disks in which requests were under way, by device. */
export function diskBusy(w: Window): string {
  return share(`sum by (device) (${byDevice("node_disk_io_time_seconds_total", "tee_disk_counted", w)})`);
}

/** Share of each file system in use, by mount point. */
export function fileSystems(w: Window): string {
  const real: Match = { label: "fstype", op: "!~", value: "tmpfs|devtmpfs|ramfs|overlay|squashfs|proc|sysfs|cgroup.*|autofs|nsfs|tracefs|debugfs|securityfs|bpf" };
  const avail = select("node_filesystem_avail_bytes", [...own(w), real]);
  const size = select("node_filesystem_size_bytes", [...own(w), real]);
  return `max by (mountpoint) (1 - ${avail} / (${size} > 0))`;
}
