// Answers of the Prometheus API, turned into series for charts.

export interface Series {
  name: string;
  /** One value per time of the grid; null is a gap and stays one. */
  values: (number | null)[];
}

export interface Labelled {
  metric: { [label: string]: string };
}
export interface VectorRow extends Labelled {
  value: [number, string];
}

/** A value as Prometheus writes it: Number cannot read its infinite ones. */
export function numberOf(text: string): number {
  return Number(text.replace("Inf", "Infinity"));
}

/** Names in the order of their totals, the largest first; ties by name, so a refresh does not
 * shuffle them. Names without events are left out. */
export function rank(rows: VectorRow[], label: string): { name: string; total: number }[] {
  return rows
    .map((r) => ({ name: r.metric[label] ?? "", total: Number(r.value[1]) }))
    .filter((r) => r.name !== "" && r.total > 0)
    .sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
}

/** The seconds of the window with any data: if the monitor was down for half the window, averages
 * divide by half. */
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

/** The last value that is not a gap. */
export function latest(s: Series): number | null {
  return s.values.findLast((v) => v !== null) ?? null;
}

/** Stacked series, the first at the bottom. A missing value adds nothing; a step without any value
 * is a gap. */
export function stacked(lines: (number | null)[][]): (number | null)[][] {
  const sums = (lines[0] ?? []).map(() => 0);
  const gaps = sums.map((_, i) => lines.every((values) => values[i] == null));
  return lines.map((values) => values.map((v, i) => ((sums[i]! += v ?? 0), gaps[i] ? null : sums[i]!)));
}

/** Mean of the present values. */
export function mean(s: Series): number | null {
  const seen = s.values.filter((v) => v !== null);
  return seen.length === 0 ? null : seen.reduce((a, b) => a + b, 0) / seen.length;
}

/** A table as comma-separated text. */
export function csvOf(lines: (string | number | null)[][]): string {
  const cell = (v: string | number | null) => {
    const text = v === null ? "" : String(v);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return lines.map((l) => l.map(cell).join(",")).join("\n") + "\n";
}

/** Series as comma-separated text, times in ISO 8601. */
export function toCSV(grid: number[], series: Series[]): string {
  return csvOf([["time", ...series.map((s) => s.name)], ...grid.map((t, i) => [new Date(t * 1000).toISOString(), ...series.map((s) => s.values[i] ?? null)])]);
}
