// Queries, built in one place. Names are those of the store: see docs/metrics.md.
import type { MetricCounted } from "../api/types";
import type { Window } from "../state/window";

/** A counter with a label to sum by, and the recorded rates that replace it on long windows: reading
 * a day of every call of every process is slow. */
export interface Counter {
  metric: string;
  recorded?: { name: string; labels: string[] };
}

export const counters = {
  syscalls: { metric: "tee_syscalls_total", recorded: { name: "process:tee_syscalls:rate1m", labels: ["process"] } },
  syscallsByCall: { metric: "tee_syscalls_total", recorded: { name: "syscall:tee_syscalls:rate1m", labels: ["syscall"] } },
  switches: { metric: "tee_context_switches_total", recorded: { name: "process:tee_context_switches:rate1m", labels: ["process"] } },
  faults: { metric: "tee_page_faults_total", recorded: { name: "process:tee_page_faults:rate1m", labels: ["process"] } },
  cpu: { metric: "tee_process_cpu_seconds_total", recorded: { name: "process:tee_process_cpu_seconds:rate1m", labels: ["process"] } },
  pageCache: { metric: "tee_page_cache_pages_total" },
} satisfies Record<string, Counter>;

/** Seconds between two points of a recorded series. */
const recordEvery = 30;
/** Windows longer than this read recorded series. */
const longest = 3600;

/** A label condition; op is one of PromQL's four. */
export interface Match {
  label: string;
  op: "=" | "!=" | "=~" | "!~";
  value: string;
}

/** A string as a PromQL literal. */
export function quote(s: string): string {
  return `"${s.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
}

/** A name as a regular expression (RE2) that matches it alone. */
export function literal(name: string): string {
  return name.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
}

/** The process filter: unanchored, while PromQL anchors. */
export function processFilter(re: string): Match[] {
  return re === "" ? [] : [{ label: "process", op: "=~", value: `.*(?:${re}).*` }];
}

/** The names of a list, or all except these. */
export function among(label: string, names: string[], op: "=~" | "!~"): Match {
  return { label, op, value: names.map(literal).join("|") };
}

/** A vector selector. */
export function select(metric: string, matches: Match[]): string {
  const inner = matches.map((m) => `${m.label}${m.op}${quote(m.value)}`).join(",");
  return inner === "" ? metric : `${metric}{${inner}}`;
}

/** Of a vector by device, the devices whose sum counts each byte once. */
export function counted(vector: string, by: MetricCounted, matches: Match[]): string {
  return `${vector} and on (job, instance, device) ${select(by, matches)} == 1`;
}

/** The series of the shown machine. */
export function own(w: Pick<Window, "job" | "instance">): Match[] {
  return [
    { label: "job", op: "=", value: w.job },
    { label: "instance", op: "=", value: w.instance },
  ];
}

/** The window of rate(): four steps, and at least four readings, so one lost sample leaves no gap. */
export function rateWindow(w: Window): string {
  return `${Math.ceil(Math.max(4 * w.step, 4 * w.interval, 20))}s`;
}

function isRecorded(c: Counter, by: string, matches: Match[], w: Window): boolean {
  return w.to - w.from > longest && c.recorded !== undefined && [by, ...matches.map((m) => m.label)].every((l) => c.recorded?.labels.includes(l));
}

/** Rate per second, summed by a label ("" for one sum), for a range query. */
export function rateBy(c: Counter, by: string, matches: Match[], w: Window): string {
  const sum = by === "" ? "sum" : `sum by (${by}) `;
  if (c.recorded && isRecorded(c, by || (c.recorded.labels[0] ?? ""), matches, w)) {
    return `${sum}(avg_over_time(${select(c.recorded.name, [...own(w), ...matches])}[${Math.max(w.step, 2 * recordEvery)}s]))`;
  }
  return `${sum}(rate(${select(c.metric, [...own(w), ...matches])}[${rateWindow(w)}]))`;
}

/** Events within the whole window by label, for an instant query at its end. */
export function increaseBy(c: Counter, by: string, matches: Match[], w: Window): string {
  const length = `${Math.round(w.to - w.from)}s`;
  if (c.recorded && isRecorded(c, by, matches, w)) {
    return `sum by (${by}) (sum_over_time(${select(c.recorded.name, [...own(w), ...matches])}[${length}])) * ${recordEvery}`;
  }
  return `sum by (${by}) (increase(${select(c.metric, [...own(w), ...matches])}[${length}]))`;
}

/** The label value of the rest in a top-k chart; no process can have it, since names have at most 15
 * bytes. */
export const others = "all the others together";
