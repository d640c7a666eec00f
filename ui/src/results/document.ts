// What the page reads from a result document. The server computes medians, sweeps and counters: see
// served.tsx.
import type { ResultComparison, ResultEnvironment, ResultExperiment, ResultMetricDesc, ResultRole, ResultRun, ResultSummary } from "../api/types";
import type { Filter, Span } from "../state/place";
import { labelOf, spaced } from "../format/measure";
import { headlineOf, kindOf, allKinds, type Kind } from "../words/benchmark";

type Doc = ResultExperiment;

/** The cases: the declared ones, and those that only runs name. */
export function caseIds(e: Doc): string[] {
  return [...new Set([...(e.cases ?? []).map((c) => c.case_id), ...(e.runs ?? []).map((r) => r.case)])];
}

export function descOf(e: Doc, metric: string): ResultMetricDesc {
  return e.workload.metrics?.find((m) => m.name === metric) ?? { name: metric, help: "", unit: "", better: "none" };
}

/** A metric's name without its unit, unless another metric would then have the same name. */
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

/** The comparison that represents a result in the list: the largest cost among those whose verdict
 * stands, stand-ins last, or else the first. */
export function tellingOf(comparisons: ResultComparison[]): ResultComparison | null {
  const all = comparisons.filter((c) => c.cost_ratio !== null && c.verdict !== "invalid");
  const real = all.filter((c) => !c.stand_in);
  const standing = real.length > 0 ? real : all;
  return standing.reduce<ResultComparison | null>((best, c) => (best && best.cost_ratio! >= c.cost_ratio! ? best : c), null) ?? comparisons[0] ?? null;
}

/** Refusals with the same reasons are grouped behind the first of them. */
export function collapsed(all: ResultComparison[]): ResultComparison[][] {
  const groups = new Map<string, ResultComparison[]>();
  all.forEach((c, i) => {
    const key = kindOf(c) === "invalid" ? JSON.stringify([c.treatment, c.baseline, c.reasons]) : String(i);
    groups.set(key, [...(groups.get(key) ?? []), c]);
  });
  return [...groups.values()];
}

/** The case of tellingOf, or the first: the same choice as in reports. */
export function tellingCase(e: Doc): string {
  const c = tellingOf(primaries(e));
  return (c?.cost_ratio != null && c.verdict !== "invalid" ? c.case : caseIds(e)[0]) ?? "";
}

export function inOrder(e: Doc): ResultRun[] {
  return (e.runs ?? []).toSorted((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
}

/** Whether the arms ran on the machine that a monitor watches, as far as known; a reason if it
 * cannot be the same. */
export function elsewhere(v: ResultEnvironment | undefined, here: { cpuModel: string; kernel: string } | null): string {
  if (!v || !here || v.hardware.cpu_model === "" || here.cpuModel === "" || v.hardware.cpu_model === here.cpuModel) return "";
  return `The runs were on ${v.hardware.cpu_model}, but this machine is ${here.cpuModel}: the charts show this machine, not the machine of the runs.`;
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

/** The window of the runs with space at both ends, in Unix seconds, since charts of the monitor need
 * a few readings; never in the future. */
export function windowOfRuns(e: Doc, now: number): { from: number; to: number } {
  const starts = (e.runs ?? []).map((r) => Date.parse(r.started_at) / 1000);
  const ends = (e.runs ?? []).map((r, i) => starts[i]! + r.duration_seconds);
  const from = Math.min(Date.parse(e.started_at) / 1000, ...starts);
  const to = Math.max(e.ended_at ? Date.parse(e.ended_at) / 1000 : from, ...ends);
  const room = Math.max((60 - (to - from)) / 2, (to - from) * 0.03, 5);
  return { from: Math.floor(from - room), to: Math.ceil(Math.min(to + room, Math.max(to, now))) };
}

/** The windows of the baseline's and the treatment's last run of one successful pair, to compare
 * them; null if there is no such pair. */
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
  return all.length === 0 ? ["none"] : allKinds().filter((k) => all.includes(k));
}

/** The results that pass a filter. Text is searched for in the whole list line, word by word. */
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

/** The choices of each filter: the values that occur in the results. */
export function choicesOf(results: ResultSummary[]): Omit<Record<keyof Filter, string[]>, "text"> {
  const all = (of: (s: ResultSummary) => string[]) => [...new Set(results.flatMap(of))].filter((v) => v !== "").toSorted();
  const kinds = new Set(results.flatMap(kindsOf));
  return {
    workload: all((s) => [s.workload]),
    environment: all((s) => s.environments ?? []),
    verdict: allKinds().filter((k) => kinds.has(k)),
    grade: all((s) => [s.grade]),
  };
}
