// What a chart is made of, and the hooks that fetch it.
import { queryAt, queryRange } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import { increaseBy, others, own, select, topAndOthers, type Counter, type Match } from "../query/promql";
import { align, fold, mean, observed, rank, type Series } from "../query/series";
import { gridOf, type Window } from "../state/window";

export interface ChartData {
  grid: number[];
  series: Series[];
  /** Average over the window by series name. */
  means: Map<string, number | null>;
  /** The names are always the same ones: colours go by position. */
  fixed: boolean;
  /** How many names the series of the others stands for. */
  folded: number;
  /** The range query, for the menu. */
  expr: string;
  /** What the monitor says of the sources behind these values. */
  warnings: string[];
}

/** A window as a cache key. */
export function keyOf(w: Window): string {
  return `${w.from} ${w.to} ${w.step}`;
}

/** One request serves all charts of a window. */
export function perWindow<T>(load: (w: Window) => Promise<T>): (w: Window) => Promise<T> {
  const known = new Map<string, Promise<T>>();
  return (w) => {
    const key = `${w.instance} ${keyOf(w)}`;
    const there = known.get(key);
    if (there) return there;
    const asked = load(w);
    asked.catch(() => known.delete(key));
    known.set(key, asked);
    // A page looks at one or two windows at a time; those of the past are gone.
    for (const old of known.keys()) if (known.size > 4) known.delete(old);
    return asked;
  };
}

/** For how many seconds of the window the monitor was reading: averages are over these. */
export const watched = perWindow(async (w) => {
  const grid = gridOf(w);
  const { rows } = await queryRange(`max(max_over_time(${select("teescope_source_up", own(w))}[${Math.ceil(Math.max(60, w.step, 4 * w.interval))}s]))`, w);
  return observed(grid, rows.map((r) => align(grid, r)), w);
});

/** The k names with the most events in the window and the rest as one series.
 * The averages come from the counters' increase over the window, not from the
 * points of the chart, which are smoothed. */
export function useTop(counter: Counter, by: string, matches: Match[], k: number, w: Window, wanted: boolean): Resource<ChartData> {
  const totalsExpr = increaseBy(counter, by, matches, w);
  return useResource(wanted ? `${totalsExpr} ${keyOf(w)}` : null, async (signal) => {
    const totals = await queryAt(totalsExpr, w.to, signal);
    const ranking = rank(totals.rows, by);
    const grid = gridOf(w);
    if (ranking.length === 0) return { grid, series: [], means: new Map(), fixed: false, folded: 0, expr: totalsExpr, warnings: totals.warnings };
    const { top, rest, restCount } = fold(ranking, k);
    const expr = topAndOthers(counter, by, top, matches, w);
    const { rows, warnings } = await queryRange(expr, w, signal);
    const series: Series[] = [];
    for (const name of [...top, others]) {
      const row = rows.find((r) => r.metric[by] === name);
      if (row && (name !== others || restCount > 0)) series.push({ name, values: align(grid, row) });
    }
    const seconds = await watched(w);
    const totalOf = new Map(ranking.map((r) => [r.name, r.total]));
    const means = new Map<string, number | null>(series.map((s) => [s.name, (s.name === others ? rest : (totalOf.get(s.name) ?? 0)) / seconds]));
    return { grid, series, means, fixed: false, folded: restCount, expr, warnings };
  });
}

/** One line of a chart with fixed lines. */
export interface Line {
  name: string;
  expr: string;
}

/** Named queries as one chart; a line whose metric does not exist is left out. */
export function useLines(lines: Line[], w: Window, wanted: boolean): Resource<ChartData> {
  // One request for all lines: each result is told apart by a label of its own.
  const expr = lines.map((l) => `label_replace(${l.expr}, "line", ${JSON.stringify(l.name)}, "", "")`).join(" or ");
  return useResource(wanted ? `${expr} ${keyOf(w)}` : null, async (signal) => {
    const grid = gridOf(w);
    const { rows, warnings } = await queryRange(expr, w, signal);
    const series = lines.flatMap((l) => {
      const row = rows.find((r) => r.metric["line"] === l.name);
      return row ? [{ name: l.name, values: align(grid, row) }] : [];
    });
    return { grid, series, means: new Map(series.map((s) => [s.name, mean(s)])), fixed: true, folded: 0, expr, warnings };
  });
}

type Labels = { [label: string]: string };

/** How to name a series: by all its labels, by one of them, by several, by a
 * function, or by the labels in which the series of the answer differ; no label
 * has a space in its name. */
export type Naming = string | readonly string[] | null | "what differs" | ((metric: Labels) => string);

function nameBy(by: Exclude<Naming, null>, metric: Labels): string {
  if (typeof by === "function") return by(metric);
  const labels = typeof by === "string" ? [by] : by;
  return labels.map((l) => metric[l] || "(no name)").join(", ");
}

/** Any query, one line per series. */
export function useQuery(expr: string, by: Naming, most: number, w: Window, wanted: boolean): Resource<ChartData> {
  return useResource(wanted && expr !== "" ? `${expr} ${keyOf(w)}` : null, async (signal) => {
    const grid = gridOf(w);
    const { rows, warnings } = await queryRange(expr, w, signal);
    const metrics = rows.map((r) => r.metric);
    const naming = by === "what differs" ? namesOf(metrics) : (by ?? labelTexts(metrics));
    const all = rows.map((r) => ({ name: nameBy(naming, r.metric), values: align(grid, r) }));
    const ranked = all.map((s) => ({ s, m: mean(s) ?? 0 })).sort((a, b) => b.m - a.m || (a.s.name < b.s.name ? -1 : 1));
    const series = ranked.slice(0, most).map((x) => x.s);
    return { grid, series, means: new Map(series.map((s) => [s.name, mean(s)])), fixed: false, folded: Math.max(0, all.length - most), expr, warnings };
  });
}

/** Names series by the values in which they differ; one that stands alone, and
 * some of which a label is missing, by all they have. */
export function namesOf(metrics: Labels[]): (metric: Labels) => string {
  const [first] = metrics;
  const labels = [...new Set(metrics.flatMap((m) => Object.keys(m)))];
  const differing = labels.filter((l) => metrics.some((m) => m[l] !== first?.[l])).sort();
  if (metrics.length < 2 || differing.length === 0 || !metrics.every((m) => differing.every((l) => m[l]))) return labelTexts(metrics);
  return (m) => differing.map((l) => m[l]).join(", ");
}

/** Names series by all their labels, but for the job and the instance where all have
 * the same, as on one machine. */
export function labelTexts(metrics: Labels[]): (metric: Labels) => string {
  const common = ["job", "instance"].filter((l) => metrics.every((m) => m[l] === metrics[0]?.[l]));
  return (m) => labelText(m, common);
}

/** A series' name and labels as PromQL writes them, without some. */
export function labelText(metric: Labels, without: string[] = []): string {
  const labels = Object.entries(metric).filter(([k]) => k !== "__name__" && !without.includes(k));
  const inner = labels.map(([k, v]) => `${k}="${v}"`).join(", ");
  return `${metric["__name__"] ?? ""}${inner === "" ? "" : `{${inner}}`}` || "value";
}
