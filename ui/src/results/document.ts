// What the page reads out of a result document. Nothing is computed here that a
// report would not compute: medians of runs, places of a sweep, steps of a ladder.
import type { ResultComparison, ResultCounter, ResultEnvironment, ResultExperiment, ResultMetricDesc, ResultRole, ResultRun, ResultSummary, ResultTrust } from "../api/types";
import type { Filter, Span } from "../state/place";
import { labelOf, spaced } from "../format/measure";
import { headlineOf, kindOf, looks, type Kind } from "../words/benchmark";

type Doc = ResultExperiment;

/** The cases: the declared ones, and those that only runs name. */
export function caseIds(e: Doc): string[] {
  return [...new Set([...(e.cases ?? []).map((c) => c.case_id), ...(e.runs ?? []).map((r) => r.case)])];
}

export function descOf(e: Doc, metric: string): ResultMetricDesc {
  return e.workload.metrics?.find((m) => m.name === metric) ?? { name: metric, help: "", unit: "", better: "none" };
}

/** A metric's name without its unit, unless another metric then has the same. */
export function metricLabel(e: Doc, metric: string): string {
  const short = (m: string) => labelOf(m, descOf(e, m).unit);
  const same = (e.workload.metrics ?? []).filter((m) => short(m.name) === short(metric));
  return same.length > 1 ? spaced(metric) : short(metric);
}

/** The metric that the experiment is about. */
export function primaryOf(e: Doc): string {
  return e.design.primary_metric || e.comparisons?.find((c) => c.primary)?.metric || e.workload.metrics?.[0]?.name || "";
}

/** The comparisons that carry a verdict. */
export function primaries(e: Doc): ResultComparison[] {
  return (e.comparisons ?? []).filter((c) => c.primary);
}

/** The comparison that a line about a result speaks of: the largest cost of those
 * with a verdict that stands, else the first. */
export function tellingOf(comparisons: ResultComparison[]): ResultComparison | null {
  const standing = comparisons.filter((c) => c.cost_ratio !== null && c.verdict !== "invalid");
  return standing.reduce<ResultComparison | null>((best, c) => (best && best.cost_ratio! >= c.cost_ratio! ? best : c), null) ?? comparisons[0] ?? null;
}

/** The case whose primary cost is the largest, or the first. */
export function tellingCase(e: Doc): string {
  return tellingOf(primaries(e).filter((c) => c.cost_ratio !== null))?.case ?? caseIds(e)[0] ?? "";
}

export function inOrder(e: Doc): ResultRun[] {
  return (e.runs ?? []).toSorted((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
}

export interface Reading {
  run: ResultRun;
  value: number;
}

/** Values of a metric in one arm and case. Runs that failed or were excluded
 * come apart: they are shown and not counted. */
export function readings(e: Doc, env: string, kase: string, metric: string): { good: Reading[]; out: Reading[] } {
  const good: Reading[] = [];
  const out: Reading[] = [];
  for (const run of inOrder(e)) {
    const value = run.metrics?.find((m) => m.name === metric)?.value;
    if (run.env_id !== env || run.case !== kase || value === null || value === undefined) continue;
    (run.status === "ok" ? good : out).push({ run, value });
  }
  return { good, out };
}

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const v = values.toSorted((a, b) => a - b);
  const i = (v.length - 1) / 2;
  return (v[Math.floor(i)]! + v[Math.ceil(i)]!) / 2;
}

/** The reason that the runs themselves give. */
export function whyMissing(e: Doc, env: string, kase: string, metric: string): string {
  const runs = (e.runs ?? []).filter((r) => r.env_id === env && r.case === kase);
  if (runs.length === 0) return `nothing ran in ${env}`;
  for (const r of runs) {
    const why = r.metrics?.find((m) => m.name === metric)?.missing_reason || r.missing?.[metric] || (r.status === "ok" ? "" : `the run ${r.status}: ${r.reason ?? "no reason given"}`);
    if (why) return why;
  }
  return "no run reports it or says why";
}

/** A parameter with numeric values that changes from case to case while all
 * others stay. */
export interface Sweep {
  param: string;
  /** What the other swept parameters are, "" when there are none. */
  other: string;
  points: { at: number; written: string; case: string }[];
}

/** The sweeps of an experiment: one for each combination of the other
 * parameters. Of several numeric ones, that with the most values is the axis. */
export function sweepsOf(e: Doc): Sweep[] {
  const cases = e.cases ?? [];
  const seen = new Map<string, Set<string>>();
  for (const c of cases) for (const [k, v] of Object.entries(c.params ?? {})) seen.set(k, (seen.get(k) ?? new Set()).add(v));
  const varying = [...seen].filter(([, values]) => values.size > 1).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const numeric = varying.filter(([, values]) => [...values].every((v) => quantity(v) !== null));
  const axis = numeric.toSorted(([, a], [, b]) => b.size - a.size)[0]?.[0];
  if (axis === undefined) return [];
  const sweeps = new Map<string, Sweep>();
  for (const c of cases) {
    const written = c.params?.[axis] ?? "";
    const at = quantity(written);
    if (at === null) continue;
    const other = varying.filter(([k]) => k !== axis).map(([k]) => `${k}=${c.params?.[k] ?? ""}`).join(", ");
    const s = sweeps.get(other) ?? { param: axis, other, points: [] };
    s.points.push({ at, written, case: c.case_id });
    sweeps.set(other, s);
  }
  for (const s of sweeps.values()) s.points.sort((a, b) => a.at - b.at);
  return [...sweeps.values()].filter((s) => s.points.length > 1);
}

/** "8", "0.5", "4k" and "16MiB" as a number, others as null. */
export function quantity(s: string): number | null {
  const m = /^(-?[\d.]+)([kmgt]?)(i?b)?$/.exec(s.trim().toLowerCase());
  const v = Number(m?.[1]);
  return m && Number.isFinite(v) ? v * 1024 ** " kmgt".indexOf(m[2] || " ") : null;
}

/** Parameters for which an efficiency has a meaning. */
export function isParallel(param: string): boolean {
  return ["threads", "workers", "processes", "cpus", "cores", "jobs", "numjobs"].includes(param);
}

export interface Curve {
  env: string;
  points: { at: number; value: number }[];
}

/** Medians of each arm over a sweep; points that are missing are left out. */
export function curvesOf(e: Doc, s: Sweep, metric: string): Curve[] {
  return (e.environments ?? []).map((v) => ({
    env: v.env_id,
    points: s.points.flatMap((p) => {
      const value = median(readings(e, v.env_id, p.case, metric).good.map((r) => r.value));
      return value === null ? [] : [{ at: p.at, value }];
    }),
  }));
}

/** Efficiency of an arm against its own first point: the speed-up over it, for
 * each multiple of the workers. A slow first point makes a good efficiency. */
export function efficiencyOf(c: Curve, better: string): Curve {
  const first = c.points[0];
  if (!first) return { env: c.env, points: [] };
  const speedup = (v: number) => (better === "higher" ? v / first.value : first.value / v);
  return { env: c.env, points: c.points.map((p) => ({ at: p.at, value: speedup(p.value) / (p.at / first.at) })).filter((p) => Number.isFinite(p.value)) };
}

/** A counter in all arms: medians of its runs, each the sum over processes, per
 * operation where the operations are known. */
export interface Counted {
  name: string;
  metric: string;
  /** Which part of the metric's total it is, "" for the total. */
  kind: string;
  scope: string;
  /** What it is divided by. */
  per: "run" | "operation" | "100 requests";
  arms: { value: number | null; trust: ResultTrust | ""; reason: string }[];
}

/** Counters of a case: those of the workload's processes before those that hold
 * others too, and those first that differ most between the first arm and the rest. */
export function countersOf(e: Doc, kase: string): Counted[] {
  const rows = tabulate(e, kase, (r) => r.counters ?? []);
  const moves = new Map(rows.map((r) => [r, moved(r)]));
  return rows.sort((a, b) => Number(a.scope === "machine") - Number(b.scope === "machine") || moves.get(b)! - moves.get(a)!);
}

/** A row of the host-wide table: of whom it counts, and in which unit. */
export type HostCounted = Counted & { of: string; unit: string };

/** Better names of some counters than counterName makes. */
const hostNames: { [metric: string]: string } = { tee_process_cpu_seconds_total: "CPU time", tee_llc_misses_total: "last-level cache misses", tee_sgx_epc_pages_evicted_total: "EPC pages evicted" };

/** Events of the whole machine and of its helpers beside those of the workload, as in
 * figure 11 of the TEEMon paper. */
export function hostWideOf(e: Doc, kase: string): HostCounted[] {
  const host = tabulate(e, kase, (r) => r.host_counters ?? [], true);
  const own = tabulate(e, kase, ofWorkload, true);
  const row = (c: Counted, of: string): HostCounted => ({
    ...c,
    of,
    name: (hostNames[c.metric] ?? counterName(c.metric, {})) + (c.kind === userSpace ? `, ${userSpace}` : ""),
    unit: c.metric.endsWith("_seconds_total") ? "seconds" : "",
  });
  return host
    .filter((c) => c.kind === "")
    .flatMap((total) => [
      ...own.filter((c) => c.metric === total.metric).map((c) => row(c, c.scope === "machine" ? "processes with names of the workload's" : "the workload")),
      row({ ...total, scope: "host" }, "the whole machine"),
      ...host.filter((c) => c.metric === total.metric && c.kind !== "" && c.arms.some((a) => a.value)).map((c) => row({ ...c, scope: "host" }, c.kind)),
    ]);
}

/** Names the page faults that the workload's own code caused. */
const userSpace = "in user space";

/** The workload's totals of what is counted host-wide, and its page faults in user space. */
function ofWorkload(r: ResultRun): ResultCounter[] {
  const all = r.counters ?? [];
  const wanted = new Set((r.host_counters ?? []).map((c) => c.name));
  const byProcess = new Set(all.filter((c) => c.scope === "process" || c.labels?.process).map((c) => c.name));
  const counted = all.filter((c) => wanted.has(c.name) && byProcess.has(c.name));
  const faults = counted.filter((c) => c.labels?.space === "user").map((c) => ({ ...c, labels: { space: userSpace } }));
  // A run names no faults where there were none.
  const none = counted.filter((c) => c.name === "tee_page_faults_total" && isTotal(c) && c.value !== null).map((c) => ({ ...c, labels: { space: userSpace }, value: 0, per_operation: c.per_operation === null ? null : 0 }));
  return [...none, ...faults, ...counted.filter(isTotal)];
}

/** The medians of a list of counters of a case's runs. A part of a total that an arm never
 * names is 0 where none says so, else unknown. */
function tabulate(e: Doc, kase: string, list: (r: ResultRun) => ResultCounter[], none = false): Counted[] {
  const envs = (e.environments ?? []).map((v) => v.env_id);
  const runs = (e.runs ?? []).filter((r) => r.case === kase && r.status === "ok" && envs.includes(r.env_id));
  const found = new Map<string, { name: string; kind: string; scope: string; metric: string; cells: Map<string, ResultCounter[]>[] }>();
  for (const r of runs) {
    for (const c of list(r)) {
      const name = counterName(c.name, c.labels ?? {});
      const key = `${name} ${c.scope}`;
      const row = found.get(key) ?? { name, kind: kindsOfCounter(c.labels ?? {}).join(", "), scope: c.scope, metric: c.name, cells: envs.map(() => new Map()) };
      const cell = row.cells[envs.indexOf(r.env_id)]!;
      cell.set(r.run_id, [...(cell.get(r.run_id) ?? []), c]);
      found.set(key, row);
    }
  }
  const totals = new Set(runs.flatMap((r) => list(r).filter((c) => isTotal(c) && c.value !== null).map((c) => `${r.run_id} ${c.name}`)));
  return [...found.values()].map(({ name, kind, scope, metric, cells }): Counted => {
    const perOperation = cells.some((cell) => [...cell.values()].some((cs) => cs.some((c) => c.per_operation !== null)));
    // A source names only what there was: beside a total, what is not named did not
    // happen in that run. An arm that never named it stays empty.
    const silent = (cell: (typeof cells)[number], env: string) => runs.filter((r) => r.env_id === env && !cell.has(r.run_id) && totals.has(`${r.run_id} ${metric}`)).length;
    const per = perOperation ? portion(e) : "run";
    return { name, kind, metric, scope, per, arms: cells.map((cell, i) => armOf([...cell.values()], per, silent(cell, envs[i]!), none)) };
  });
}

/** What counters are shown for: an operation, or a hundred of the requests of a
 * server, of which one makes few faults and switches. */
function portion(e: Doc): "operation" | "100 requests" {
  const operations = (e.workload.metrics ?? []).find((m) => m.name === e.workload.operations_metric);
  return operations?.unit === "requests" ? "100 requests" : "operation";
}

/** Without labels a counter is the sum of all series of its metric. */
function isTotal(c: ResultCounter): boolean {
  return Object.keys(c.labels ?? {}).length === 0;
}

function armOf(runs: ResultCounter[][], per: Counted["per"], silent: number, none: boolean): Counted["arms"][number] {
  const ranks: ResultTrust[] = ["none", "partial", "full"];
  const all = runs.flat();
  const trust = ranks.find((t) => all.some((c) => c.trust === t)) ?? "";
  const note = all.find((c) => c.note)?.note;
  if (trust === "none") return { value: null, trust, reason: note ?? "the counter cannot see into this environment" };
  const times = per === "100 requests" ? 100 : 1;
  const sums = runs.flatMap((series) => {
    const total = series.filter(isTotal);
    const values = (total.length > 0 ? total : series).map((c) => (per === "run" ? c.value : c.per_operation)).filter((v) => v !== null);
    return values.length === 0 ? [] : [times * values.reduce((a, b) => a + b, 0)];
  });
  const value = sums.length === 0 && !(none && silent > 0) ? null : median([...sums, ...Array<number>(silent).fill(0)]);
  return { value, trust, reason: value === null ? (note ?? "not counted in this arm") : (note ?? "") };
}

/** By which factor, up or down, a counter differs most from the first arm; −1
 * where that cannot be said. */
function moved(c: Counted): number {
  const base = c.arms[0]?.value ?? null;
  if (base === null) return -1;
  const factors = c.arms.slice(1).flatMap(({ value: v }) => (v === null ? [] : [base > 0 && v > 0 ? Math.max(v / base, base / v) : v === base ? 1 : Number.MAX_VALUE]));
  return Math.max(-1, ...factors);
}

/** "syscalls, read" for tee_syscalls_total{syscall="read"}. */
export function counterName(name: string, labels: { [key: string]: string }): string {
  return [spaced(name.replace(/^tee_/, "").replace(/_total$/, "")), ...kindsOfCounter(labels)].join(", ");
}

/** The values of a counter's labels but whose it is. */
function kindsOfCounter(labels: { [key: string]: string }): string[] {
  const kept = Object.entries(labels).filter(([k, v]) => k !== "process" && v !== "").toSorted(([a], [b]) => (a < b ? -1 : 1));
  return kept.map(([, v]) => v);
}

/** Whether the arms stood on the machine that a monitor watches, as far as can
 * be told; a reason when it cannot be the same. */
export function elsewhere(v: ResultEnvironment | undefined, here: { cpuModel: string; kernel: string } | null): string {
  if (!v || !here || v.hardware.cpu_model === "" || here.cpuModel === "" || v.hardware.cpu_model === here.cpuModel) return "";
  return `The runs were on ${v.hardware.cpu_model}, but this machine is ${here.cpuModel}: the charts do not show the machine of the runs.`;
}

/** What is unavailable, with its reason; runs are counted. */
export function missingOf(e: Doc): { what: string; where: string; why: string }[] {
  const out = (e.environments ?? []).flatMap((v) => Object.entries(v.missing ?? {}).map(([what, why]) => ({ what, where: v.env_id, why, runs: 0 })));
  const rows = new Map<string, (typeof out)[number]>();
  for (const r of e.runs ?? []) {
    const note = (what: string, why: string | undefined) => {
      const key = `${what}\n${r.env_id}\n${why}`;
      const row = rows.get(key) ?? { what, where: r.env_id, why: why || "no reason was recorded", runs: 0 };
      row.runs++;
      rows.set(key, row);
    };
    for (const m of r.metrics ?? []) if (m.value === null) note(m.name, m.missing_reason || r.missing?.[m.name]);
    for (const from of [r.missing, r.interference.missing]) for (const [k, why] of Object.entries(from ?? {})) if (!r.metrics?.some((m) => m.name === k && m.value === null)) note(k, why);
  }
  return [...out, ...rows.values()].map(({ what, where, why, runs }) => ({ what, why, where: runs === 0 ? where : `${where}, ${runs} ${runs === 1 ? "run" : "runs"}` }));
}

/** The window of the runs with room at both ends, in Unix seconds, since charts of
 * the monitor need a few readings; but none in the future. */
export function windowOfRuns(e: Doc, now: number): { from: number; to: number } {
  const starts = (e.runs ?? []).map((r) => Date.parse(r.started_at) / 1000);
  const ends = (e.runs ?? []).map((r, i) => starts[i]! + r.duration_seconds);
  const from = Math.min(Date.parse(e.started_at) / 1000, ...starts);
  const to = Math.max(e.ended_at ? Date.parse(e.ended_at) / 1000 : from, ...ends);
  const room = Math.max((60 - (to - from)) / 2, (to - from) * 0.03, 5);
  return { from: Math.floor(from - room), to: Math.ceil(Math.min(to + room, Math.max(to, now))) };
}

/** The windows of the baseline's and the treatment's last run of one pair that went
 * well, for a look at both beside each other; null where there is no such pair. */
export function armsOf(e: Doc): { before: Span; fixed: Span } | null {
  const role = (r: ResultRole) => (e.environments ?? []).find((v) => v.role === r)?.env_id;
  const [base, treat] = [role("baseline"), role("treatment")];
  const good = (e.runs ?? []).filter((r) => r.status === "ok").sort((a, b) => b.pair - a.pair);
  for (const t of good.filter((r) => r.env_id === treat)) {
    const b = good.find((r) => r.env_id === base && r.pair === t.pair && r.case === t.case);
    if (b) return { before: spanOfRun(b), fixed: spanOfRun(t) };
  }
  return null;
}

function spanOfRun(r: ResultRun): Span {
  const from = Date.parse(r.started_at) / 1000;
  return { from, to: from + r.duration_seconds };
}

/** The kinds of verdict of a result, each once. */
export function kindsOf(s: Pick<ResultSummary, "comparisons">): Kind[] {
  const all = (s.comparisons ?? []).map(kindOf);
  return all.length === 0 ? ["none"] : (Object.keys(looks) as Kind[]).filter((k) => all.includes(k));
}

/** The results that a filter lets through. Text is looked for in everything that
 * a line of the list says, each word by itself. */
export function narrow(results: ResultSummary[], f: Filter): ResultSummary[] {
  const words = f.text.toLowerCase().split(/\s+/).filter(Boolean);
  return results.filter((s) => {
    const comparisons = s.comparisons ?? [];
    const text = [s.name, s.workload, s.id, s.commit ?? "", ...(s.environments ?? []), ...(s.cases ?? []), ...comparisons.map((c) => headlineOf(c))].join("\n").toLowerCase();
    return (
      words.every((w) => text.includes(w)) &&
      (f.workload === "" || s.workload === f.workload) &&
      (f.environment === "" || (s.environments ?? []).includes(f.environment)) &&
      (f.verdict === "" || kindsOf(s).some((k) => k === f.verdict)) &&
      (f.grade === "" || s.grade === f.grade)
    );
  });
}

/** What each filter can be set to: what the results have. */
export function choicesOf(results: ResultSummary[]): Omit<Record<keyof Filter, string[]>, "text"> {
  const all = (of: (s: ResultSummary) => string[]) => [...new Set(results.flatMap(of))].filter((v) => v !== "").toSorted();
  const kinds = new Set(results.flatMap(kindsOf));
  return {
    workload: all((s) => [s.workload]),
    environment: all((s) => s.environments ?? []),
    verdict: Object.keys(looks).filter((k) => kinds.has(k as Kind)),
    grade: all((s) => [s.grade]),
  };
}
