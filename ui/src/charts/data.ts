// The data of charts, and the hooks that fetch it.
import { useResource, type Resource } from "../api/resource";
import { queryAt, queryRange, queryTop } from "../query/feed";
import { increaseBy, others, rateBy, type Counter, type Match } from "../query/promql";
import { mean, rank, type Series } from "../query/series";
import { watched } from "../query/watched";
import { gridOf, type Window } from "../state/window";

export interface ChartData {
  grid: number[];
  series: Series[];
  /** Average over the window by series name. */
  means: Map<string, number | null>;
  /** The names are always the same: colours go by position. */
  fixed: boolean;
  /** The number of names in the series of the others. */
  folded: number;
  /** The range query, for the menu. */
  expr: string;
  /** The monitor's remarks on the sources of these values. */
  warnings: string[];
}

/** A window as a cache key. */
export function keyOf(w: Window): string {
  return `${w.from} ${w.to} ${w.step}`;
}

/** The k names with the most events in the window and the rest as one series. In a fixed window,
 * averages come from the counters' increase over exactly that window, because the points of the
 * chart are smoothed; in a live one they are those of the points. */
export function useTop(counter: Counter, by: string, matches: Match[], k: number, w: Window, wanted: boolean): Resource<ChartData> {
  const expr = rateBy(counter, by, matches, w);
  return useResource(wanted ? `${expr} ${keyOf(w)}` : null, async () => {
    const [top, exact] = await Promise.all([queryTop(expr, w, k), w.live ? null : exactly(counter, by, matches, w)]);
    const series: Series[] = top.rows.map((r) => ({ name: r.metric[by] || "(no name)", values: r.values }));
    const names = new Set(series.map((s) => s.name));
    if (top.rest) series.push({ name: others, values: top.rest });
    const grid = gridOf(w);
    const seen = grid.filter((_, i) => series.some((s) => s.values[i] != null)).length;
    const average = (s: Series) => {
      if (!exact) return s.values.reduce<number>((sum, v) => sum + (v ?? 0), 0) / seen;
      const total = s.name === others ? exact.totals.reduce((sum, t) => sum + (names.has(t.name) ? 0 : t.total), 0) : (exact.totals.find((t) => t.name === s.name)?.total ?? 0);
      return total / exact.seconds;
    };
    return { grid, series, means: new Map(series.map((s) => [s.name, average(s)])), fixed: false, folded: top.folded, expr, warnings: top.warnings };
  });
}

/** Events by name over exactly a window, and the seconds of it that were observed. */
async function exactly(counter: Counter, by: string, matches: Match[], w: Window): Promise<{ totals: { name: string; total: number }[]; seconds: number }> {
  const [totals, seconds] = await Promise.all([queryAt(increaseBy(counter, by, matches, w), w.to), watched(w)]);
  return { totals: rank(totals.rows, by), seconds };
}

/** One line of a chart with fixed lines. */
export interface Line {
  name: string;
  expr: string;
}

/** Named queries as one chart; a line whose metric does not exist is left out. */
export function useLines(lines: Line[], w: Window, wanted: boolean): Resource<ChartData> {
  // One request for all lines: a separate label identifies each result.
  const expr = lines.map((l) => `label_replace(${l.expr}, "line", ${JSON.stringify(l.name)}, "", "")`).join(" or ");
  return useResource(wanted ? `${expr} ${keyOf(w)}` : null, async () => {
    const grid = gridOf(w);
    const { rows, warnings } = await queryRange(expr, w);
    const series = lines.flatMap((l) => {
      const row = rows.find((r) => r.metric["line"] === l.name);
      return row ? [{ name: l.name, values: row.values }] : [];
    });
    return { grid, series, means: new Map(series.map((s) => [s.name, mean(s)])), fixed: true, folded: 0, expr, warnings };
  });
}

type Labels = { [label: string]: string };

/** How to name a series: by all its labels, by one of them, by several, by a function, or by the
 * labels in which the series of the answer differ. No label has a space in its name. */
export type Naming = string | readonly string[] | null | "what differs" | ((metric: Labels) => string);

function nameBy(by: Exclude<Naming, null>, metric: Labels): string {
  if (typeof by === "function") return by(metric);
  const labels = typeof by === "string" ? [by] : by;
  return labels.map((l) => metric[l] || "(no name)").join(", ");
}

/** Any query, one line per series. */
export function useQuery(expr: string, by: Naming, most: number, w: Window, wanted: boolean): Resource<ChartData> {
  return useResource(wanted && expr !== "" ? `${expr} ${keyOf(w)}` : null, async () => {
    const grid = gridOf(w);
    const { rows, warnings } = await queryRange(expr, w);
    const metrics = rows.map((r) => r.metric);
    const naming = by === "what differs" ? namesOf(metrics) : (by ?? labelTexts(metrics));
    const all = rows.map((r) => ({ name: nameBy(naming, r.metric), values: r.values }));
    const ranked = all.map((s) => ({ s, m: mean(s) ?? 0 })).sort((a, b) => b.m - a.m || (a.s.name < b.s.name ? -1 : 1));
    const series = ranked.slice(0, most).map((x) => x.s);
    return { grid, series, means: new Map(series.map((s) => [s.name, mean(s)])), fixed: false, folded: Math.max(0, all.length - most), expr, warnings };
  });
}

/** Names series by the values in which they differ. A single series, and series of which some lack a
 * label, are named by all their labels. */
export function namesOf(metrics: Labels[]): (metric: Labels) => string {
  const [first] = metrics;
  const labels = [...new Set(metrics.flatMap((m) => Object.keys(m)))];
  const differing = labels.filter((l) => metrics.some((m) => m[l] !== first?.[l])).sort();
  if (metrics.length < 2 || differing.length === 0 || !metrics.every((m) => differing.every((l) => m[l]))) return labelTexts(metrics);
  return (m) => differing.map((l) => m[l]).join(", ");
}

/** Names series by all their labels, except the job and the instance if they are equal everywhere,
 * as on one machine. */
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
