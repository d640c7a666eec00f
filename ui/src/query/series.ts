// What the Prometheus API answers, turned into what a chart draws.

export interface Series {
  name: string;
  /** One value per time of the grid; null is a gap and stays one. */
  values: (number | null)[];
}

export interface Labelled {
  metric: { [label: string]: string };
}
export interface MatrixRow extends Labelled {
  values: [number, string][];
}
export interface VectorRow extends Labelled {
  value: [number, string];
}

/** A value as Prometheus writes it: infinite ones in a way that Number does not read. */
export function numberOf(text: string): number {
  return Number(text.replace("Inf", "Infinity"));
}

/** Puts samples on the grid; a grid time without a sample is a gap. */
export function align(grid: number[], row: MatrixRow): (number | null)[] {
  const first = grid[0] ?? 0;
  const step = grid.length > 1 ? grid[1]! - first : 1;
  const out: (number | null)[] = grid.map(() => null);
  for (const [t, v] of row.values) {
    const i = Math.round((t - first) / step);
    const x = Number(v);
    if (i >= 0 && i < out.length && Number.isFinite(x)) out[i] = x;
  }
  return out;
}

/** Names in the order of their totals, the largest first; ties by name, so that
 * a refresh does not shuffle them. Names without events are left out. */
export function rank(rows: VectorRow[], label: string): { name: string; total: number }[] {
  return rows
    .map((r) => ({ name: r.metric[label] ?? "", total: Number(r.value[1]) }))
    .filter((r) => r.name !== "" && r.total > 0)
    .sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
}

/** The k largest, and how much the rest makes up. */
export function fold(ranking: { name: string; total: number }[], k: number): { top: string[]; rest: number; restCount: number } {
  // One name alone needs no row called "others".
  const cut = ranking.length === k + 1 ? k + 1 : k;
  const rest = ranking.slice(cut);
  return { top: ranking.slice(0, cut).map((r) => r.name), rest: rest.reduce((s, r) => s + r.total, 0), restCount: rest.length };
}

/** For how many seconds of the window there is data at all: an average over a
 * window in which the monitor was down for half the time divides by half. */
export function observed(grid: number[], lines: (number | null)[][], w: { from: number; to: number; started: number | null }): number {
  const seen = grid.map((_, i) => lines.some((values) => values[i] !== null));
  const n = seen.filter(Boolean).length;
  const length = w.to - w.from;
  if (n === 0 || n >= grid.length) return length;
  const first = grid[seen.indexOf(true)] ?? w.from;
  if (w.started !== null && w.started > w.from && w.started <= first && seen.slice(seen.indexOf(true)).every(Boolean)) {
    return w.to - w.started;
  }
  return (length * n) / grid.length;
}

/** The last value that is no gap. */
export function latest(s: Series): number | null {
  return s.values.findLast((v) => v !== null) ?? null;
}

/** Mean of the values that are there. */
export function mean(s: Series): number | null {
  const seen = s.values.filter((v) => v !== null);
  return seen.length === 0 ? null : seen.reduce((a, b) => a + b, 0) / seen.length;
}

/** Comma-separated text with a header line, times in ISO 8601. */
export function toCSV(grid: number[], series: Series[]): string {
  const cell = (s: string) => (/[",\r\n]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
  const lines = [["time", ...series.map((s) => cell(s.name))].join(",")];
  grid.forEach((t, i) => lines.push([new Date(t * 1000).toISOString(), ...series.map((s) => s.values[i] ?? "")].join(",")));
  return lines.join("\n") + "\n";
}
